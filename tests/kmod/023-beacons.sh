#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: with beacons a reader of cached data tells its position once per distance, by read
# and by mapping; fault-around leaves only the beacon pages out.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 16M
mount_ppc
cat "$MNT/a" >/dev/null
# Each ring is told in its own order, and a reader may change its CPU.
by_offset() { sort -s -t= -k5,5n <<<"$1"; }
out=$(dev 'attach beacon' "open $MNT/a" 'sum 64K' events 'sum 16M' counts)
eq "$(field counts progress "$out" 1)" 4 "PROGRESS by 64 KiB reads of 16 MiB at 4 MiB"
out=$(by_offset "$out")
for i in 1 2 3 4; do
  eq "$(field event off "$out" $i)" $(((i - 1) * 4 * MIB)) "position $i"
  eq "$(field event flags "$out" $i)" hit "flags $i"
done
out=$(dev 'attach beacon beacon=64K' "open $MNT/a" 'read 0 1M 4K' counts)
eq "$(field counts progress "$out")" 16 "PROGRESS at 64 KiB"
out=$(dev attach "open $MNT/a" sum counts)
eq "$(field counts all "$out")" 0 "events of hits without beacons"

# Mapped: each beacon page is touched first through the fault handler.
out=$(dev 'attach beacon' "open $MNT/a" mmap 'touch 0 16M' events)
eq "$(field counts progress "$out")" 4 "PROGRESS by touching a mapping"
out=$(by_offset "$out")
for i in 1 2 3 4; do
  eq "$(field event off "$out" $i)" $(((i - 1) * 4 * MIB)) "mapped position $i"
  eq "$(field event flags "$out" $i)" hit,mmap "mapped flags $i"
done
out=$(dev 'attach beacon beacon=64K' "open $MNT/a" mmap 'touch 0 16M step=16K' counts)
eq "$(field counts progress "$out")" 256 "PROGRESS at 64 KiB, mapped"
# What is mapped together with a beacon page (a large folio, by newer kernels) does not hide it.
drop_caches
cat "$MNT/a" >/dev/null
out=$(dev 'attach beacon' "open $MNT/a" mmap 'touch 4K 15M' 'touch 0 4K' counts)
eq "$(field counts progress "$out")" 4 "PROGRESS by touching the first page last"
out=$(dev 'attach beacon beacon=64K' "open $MNT/a" mmap 'touch 60K 15M' 'touch 0 4K' counts)
ge "$(field counts progress "$out")" 16 "PROGRESS at less than a folio"
# Each process that maps tells its own position.
out=$(dev 'attach beacon' "open $MNT/a" mmap 'fork touch 0 16M' 'fork touch 0 16M' events)
eq "$(field counts progress "$out")" 8 "PROGRESS by two processes"
# A miss has told the position already.
drop_caches
out=$(dev 'attach beacon managed' "open $MNT/a" 'read 0 1M 1M' counts)
eq "$(field counts miss_read "$out") $(field counts progress "$out")" "1 0" "miss instead of PROGRESS"
# Backwards and again: positions are told anew once the reader has been elsewhere.
out=$(dev 'attach beacon' "open $MNT/a" 'read 12M 4K 4K' 'read 0 4K 4K' counts)
ge "$(field counts all "$out")" 2 "events of going backwards"
