#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: BASE may be the mount point itself; unmounting restores the original.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 3M
sum=$(md5sum <"$BASE/a")
must mount -t ppc "$BASE" "$BASE"
find_device "$BASE"
eq "$(md5sum <"$BASE/a")" "$sum" "content"
refuse "Read-only file system" touch "$BASE/b"
has "$(grep "^ppc:" /proc/mounts)" "ppc:$BASE $BASE ppc ro" "shown source"
# The lower mount's own path must not name this mount.
umount "$PPC_TEST_DIR" 2>/dev/null && fail "unmounted by another path"
must umount "$BASE"
must touch "$BASE/b"
eq "$(md5sum <"$BASE/a")" "$sum" "content afterwards"

# Twice on the same place: each is its own mount with its own device.
must mount -t ppc "$BASE" "$BASE"
must mount -t ppc "$BASE" "$BASE"
eq "$(md5sum <"$BASE/a")" "$sum" "content through two"
eq "$(grep -c '^ppc:' /proc/mounts)" 2 "mounts"
must umount "$BASE"
eq "$(md5sum <"$BASE/a")" "$sum" "content through one"
must umount "$BASE"
must touch "$BASE/c"
