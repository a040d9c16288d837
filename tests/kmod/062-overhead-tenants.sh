#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: beside a task that floods the events a quiet one loses none of its own, and its load takes no more
# than 1.05 times as long as beside the same flood on a plain directory.
# Only --icount
# Once
. "$(dirname "$0")/lib.sh"

make_file quiet 16M
make_file flood 2M
mount_ppc
cat "$BASE/flood" >/dev/null
# flood DIR: one byte at a time from place to place, and files opened and closed, until it is killed.
flood() {
  exec python3 -c 'import os, sys
name = sys.argv[1] + "/flood"
f = os.open(name, os.O_RDONLY)
while True:
    for i in range(256): os.pread(f, 1, i % 32 * 65536)
    for i in range(16): os.close(os.open(name, os.O_RDONLY))' "$1"
}
# load: microseconds that the quiet one's cold load takes, by a clock that counts instructions.
load() {
  local from
  drop_caches
  sleep 0.3
  from=${EPOCHREALTIME/./}
  must ppcdev "open $MNT/quiet" 'read 0 16M 256K'
  echo $((${EPOCHREALTIME/./} - from))
}
ppcdev "dev $DEV" 'attach managed beacon=64K openclose lease=600000' 'consume 600000' >/dev/null &
within 900 grep -q attached "$SYS/state" || fail "no reader attached"
here=() plain=()
for ((round = 0; round < 9; round++)); do
  for place in "$BASE" "$MNT"; do
    flood "$place" &
    flooder=$!
    took=$(load)
    if [[ $place == "$MNT" ]]; then here+=("$took"); else plain+=("$took"); fi
    kill $flooder
    wait $flooder 2>/dev/null
  done
done
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
echo "us, beside a flood here: ${here[*]}; on a plain directory: ${plain[*]}"
ge "$(stat_of events_dropped_flood)" 1000 "events of the flood that were left out"
eq "$(stat_of events_dropped_full) $(stat_of events_dropped_detached)" "0 0" "events of anybody for want of room"
ge $((105 * $(median "${plain[@]}"))) $((100 * $(median "${here[@]}"))) "105 x plain, 100 x here"
