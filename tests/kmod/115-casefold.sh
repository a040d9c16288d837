#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a lower directory whose names differ in more than case: renames below are seen, whichever
# case a name was looked up in.
# Once
. "$(dirname "$0")/lib.sh"

modprobe loop 2>/dev/null
truncate -s 32M "$PPC_TEST_DIR/image"
mkfs.ext4 -q -O casefold "$PPC_TEST_DIR/image" || skip "mkfs.ext4 knows no casefold"
mount -o loop "$PPC_TEST_DIR/image" "$BASE" 2>/dev/null || skip "ext4 without casefold"
trap 'status=$?; umount "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
mkdir "$BASE/dir"
chattr +F "$BASE/dir" || skip "chattr knows no +F"
echo old >"$BASE/dir/Model"
mount_ppc
for name in Model model MODEL; do eq "$(cat "$MNT/dir/$name")" old "$name"; done
echo new >"$BASE/dir/next"
mv "$BASE/dir/Model" "$BASE/dir/model.bak" && mv "$BASE/dir/next" "$BASE/dir/Model"
for name in Model model MODEL; do eq "$(cat "$MNT/dir/$name")" new "$name after a rename over it"; done
eq "$(cat "$MNT/dir/MODEL.BAK")" old "the renamed one"
mv "$BASE/dir/Model" "$BASE/dir/other"
for name in Model model MODEL; do refuse "No such file" cat "$MNT/dir/$name"; done
eq "$(cat "$MNT/dir/OTHER")" new "renamed away"
must umount "$MNT"
must umount "$BASE"
