#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a ppc mount over btrfs.
# Once
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lower.sh"

{ modprobe btrfs && command -v mkfs.btrfs; } >/dev/null 2>&1 || skip "no btrfs"
truncate -s 160M "$PPC_TEST_DIR/image"
must mkfs.btrfs -q -m single "$PPC_TEST_DIR/image"
must mount -o loop,noatime "$PPC_TEST_DIR/image" "$BASE"
trap 'status=$?; umount "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
make_tree "$BASE"
must btrfs -q subvolume create "$BASE/volume"
echo in >"$BASE/volume/in"
mount_ppc
check_lower "$BASE"
eq "$(cat "$MNT/volume/in")" in "a subvolume"
[[ $(stat -c %i "$MNT/volume") == "$(stat -c %i "$BASE/volume")" ]] || fail "inode of a subvolume"
must btrfs -q subvolume snapshot -r "$BASE" "$BASE/snap"
must cmp "$MNT/snap/a" "$BASE/a"
# A snapshot has the same numbers, and is another file; what belongs to BASE's own volume has the mount's.
eq "$(stat -c %d "$MNT/a")" "$(stat -c %d "$MNT")" "device of a file"
eq "$(stat -c %i "$MNT/snap/a")" "$(stat -c %i "$MNT/a")" "number of a file and its snapshot"
eq "$(stat -c %d "$MNT/snap/a")" "$(stat -c %d "$BASE/snap/a")" "device of a snapshot"
mv "$BASE/a" "$BASE/b" && cp --reflink=always "$BASE/b" "$BASE/a"
must cmp "$MNT/a" "$BASE/b"
must umount "$MNT"
must umount "$BASE"
