#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a task that floods the rings, by events that cost it nothing or by real ones, alone or as a cgroup of
# many, loses its own and has the reader woken only so often; others on the same ring lose none.
# Once
. "$(dirname "$0")/lib.sh"

make_file flood 4M
make_file quiet 4M
mount_ppc queue=128
# Rings of 128 and no consumer that empties them: a flood of misses, then another task's few on the same CPU.
drop_caches
out=$(taskset -c 0 ppcdev "dev $DEV" attach "open $MNT/quiet" 'advise f random' "sh exec python3 -c 'import os
f = os.open(\"$MNT/flood\", os.O_RDONLY)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_RANDOM)
for i in range(512): os.pread(f, 4096, i * 4096)'" 'read 0 20K 4K' "sh echo pid n=\$PPID" events)
quiet=$(grep -cE "^event .*tgid=$(field pid n "$out")( |$)" <<<"$out")
eq "$quiet" 5 "events of the quiet task: $out"
eq "$(field counts lost "$out")" 0 "LOST marks"
ge "$(stat_of events_dropped_flood)" 400 "dropped events of the flood"
eq "$(stat_of events_dropped_full)" 0 "events dropped because a ring was full"

# The same by many tasks of one cgroup, none of which does much: it leaves an eighth of the ring to others.
must umount "$MNT"
mount_ppc queue=128
crowd=/sys/fs/cgroup/ppc-crowd-$$
mkdir "$crowd" || fail "no cgroup2"
trap 'status=$?; rmdir "$crowd" 2>/dev/null; (exit $status); clean_up' EXIT
drop_caches
cat >"$PPC_TEST_DIR/crowd.py" <<PY
import os
with open("$crowd/cgroup.procs", "w", encoding="ascii") as procs: procs.write("0")
for task in range(32):
    if os.fork(): os.wait(); continue
    f = os.open("$MNT/flood", os.O_RDONLY)
    os.posix_fadvise(f, 0, 0, os.POSIX_FADV_RANDOM)
    for i in range(8): os.pread(f, 4096, (task * 8 + i) * 4096)
    os._exit(0)
PY
out=$(taskset -c 0 ppcdev "dev $DEV" attach "open $MNT/quiet" 'advise f random' "sh exec python3 $PPC_TEST_DIR/crowd.py" \
  'read 0 20K 4K' "sh echo pid n=\$PPID" events)
quiet=$(grep -cE "^event .*tgid=$(field pid n "$out")( |$)" <<<"$out")
eq "$quiet" 5 "events beside a crowd's: $out"
eq "$(field counts lost "$out")" 0 "LOST marks beside a crowd"
ge "$(stat_of events_dropped_flood)" 128 "dropped events of the crowd"
eq "$(stat_of events_dropped_full)" 0 "events dropped because a crowd filled a ring"

# Positions told at no cost: one byte at a time, from place to place, and files opened and closed.
must umount "$MNT"
mount_ppc
cat "$MNT/flood" >/dev/null
before=$(stat_of wakeups) queued=$(stat_of events_queued)
out=$(dev 'attach beacon beacon=64K openclose' 'thread consume 1500' 'sleep 300' "sh exec python3 -c 'import os
f = os.open(\"$MNT/flood\", os.O_RDONLY)
for i in range(20000): os.pread(f, 1, i % 64 * 65536)
for i in range(3000): os.close(os.open(\"$MNT/flood\", os.O_RDONLY))'" join)
told=$(($(stat_of events_queued) - queued)) woken=$(($(stat_of wakeups) - before))
echo "$told of 26000 events told, woken $woken times; $out"
ge "$told" 1024 "events of a flood that are told"
le "$told" 16000 "events of a flood that are told"
le "$woken" 4000 "wake-ups of a flood"
eq "$(($(stat_of events_dropped_flood) + told))" 26002 "told or counted"

# A fast reader is no flood: from beacon to beacon, file after file, it loses nothing.
must umount "$MNT"
mount_ppc
cat "$MNT/flood" >/dev/null
out=$(dev 'attach beacon beacon=64K openclose' "sh exec python3 -c 'import os
for turn in range(64):
    f = os.open(\"$MNT/flood\", os.O_RDONLY)
    for i in range(64): os.pread(f, 65536, i * 65536)
    os.close(f)'" counts)
eq "$(stat_of events_dropped_flood)" 0 "dropped events of a fast reader"
eq "$(field counts progress "$out")" 4096 "positions of a fast reader"
eq "$(field counts open "$out") $(field counts close "$out")" "64 64" "its opens and closes"

# A task that opens files without end loses no other's positions, and each OPEN that is told has its CLOSE.
must umount "$MNT"
mount_ppc
cat "$MNT/flood" >/dev/null
out=$(dev 'attach beacon beacon=64K openclose' "sh exec python3 -c 'import os
for i in range(10000): os.close(os.open(\"$MNT/quiet\", os.O_RDONLY))
f = os.open(\"$MNT/flood\", os.O_RDONLY)
for i in range(64): os.pread(f, 65536, i * 65536)'" counts)
eq "$(field counts progress "$out")" 64 "positions after many opens"
ge "$(field counts open "$out")" 1024 "opens that are told"
ge "$(field counts close "$out")" "$(field counts open "$out")" "closes of opens that were told"
