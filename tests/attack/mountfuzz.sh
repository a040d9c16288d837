#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: mounts with valid, invalid and huge options and paths: only documented answers.
. "$(dirname "$0")/../kmod/lib.sh"

mkdir -p "$MNT"
must ppc-attack make path="$BASE/a0" bytes=64K
ppc-attack mountfuzz base="$BASE" mnt="$MNT" "$@" || fail "the fuzzer found something"
