#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a consumer killed a thousand times under load: native at once, no byte wrong.
. "$(dirname "$0")/../kmod/lib.sh"

for i in 0 1 2 3; do must ppc-attack make path="$BASE/a$i" bytes=4M; done
mount_ppc
ppc-attack kills mnt="$MNT" "$@" || fail "killing consumers did harm"
must umount "$MNT"
