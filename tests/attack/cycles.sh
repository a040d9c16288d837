#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a thousand mounts, each used once and unmounted, leave nothing behind.
. "$(dirname "$0")/../kmod/lib.sh"

mkdir -p "$MNT"
must ppc-attack make path="$BASE/a0" bytes=1M
ppc-attack cycles base="$BASE" mnt="$MNT" "$@" || fail "mounting again and again did harm"
