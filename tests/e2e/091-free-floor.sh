# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: with --free-floor a file of four times the room above the floor is read beside a neighbour's clean cache, and
# MemFree stays above it in 95 of 100 looks; without, it does not.
# natively by default
. "$(dirname "$0")/lib.sh"
[[ -w /sys/devices/system/node/node0/reclaim || -w /sys/fs/cgroup/memory.reclaim ]] ||
  skip "this host cannot: its kernel takes no order to reclaim"
ROOM_MIB=256
FILE=$WORK/large NEIGHBOURS=$WORK/neighbours
truncate -s $((4 * ROOM_MIB))M "$FILE"
truncate -s 2G "$NEIGHBOURS" # and what other processes may take of their own meanwhile
# settle: sets FLOOR to what is free with the neighbour's cache, less the room.
settle() {
  drop_caches
  cat "$NEIGHBOURS" >/dev/null
  FLOOR=$(($(free_mib) - ROOM_MIB))
}
free_mib() { awk '/^MemFree:/ {print int($2 / 1024)}' /proc/meminfo; }
# below FLOOR_MIB: reads the file, cold, and looks meanwhile; percent of the looks at which less was free.
below() {
  local reader looks=0 low=0
  # 64 MiB at a time, ten times a second: what is taken between two looks of ppcd.
  (for ((mib = 0; mib < 4 * ROOM_MIB; mib += 64)); do
    dd if="$FILE" of=/dev/null bs=1M count=64 skip=$mib status=none
    sleep 0.1
  done) &
  reader=$!
  while ! is_dead "$reader"; do
    looks=$((looks + 1))
    (($(free_mib) >= $1)) || low=$((low + 1))
    sleep 0.01
  done
  wait "$reader" || fail "the reader failed"
  echo "# counted: $looks looks, $low below" >&2
  echo $((low * 100 / looks))
}
settle
without=$(below "$FLOOR")
ge "$without" 20 "percent of the looks without a floor"
settle
# Before other processes: on a machine without a free CPU its looks are late.
before_others=()
if chrt -r 1 true 2>/dev/null; then before_others=(chrt -r 1); fi
"${before_others[@]}" ppcd --state-dir "$WORK" --free-floor "${FLOOR}M" >>"$WORK/ppcd.log" 2>&1 &
DAEMON=$!
within 20 ppcctl list >/dev/null 2>&1 || fail "ppcd does not answer: $(cat "$WORK/ppcd.log")"
le "$(below "$FLOOR")" 5 "percent of the looks with a floor of $FLOOR MiB"
asked=$(ppcctl status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["daemon"]["free_floor"]["asked_bytes"])')
ge "$asked" $((ROOM_MIB << 20)) "bytes that were asked for"
stop_daemon
