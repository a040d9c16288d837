#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: tracing sees every access, hits and existing mappings included, merged per reader.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 16M
mount_ppc
cat "$MNT/a" >/dev/null
out=$(dev 'attach trace' "open $MNT/a" 'sum 64K' close events)
eq "$(field counts access_bytes "$out")" $((16 * MIB)) "bytes accessed by read"
le "$(field counts access "$out")" 40 "events for a sequential read"
eq "$(field event flags "$out")" hit "flags of cached data"
ge "$(stat_of events_coalesced)" 200 "merged accesses"
out=$(dev 'attach trace' "open $MNT/a" mmap 'touch 0 16M' 'sleep 300' events)
eq "$(field counts access_bytes "$out")" $((16 * MIB)) "bytes accessed by mapping"
has "$(field event flags "$out")" mmap "flags by mapping"
# What was mapped before the trace began is seen too.
out=$(dev "open $MNT/a" mmap 'touch 0 16M' 'attach trace' 'touch 4M 4M' 'sleep 300' events)
eq "$(field counts access_bytes "$out")" $((4 * MIB)) "bytes accessed in an old mapping"
eq "$(field event off "$out")" $((4 * MIB)) "where"
# Cold: the same, marked as no hits; misses are sent as well.
drop_caches
out=$(dev 'attach trace managed' "open $MNT/a" 'sum 64K' 'sleep 300' counts)
eq "$(field counts access_bytes "$out")" $((16 * MIB)) "bytes accessed cold"
ge "$(field counts miss_read "$out")" 16 "misses while tracing"
ge "$(field counts access "$out")" 2 "accesses cold"
# By a mapping: where a fault maps a whole large folio, all of it is told, once.
drop_caches
out=$(dev 'attach trace' "open $MNT/a" mmap 'touch 0 16M' 'sleep 300' counts)
eq "$(field counts access_bytes "$out")" $((16 * MIB)) "bytes accessed cold by mapping"
ge "$(field counts miss_fault "$out")" 1 "faults that missed while tracing"
out=$(dev 'attach trace' "open $MNT/a" mmap 'touch 0 16M' 'sleep 300' counts)
eq "$(field counts access_bytes "$out")" $((16 * MIB)) "bytes accessed by mapping what faults have read"
# Two threads in different places do not mix.
out=$(dev 'attach trace' "open $MNT/a" mmap 'thread touch 0 4M' 'thread touch 8M 4M' join 'sleep 300' counts)
eq "$(field counts access_bytes "$out")" $((8 * MIB)) "bytes of two threads"
# The pending access comes without another one following.
out=$(dev 'attach trace' "open $MNT/a" 'read 0 4K' 'sleep 400' counts)
eq "$(field counts access "$out")" 1 "a lone access"
# At once, when the event reader asks.
out=$(dev 'attach trace' "open $MNT/a" 'read 0 4K' flush counts)
eq "$(field counts access "$out")" 1 "a lone access that is asked for"
