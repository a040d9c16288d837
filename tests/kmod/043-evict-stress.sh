#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: evicting, loading, attaching and detaching at full speed under readers that map and read
# changes no byte.
# Once unless --all
. "$(dirname "$0")/lib.sh"

make_file a 6M
want=$(field read hash "$(ppcdev "open $BASE/a" sum)")
mount_ppc
reader() {
  local i out
  for i in 1 2 3 4; do
    out=$(ppcdev "open $MNT/a" mmap msum 'sum 64K' 'mmap write' 'touch 0 64K write' munmap mmap msum) || return 1
    [[ $(field msum hash "$out" 1) == "$want" && $(field read hash "$out") == "$want" &&
      $(field msum hash "$out" 2) == "$want" ]] || { echo "$out" && return 1; }
  done
}
loop() {
  local commands=() i
  for i in $(seq 400); do
    commands+=("evict $((i % 6))M 2M unmap" "load $((i % 5))M 1M" 'evict 0 - unmap drain' 'drop')
    ((i % 10)) || commands+=(detach 'attach managed beacon')
    ((i % 17)) || commands+=('attach trace managed' 'attach managed')
  done
  ppcdev "dev $DEV" 'attach managed' 'lookup a' "${commands[@]}" >/dev/null
}
loop &
evictor=$!
reader >"$PPC_TEST_DIR/r1" 2>&1 & r1=$!
reader >"$PPC_TEST_DIR/r2" 2>&1 & r2=$!
wait $r1 || fail "reader 1: $(tail -3 "$PPC_TEST_DIR/r1")"
wait $r2 || fail "reader 2: $(tail -3 "$PPC_TEST_DIR/r2")"
kill $evictor 2>/dev/null
wait $evictor
evicted=$(stat_of evicted_bytes)
ge "$evicted" $((8 * MIB)) "bytes evicted meanwhile"
