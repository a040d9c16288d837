#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a full ring drops, counts and says so; no task waits; sequence numbers show the gap.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 8M
mount_ppc queue=64
drop_caches
# 2048 absent pages, every second one read: more misses than two rings of 64 hold.
out=$(dev attach "open $MNT/a" 'advise f random' "sh taskset -p 1 \$PPID >/dev/null" \
  "sh exec python3 -c 'import os
f = os.open(\"$MNT/a\", os.O_RDONLY)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_RANDOM)
for i in range(0, 2048, 4): os.pread(f, 4096, i * 4096)'" events info)
eq "$(field attach entries "$out")" 64 "entries of a ring"
le "$(field counts all "$out")" 128 "events in two rings of 64"
dropped=$(field info dropped "$out")
ge "$dropped" $((512 - 128)) "dropped events"
eq "$(($(field info queued "$out") + dropped))" 512 "queued and dropped"
eq "$(stat_of events_dropped)" "$dropped" "in sysfs"

# The next one that finds room carries LOST, and the sequence number has a gap.  One task alone does
# not fill a ring, so each event is another's.
drop_caches
out=$(taskset -c 0 ppcdev "dev $DEV" attach "open $MNT/a" 'advise f random' "sh exec python3 -c 'import os
f = os.open(\"$MNT/a\", os.O_RDONLY)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_RANDOM)
for i in range(128):
    child = os.fork()
    if not child:
        os.pread(f, 4096, i * 4096)
        os._exit(0)
    os.waitpid(child, 0)'" events \
  "sh echo 3 >/proc/sys/vm/drop_caches" 'read 1M 8K 4K' events) || fail lost
eq "$(field counts all "$out" 1)" 64 "events in the full ring"
eq "$(field counts lost "$out" 2)" 1 "LOST marks after the overflow"
has "$(field event flags "$out" 65)" lost "flags of the first event after the overflow"
eq "$(($(field event seq "$out" 65) - $(field event seq "$out" 64)))" 65 "gap in the sequence"
