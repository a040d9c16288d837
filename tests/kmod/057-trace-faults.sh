#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: while tracing, faults that wait for pages others are reading are hits, however many threads
# wait at the same time.
# Once
. "$(dirname "$0")/lib.sh"

[[ -n $PPC_TEST_SLOW && -d $PPC_TEST_SLOW ]] || skip "no slow disk"
BASE=$PPC_TEST_SLOW/ppc-base
mkdir -p "$BASE"
trap 'status=$?; (exit $status); clean_up; rm -rf "$BASE"' EXIT
head -c 24M /dev/urandom >"$BASE/a" && sync "$BASE/a"
mount_ppc
drop_caches
# Submitted, not waited for: at 20 MB/s the last page is a second away.
out=$(dev 'attach trace' 'lookup a' "open $MNT/a" mmap 'load 0 -' 'thread touch 4M 1' 'thread touch 8M 1' \
  'thread touch 12M 1' 'thread touch 16M 1' 'thread touch 20M 1' join 'sleep 300' events)
echo "$out"
eq "$(field counts miss_fault "$out")" 0 "misses of pages that are being read"
eq "$(field counts access "$out") $(field counts hit "$out")" "5 5" "accesses, and hits among them"
rm -rf "$BASE"
exit 0
