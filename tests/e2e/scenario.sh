# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the table of scenarios: named starts of a service, and what each may cost.  The
# simulator has the same names (sim/scenarios) and asks for times too.
. "$(dirname "$0")/maio.sh"

# Where a worker maps what lies in memory khugepaged merges the ends of two workers' slices on one
# node (docs/kernels.md), whichever node each was loaded on.
THP=/sys/kernel/mm/transparent_hugepage/enabled
THP_WAS=$(sed 's/.*\[\(.*\)\].*/\1/' $THP 2>/dev/null)
if is_module && [[ $THP_WAS == always ]]; then
  trap 'echo always >$THP; cleanup; remove_groups "$GROUP"' EXIT
  echo madvise >$THP
fi

WRONG=()
INIT_S=3 # a service initialises before it loads
# To the scale of the model: what the workers need for themselves comes when its room is filled.
STAGING_MIB=1
declare -A wanted=() # by number of workers and options

# The device of all workers together takes a third more than the disk gives.
device_of() { echo $((${DEVICE:-33} * 10 / $1 / 10)); }
# know WORKERS OPTIONS...: reads natively what such a start must have.
know() { wanted[$*]=$(checksum_in "$(loadmodel --workers "$@" "$MODEL")"); }
# stolen: pages that the kernel reclaimed; where it does not count them, the hits of the limit tell.
stolen() { if is_v1; then echo 0; else group_stat pgsteal; fi; }
# serve_scaled: with a demand window that fits a model of a hundred megabytes.
serve_scaled() { if is_module; then mount_ppc "$MODEL" "$MNT" window=64K; else serve; fi; }
# record ID WORKERS OPTIONS...: the template of a service.
record() {
  local id=$1 workers=$2 report
  shift 2
  know "$workers" "$@"
  limit_group 0 "$workers"
  drop_caches
  start_service "$id" "$workers"
  report=$(load_in_group --workers "$workers" "$@") || fail "the recording run of $id failed"
  eq "$(checksum_in "$report")" "${wanted[$workers${*:+ $*}]}" "checksum while recording $id"
  end_service "$id"
}
# own_prefetch: a start that reads ahead by itself.
own_prefetch() { in_group cat "$MNT"/*.safetensors >/dev/null; }
# begin: a daemon with MAIO, which knows starts of two and of four workers.
begin() {
  local workers
  start_daemon
  serve_scaled
  register "$MNT" maio
  for workers in 2 4; do record svc-w$workers $workers; done
  know 2 --shuffle 7
}
# statistics NAME...: of the status, wherever they stand in it; - for one that is not there.
statistics() {
  ppcctl status --json "$MNT" 2>/dev/null | python3 -c '
import json, sys
def find(node, name):
    if isinstance(node, dict) and isinstance(node.get(name), (int, float)):
        return node[name]
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    return next((got for got in (find(one, name) for one in inner) if got is not None), None)
try:
    status = json.load(sys.stdin)
except ValueError:
    status = {}
for name in sys.argv[1:]:
    got = find(status, name)
    print(f" {name}=" + ("-" if got is None else str(got)), end="")' "$@" || true
}
# extra SCENARIO...: one that only `tools/test --all` runs; of the others each way of loading is one.
is_all() { [[ -n ${PPC_TEST_ALL:-} ]]; }
extra() { if is_all; then scenario "$@"; fi; }
# scenario NAME ID LIMIT WORKERS EXPECTED OPTIONS...: a start of service ID with the template that
# it has.  LIMIT: of its memory, percent of the model, 0 none.  EXPECTED: words NAME<=NUMBER, or NAME
# to show it only, of
#   disk      bytes from the disk, percent of the model
#   max, oom  times the limit was hit, processes killed
#   steal     reclaimed by the kernel, percent of the model
#   refault   dropped by the policy and missed again, per mille of the model
#   wrong     on another node than their worker's, per mille of what one worker alone needs
# Run before the service is announced (BEFORE), as an attempt before the readers (FIRST), or beside
# them (BESIDE).
scenario() {
  local name=$1 id=$2 limit=$3 workers=$4 expected=$5 report before max oom steal said='' word beside=''
  shift 5
  drop_caches
  limit_group "$limit" "$workers"
  ${BEFORE:-true}
  before=$(sectors) max=$(group_event max) oom=$(group_event oom_kill) steal=$(stolen)
  local placement=(--xpu-nodes "0,1" --placement)
  [[ " $* " != *" read "* && -d /sys/devices/system/node/node1 ]] || placement=()
  start_service "$id" "$workers"
  ${FIRST:-true}
  if [[ -n ${BESIDE:-} ]]; then
    $BESIDE &
    beside=$!
  fi
  report=$(load_in_group --workers "$workers" --init-s "$INIT_S" --device-mbps "$(device_of "$workers")" \
    "${placement[@]}" "$@") || WRONG+=("$name: the load failed")
  [[ -z $beside ]] || wait "$beside"
  local -A got=(
    [disk]=$((($(sectors) - before) * 51200 / model_bytes))
    [max]=$(($(group_event max) - max))
    [oom]=$(($(group_event oom_kill) - oom))
    [steal]=$((($(stolen) - steal) * 409600 / model_bytes))
    [refault]=$(($(stat_of refault_bytes) * 1000 / model_bytes))
    [wrong]=$(python3 -c '
import json, sys
counts = [w["placement"] for w in json.loads(sys.argv[1] or "{}").get("workers", []) if "placement" in w]
every, wrong = sum(c["right"] + c["wrong"] for c in counts), sum(c["wrong"] for c in counts)
# Asked for and nothing counted: as bad as all wrong.
print(1000 * wrong // every if every else 1000 if sys.argv[2] else 0)' "$report" "${placement[*]}")
  )
  [[ $(checksum_in "$report") == "${wanted[$workers${*:+ $*}]:-none}" ]] || WRONG+=("$name: other bytes")
  for word in $expected; do
    ! is_v1 || [[ $word != steal* ]] || continue
    said+=" ${word%%<=*}=${got[${word%%<=*}]}"
    [[ $word == *"<="* ]] || continue # only shown
    ((${got[${word%%<=*}]} <= ${word##*<=})) || WRONG+=("$name: ${word%%<=*} ${got[${word%%<=*}]}, at most ${word##*<=}")
  done
  echo "# statistics: $name$(statistics unneeded_bytes jumps interrupted_bytes loaded_bytes redundant_bytes \
    dropped_bytes refault_bytes distance_bytes withheld events_lost) reclaimed_bytes=$(reclaimed)"
  end_service "$id"
  echo "# counted: $name$said"
}
# Dropped by the kernel on the whole machine, since it is up.
reclaimed() { awk '/^pgsteal_(kswapd|direct) / {n += $2} END {print n * 4096}' /proc/vmstat; }
verdict() { ((${#WRONG[@]} == 0)) || fail "$(printf '%s; ' "${WRONG[@]}")"; }
