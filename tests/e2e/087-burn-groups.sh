# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: two processes that map the model, touch all of it and keep it, with memory for less than half of it: read
# once, and the kernel next to never has to reclaim; no group is left behind, of a killed runner neither.
# needs observer
. "$(dirname "$0")/maio.sh"
is_v1 || skip "burn groups are made on cgroup v1"
cat >"$WORK/mapper.py" <<'PY'
import glob, mmap, sys, time
kept = []
time.sleep(0.5)
for path in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with open(path, "rb") as file:
        kept.append(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ))
    for at in range(0, len(kept[-1]), 1 << 20):
        sum(kept[-1][at:at + (1 << 20):4096])
        time.sleep(0.01)
PY
burn_groups() { find "$GROUP" -mindepth 1 -maxdepth 1 -name 'ppc-burn-*' | wc -l; }
has_burn_groups() { (($(burn_groups) > 0)); }
has_no_burn_groups() { (($(burn_groups) == 0)); }
# map_twice: both at once; sets MIB, what the disk gave, and HITS of the limit.
map_twice() {
  drop_caches
  local before hits ranks=()
  before=$(sectors) hits=$(group_event max)
  for _ in 1 2; do
    in_group /usr/bin/python3 "$WORK/mapper.py" "$MNT" &
    ranks+=($!)
  done
  "$@"
  wait "${ranks[@]}" || fail "a mapper ended with $?"
  MIB=$((($(sectors) - before) >> 11)) HITS=$(($(group_event max) - hits))
}
start_daemon
serve
register "$MNT" maio
start_service svc-burn 2
map_twice true
echo "# first start: $MIB MiB"
end_service svc-burn
OWN_MIB=40 # of the interpreters
limit_to $((model_bytes * 45 / 100 + (OWN_MIB << 20)))
start_service svc-burn 2
map_twice true
echo "# $MIB of $((model_bytes >> 20)) MiB, $HITS hits of the limit"
# Natively each of the pages that do not fit costs a hit.
le "$MIB" $((model_bytes * 125 / 100 >> 20)) "MiB that the disk gave"
le "$HITS" 100 "hits of the limit"
must ppcctl service stop --id svc-burn "$MNT"
within 10 has_no_burn_groups || fail "$(burn_groups) burn groups are left"

# The next runner removes what a killed one has left.
start_service svc-burn 2
kill_runner() {
  within 10 has_burn_groups || fail "no burn group is made"
  kill -9 "$(runner_pid)"
}
map_twice kill_runner
must ppcctl service stop --id svc-burn "$MNT"
within 10 has_no_burn_groups || fail "$(burn_groups) burn groups of a killed runner are left"
