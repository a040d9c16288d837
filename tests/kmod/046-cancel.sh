#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a newer generation, a signal and an unmount each stop LOAD within a step.
# Once
. "$(dirname "$0")/lib.sh"

[[ -n $PPC_TEST_SLOW && -d $PPC_TEST_SLOW ]] || skip "no slow disk"
BASE=$PPC_TEST_SLOW/ppc-base
mkdir -p "$BASE"
head -c 96M /dev/urandom >"$BASE/a" && sync
mount_ppc
STEP=$((2 * MIB))
drop_caches
# 20 MB/s: 96 MiB take 5 s.
out=$(dev 'lookup a' 'thread load 0 - wait slot=3 gen=7' 'sleep 1000' 'cancel 3 7' 'sleep 500' \
  'cancel 2 100' 'sleep 200' 'resident 0' 'cancel 3 8' join 'resident 0' 'load 64M 4M wait slot=3 gen=7' \
  'load 64M 4M wait slot=3 gen=8' 'cancel 3 1' 'load 68M 2M slot=3 gen=8')
eq "$(field load stop "$out" 1)" 3 "cancelled"
done_bytes=$(field load "done" "$out" 1)
le "$done_bytes" $((80 * MIB)) "considered before the cancellation"
le $((done_bytes - $(field resident resident "$out" 1))) $((4 * STEP)) "went on after the cancellation"
eq $((done_bytes % STEP)) 0 "stops between steps"
eq "$(field load loaded "$out" 1)" "$done_bytes" "what was done is there"
eq "$(field load stop "$out" 2) $(field load "done" "$out" 2)" "3 0" "an old generation does not start"
eq "$(field load stop "$out" 3)" 0 "the new one does"
eq "$(field load stop "$out" 4)" 0 "a lower generation never comes back"

# A file that becomes shorter meanwhile: its end, not a want of memory.
head -c 64M "$BASE/a" >"$BASE/short" && sync "$BASE/short"
drop_caches
out=$(dev 'lookup short' 'thread load 0 - wait' 'sleep 700' "sh truncate -s 1M $BASE/short" join)
eq "$(field load stop "$out")" 1 "stopped at the new end"
rm "$BASE/short"

# A signal.
drop_caches
out=$(dev 'lookup a' 'alarm 700' 'load 0 96M wait')
eq "$(field load stop "$out")" 2 "stopped by a signal"
done_bytes=$(field load "done" "$out")
le "$done_bytes" $((90 * MIB - 1)) "considered before the signal"
eq $((done_bytes % STEP)) 0 "stops between steps"

# kill -9 of the loader.
drop_caches
ppcdev "dev $DEV" 'lookup a' 'load 0 - wait' >/dev/null &
pid=$!
sleep 0.7
kill -9 $pid
within "$(seconds 4)" sh -c "! kill -0 $pid 2>/dev/null" || fail "the loader cannot be killed"

# Unmount while LOAD runs.
drop_caches
ppcdev "dev $DEV" 'lookup a' 'load 0 - wait' '!ENODEV info' 'poll 0' >"$PPC_TEST_DIR/out" &
pid=$!
sleep 0.7
began=$SECONDS
must umount "$MNT"
le $((SECONDS - began)) "$(seconds 4)" "seconds to unmount under LOAD"
wait $pid || fail "loader after the unmount"
eq "$(field load stop "$(cat "$PPC_TEST_DIR/out")")" 4 "stopped by the unmount"
eq "$(field poll hup "$(cat "$PPC_TEST_DIR/out")")" 1 "POLLHUP after the unmount"
rm -rf "$BASE"
exit 0
