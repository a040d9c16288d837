#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: while a fault submits a large demand window, other threads of the process may change their
# mappings.
# Once
. "$(dirname "$0")/lib.sh"

[[ -n $PPC_TEST_SLOW && -d $PPC_TEST_SLOW ]] || skip "no slow disk"
if kernel_before 5.15; then
  # The window is the lower file system's own read-around, which drops the lock.
  exit 0
fi
BASE=$PPC_TEST_SLOW/ppc-base
mkdir -p "$BASE"
trap 'status=$?; (exit $status); clean_up; rm -rf "$BASE"' EXIT
head -c 32M /dev/urandom >"$BASE/a" && sync "$BASE/a"
# At 20 MB/s and four requests in flight at most, submitting 32 MiB takes a second and a half.
number=$(stat -c %d "$BASE")
echo 4 >"/sys/dev/block/$((number >> 8)):$((number & 255))/queue/nr_requests" || fail "requests of the slow disk"
mount_ppc window=32M
drop_caches
out=$(dev 'attach managed' "open $MNT/a" mmap 'thread touch 0 1' 'sleep 500' 'mprotect write' 'say changed' join)
echo "$out"
eq "$(grep -nE '^(touch|changed)' <<<"$out" | head -1 | cut -d: -f2 | cut -c1-7)" changed "what was done first"
# The page is there at the second try; nothing is missed twice.
out=$(dev 'attach managed' "open $MNT/a" mmap 'touch 0 32M' counts)
eq "$(field counts miss_fault "$out")" 0 "misses after the window"
rm -rf "$BASE"
exit 0
