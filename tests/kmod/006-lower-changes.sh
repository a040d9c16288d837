#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: whatever changes below shows here at the next look.
. "$(dirname "$0")/lib.sh"

mount_ppc
: >"$BASE/early"
mkdir -p "$BASE/a" "$BASE/b"
refuse "No such file" cat "$MNT/a/x"
echo one >"$BASE/a/x"
eq "$(cat "$MNT/a/x")" one "created below"
echo more >>"$BASE/a/x"
eq "$(wc -c <"$MNT/a/x")" 9 "appended below"
mv "$BASE/a/x" "$BASE/b/x"
refuse "No such file" cat "$MNT/a/x"
eq "$(head -1 "$MNT/b/x")" one "moved to another directory"
mv "$BASE/b/x" "$BASE/b/y"
refuse "No such file" cat "$MNT/b/x"
eq "$(head -1 "$MNT/b/y")" one renamed
echo two >"$BASE/b/new" && mv "$BASE/b/new" "$BASE/b/y"
eq "$(cat "$MNT/b/y")" two "replaced by rename"
rm "$BASE/b/y"
refuse "No such file" cat "$MNT/b/y"
echo three >"$BASE/b/y"
eq "$(cat "$MNT/b/y")" three "made again"
mv "$BASE/b" "$BASE/a/b"
refuse "No such file" ls "$MNT/b"
eq "$(cat "$MNT/a/b/y")" three "directory moved"
mkdir "$BASE/b" && echo four >"$BASE/b/y"
eq "$(cat "$MNT/b/y")" four "directory replaced"
# Swapped names.
echo p >"$BASE/p" && echo q >"$BASE/q"
eq "$(cat "$MNT/p" "$MNT/q" | tr -d '\n')" pq before
mv "$BASE/p" "$BASE/t" && mv "$BASE/q" "$BASE/p" && mv "$BASE/t" "$BASE/q"
eq "$(cat "$MNT/p" "$MNT/q" | tr -d '\n')" qp swapped
chmod 600 "$BASE/p"
eq "$(stat -c %a "$MNT/p")" 600 mode
rm -r "$BASE/a"
refuse "No such file" ls "$MNT/a/b"

# An open file goes on; its name follows a rename below.
make_file r 2M
out=$(dev "open $MNT/r" 'lookup r' name "sh mv $BASE/r $BASE/r2" name sum \
  "sh rm $BASE/r2" '!ESTALE name' sum)
eq "$(field name name "$out" 1)" r "name before"
eq "$(field name name "$out" 2)" r2 "name after the rename below"
eq "$(field read hash "$out" 1)" "$(field read hash "$out" 2)" "content of a deleted open file"

# Truncated while it is read and mapped: end of file, no stale bytes.
make_file s 1M
dev "open $MNT/s" 'read 0 1M' "sh truncate -s 100 $BASE/s" 'read 0 1M' >"$PPC_TEST_DIR/out" || fail s
eq "$(field read bytes "$(cat "$PPC_TEST_DIR/out")" 2)" 100 "bytes after truncation"
