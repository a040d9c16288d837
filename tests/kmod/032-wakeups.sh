#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Once
# Description: a sleeping reader is woken at most twice a MiB by a cold sequential mapping, managed
# or not, gets every event, and is not forgotten over events that could wait.
. "$(dirname "$0")/lib.sh"

make_file a 16M
mount_ppc
# cold ATTACH ADVICE EVENTS: 16 MiB are read; that many misses, all of them consumed.
cold() {
  local before after try
  # A guest that is held up long enough is woken once more by the clock, or its reader has gone before all
  # was touched; not each time.
  for try in 1 2 4; do
    drop_caches
    before=$(stat_of wakeups)
    out=$(dev "attach $1" "open $MNT/a" mmap "advise m $2" "thread consume $((1500 * try))" 'sleep 200' 'touch 0 16M' join)
    after=$(($(stat_of wakeups) - before))
    echo "$1 $2, try $try: $after wake-ups, $(stat_of wakeups_late) late: $out"
    [[ $out != *"consume events"*"touch sum"* ]] || continue
    eq "$(field consume events "$out")" "$3" "events, attach $1, $2"
    ge "$after" 1 "wake-ups, attach $1, $2"
    ((after > 32)) || return 0
  done
  [[ $out != *"consume events"*"touch sum"* ]] || fail "16 MiB were not touched in 6 s, attach $1, $2"
  fail "wake-ups for 16 MiB, attach $1, $2: got $after, want at most 32"
}
# Native read-around stays ahead of a reader that began at the first page; without it each page is
# an absent extent.
cold '' normal 1
cold '' random 4096
# Before 5.15 the window is the lower read-around made larger, which stays ahead as well.
windows=(16 256)
if kernel_before 5.15; then windows=(1 1); fi
cold managed normal "${windows[0]}"
cold 'managed window=64K' normal "${windows[1]}"
eq "$(stat_of events_dropped)" 0 "dropped events"

# A miss behind one that was told wakes the reader as well, within a moment.
asleep="sh for _ in \$(seq 200); do cat /proc/\$PPID/task/*/stack | grep -q poll && break; sleep 0.05; done"
# A guest that is held up finds the reader on its way to sleep; not each time.
for _ in 1 2 3; do
  drop_caches
  out=$(dev attach "open $MNT/a" mmap 'touch 0 1' drop 'thread poll 10000 sleepy' "$asleep" 'sleep 100' \
    "sh echo late n=\$(cat $SYS/wakeups_late)" 'touch 512K 1' join "sh echo late n=\$(cat $SYS/wakeups_late)")
  eq "$(field poll in "$out")" 1 "woken by the second miss"
  late=$(($(field late n "$out" 2) - $(field late n "$out" 1)))
  ((late == 0)) || break
done
eq "$late" 1 "late wake-ups"
