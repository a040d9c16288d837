#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a ppc mount over tmpfs.
# Once
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lower.sh"

must mount -t tmpfs tmpfs "$BASE"
trap 'status=$?; umount "$PPC_TEST_DIR/top" "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
make_tree "$BASE"
mount_ppc
check_lower "$BASE" noload
out=$(dev "lookup a" attach "evict 0 - unmap drain")
eq "$(field evict dropped "$out")" 0 "evicted of what has no other place"
must cmp "$MNT/a" "$BASE/a"
# What is in memory beside our inode is not for telling; nor may a program take our file for a memfd.
eq "$(ppc-answers seals "$BASE/a")" "seals ok 1" "seals of the lower file"
eq "$(ppc-answers seals "$MNT/a")" "seals EINVAL 0" "seals"
# Its files do not show the cache; who is mounted on it looks at the cache all the same.
mkdir "$PPC_TEST_DIR/top"
must mount -t ppc "$MNT" "$PPC_TEST_DIR/top"
outer=$(mountpoint -d "$PPC_TEST_DIR/top") second=''
for dir in /sys/fs/ppc/*/; do
  [[ $(cat "$dir/dev") != "$outer" ]] || second=/dev/ppc$(basename "$dir")
done
out=$(ppcdev "dev $second" attach "open $PPC_TEST_DIR/top/a" sum counts) || fail "ppc over ppc"
eq "$(field counts miss_read "$out")" 0 "misses of what is in memory"
eq "$(ppc-answers seals "$PPC_TEST_DIR/top/a")" "seals EINVAL 0" "seals through two"
must umount "$PPC_TEST_DIR/top"
must umount "$MNT"
must umount "$BASE"
