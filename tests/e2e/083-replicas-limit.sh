# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a second service of a model starts soon after the first, in a cgroup of its own below one limit, of
# more than the model or of less: the model is read once, the limit is not hit, and what was read is charged to the
# two of them.
# natively by default
. "$(dirname "$0")/maio.sh"
STAGING_MIB=1
trap 'cleanup; remove_groups "$GROUP"/* "$GROUP"' EXIT
wanted=$(reference_checksum)
start_with maio
is_v1 || echo +memory >"$GROUP/cgroup.subtree_control"
mkdir "$GROUP/first" "$GROUP/second"

announce() { must ppcctl service start --id "svc-$1" --cgroup "$GROUP/$1" --workers 2 --xpu 0,1 "$MNT"; }
# load NAME MBPS: the model, by two workers each of whose devices is as fast as that.
load() {
  bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$GROUP/$1" \
    loadmodel --workers 2 --staging 1M --init-s 3 --device-mbps "$2" "$MNT" >"$WORK/$1.report"
}
# Of files; the loader's own memory that its workers share is told with them.
charged() {
  awk -v v1="$(is_v1 && echo total_)" '$1 == (v1 ? "total_cache" : "file") {n += $2} $1 == v1 "shmem" {n -= $2} END {print n}' \
    "$GROUP/$1/memory.stat"
}
# What runs in the groups, the helper that loads for them included, is charged to neither.
read_programs() {
  local programs
  programs=("$(command -v bash)" "$(command -v loadmodel)" "$(command -v ppc-runner)" "$PPC_POLICY_DIR/libppc_maio.so")
  { printf '%s\n' "${programs[@]}" && ldd "${programs[@]}" | grep -o ' /[^ ]*'; } | sort -u | xargs cat >/dev/null
}
stop() {
  local name
  for name; do
    eq "$(checksum_in "$(cat "$WORK/$name.report")")" "$wanted" "checksum of the $name"
    must ppcctl service ready --id "svc-$name" "$MNT"
    must ppcctl service stop --id "svc-$name" "$MNT"
  done
}
for name in first second; do
  drop_caches
  announce "$name"
  load "$name" 0 || fail "the recording run of the $name failed"
  stop "$name"
done
# both LIMIT GAP: two starts, so many seconds apart, below so many percent of the model.  Sets `used`, bytes from the
# disk, `hit`, times the limit was hit, and `gap_ms`, how far apart they came to be.
both() {
  local loads=() before max begun
  limit_group "$1" 4
  drop_caches
  read_programs
  before=$(sectors) max=$(group_event max)
  begun=${EPOCHREALTIME/./}
  announce first
  load first 33 &
  loads+=($!)
  sleep "$2"
  announce second
  load second 33 &
  loads+=($!)
  gap_ms=$(((${EPOCHREALTIME/./} - begun) / 1000))
  wait "${loads[@]}" || fail "a load failed"
  used=$((($(sectors) - before) * 512)) hit=$(($(group_event max) - max))
  echo "# counted: limit=$1% gap=$gap_ms ms disk=$((used * 100 / model_bytes))% hit=$hit"
}
# All of it stays, so that what was read is there to be counted.
both 150 2
paid=$(($(charged first) + $(charged second)))
stop first second
eq "$hit" 0 "times the limit was hit"
le "$used" $((model_bytes * 105 / 100)) "bytes from the disk for both"
ge $((paid * 100)) $((used * 95)) "a hundred times what is charged to them, in bytes"
le $((paid * 100)) $((used * 105)) "a hundred times what is charged to them, in bytes"
# What lies between the two has to stay: so little time is 4% of this model, as two seconds are of one of 140 GB on a
# disk of 3 GB/s.
# A machine that is slow to start the second one makes it more.
for _ in 1 2 3; do
  both 60 0.2
  stop first second
  ((gap_ms > 1000)) || break
done
le "$hit" 0 "times the limit was hit, of less than the model"
# 104 and 105% where nothing else runs; whoever does not wait for the other reads half as much again.
le "$used" $((model_bytes * 125 / 100)) "bytes from the disk for both, with less than the model"
