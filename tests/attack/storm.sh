#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: an event storm with a reader that does not consume: no task waits, nothing is wrong, each
# event is in a ring or counted as dropped; and its lease runs out.
. "$(dirname "$0")/../kmod/lib.sh"

for i in 0 1 2 3 4 5 6 7; do must ppc-attack make path="$BASE/a$i" bytes=2M; done
mount_ppc queue=4096
ppc-attack storm mnt="$MNT" "$@" || fail "the storm did harm"
must umount "$MNT"
