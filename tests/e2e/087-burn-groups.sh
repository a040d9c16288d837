# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: two processes that map the model, touch all of it and keep it, with memory for less than half of it: read
# once, and the kernel next to never has to reclaim; no group is left behind, of a killed runner neither.
# needs observer
. "$(dirname "$0")/maio.sh"
# mapper.py DIR OWN OTHERS: writes how far it is to OWN and is never 4 MiB ahead of OTHERS, as ranks that work together:
# one that the machine starves would else read again what was evicted behind the other.
cat >"$WORK/mapper.py" <<'PY'
import glob, mmap, os, sys, time
kept, done = [], 0
own = open(sys.argv[2], "w")
def other():
    return os.path.getsize(sys.argv[3]) if os.path.exists(sys.argv[3]) else 0
time.sleep(0.5)
for path in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with open(path, "rb") as file:
        kept.append(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ))
    for at in range(0, len(kept[-1]), 1 << 20):
        sum(kept[-1][at:at + (1 << 20):4096])
        done += 1
        own.write(".")
        own.flush()
        time.sleep(0.01)
        while done >= other() + 4:
            time.sleep(0.001)
PY
burn_groups() { find "$BURN_DIR" -maxdepth 1 -name 'ppc-burn-*' 2>/dev/null | wc -l; }
has_burn_groups() { (($(burn_groups) > 0)); }
has_no_burn_groups() { (($(burn_groups) == 0)); }
# map_twice: both at once; sets MIB, what the disk gave, HITS of the limit, and MOST that was used.
map_twice() {
  while sleep 0.2; do group_use; done >"$WORK/use" 2>/dev/null &
  local watch=$!
  local hits ranks=()
  hits=$(group_event max)
  rm -f "$WORK/one" "$WORK/two"
  in_group /usr/bin/python3 "$WORK/mapper.py" "$MNT" "$WORK/one" "$WORK/two" &
  ranks+=($!)
  in_group /usr/bin/python3 "$WORK/mapper.py" "$MNT" "$WORK/two" "$WORK/one" &
  ranks+=($!)
  "$@"
  wait "${ranks[@]}" || fail "a mapper ended with $?"
  MIB=$((($(sectors) - BEFORE) >> 11)) HITS=$(($(group_event max) - hits))
  kill "$watch" 2>/dev/null
  MOST=$(sort -n "$WORK/use" | tail -n 1)
}
# Not behind the service's back: a load does not come again to what it has found in memory.
start_cold() {
  drop_caches
  BEFORE=$(sectors)
  start_service svc-burn 2
}
start_with maio
start_cold
map_twice true
echo "# counted: first start, $MIB MiB"
end_service svc-burn
OWN_MIB=40 # of the interpreters
LIMIT_BYTES=$((model_bytes * 45 / 100 + (OWN_MIB << 20)))
limit_to "$LIMIT_BYTES"
start_cold
map_twice true
echo "# counted: $MIB of $((model_bytes >> 20)) MiB, $HITS hits of the limit"
# Natively each of the pages that do not fit costs a hit.
le "$MIB" $((model_bytes * 105 / 100 >> 20)) "MiB that the disk gave"
le "$HITS" 100 "hits of the limit"
echo "# counted: $((MOST >> 20)) of $((LIMIT_BYTES >> 20)) MiB used with the groups"
le "$MOST" "$LIMIT_BYTES" "bytes used with the groups"
must ppcctl service stop --id svc-burn "$MNT"
within 10 has_no_burn_groups || fail "$(burn_groups) burn groups are left"

# The next runner removes what a killed one has left.
start_cold
kill_runner() {
  within 10 has_burn_groups || fail "no burn group is made"
  kill -9 "$(runner_pid)"
}
map_twice kill_runner
must ppcctl service stop --id svc-burn "$MNT"
within 10 has_no_burn_groups || fail "$(burn_groups) burn groups of a killed runner are left"
