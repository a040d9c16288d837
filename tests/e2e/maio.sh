# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of services: one in a memory cgroup of its own, and what its loads cost.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# In whichever hierarchy has the memory controller; the first version counts hits of the limit, but
# not what was reclaimed.
GROUPS_DIR=/sys/fs/cgroup LIMIT=memory.max NO_LIMIT=max
if [[ -f /sys/fs/cgroup/memory/memory.limit_in_bytes ]]; then
  GROUPS_DIR=/sys/fs/cgroup/memory LIMIT=memory.limit_in_bytes NO_LIMIT=-1
fi
GROUP=$GROUPS_DIR/ppc-maio.$$
is_v1() { [[ $LIMIT == memory.limit_in_bytes ]]; }
echo +memory >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
mkdir -p "$GROUP"
[[ -f $GROUP/$LIMIT ]] || skip "no memory controller"
# A background process of in_group is a shell's child: killing that shell leaves it, and it would read on beside the next
# scripts.  The last processes of a group leave it a little after they were killed.
remove_groups() {
  local one
  for one in "$@"; do xargs -r kill -9 <"$one/cgroup.procs" 2>/dev/null; done
  for _ in {1..40}; do
    rmdir "$@" 2>/dev/null
    [[ -z $(find "$@" -maxdepth 0 -type d 2>/dev/null) ]] && return
    sleep 0.05
  done
}
trap 'cleanup; remove_groups "$GROUP"' EXIT

disk=$(basename "$(readlink -f "/sys/dev/block/$(mountpoint -d "$(stat -c %m "$MODEL")")")")
sectors() { awk '{print $3}' "/sys/class/block/$disk/stat"; }
model_bytes=$(du -cb "$MODEL"/*.safetensors | awk 'END {print $1}')
stat_of() { runner_field "[\"stats\"][\"$1\"]"; }
# Burn groups are the service's children on v1, and stand beside it on v2.
BURN_DIR=$GROUP
is_v1 || BURN_DIR=$GROUPS_DIR/ppc-burn-$(stat -c %i "$GROUP")
# with_burn_groups FILE [NAME]: the number in a file, or in its line NAME.
with_burn_groups() {
  local dirs=("$GROUP")
  is_v1 || [[ ! -d $BURN_DIR ]] || dirs+=("$BURN_DIR")
  awk -v name="${2:-}" 'name == "" || $1 == name {sum += $NF} END {printf "%d\n", sum}' "${dirs[@]/%//$1}"
}
word_of() { awk -v name="$2" '$1 == name {print $2}' "$GROUP/$1"; }
# group_event max|oom_kill; group_stat file|pgscan|pgsteal; group_use; group_peak.
group_event() {
  if ! is_v1; then
    word_of memory.events "$1"
  elif [[ $1 == max ]]; then
    cat "$GROUP/memory.failcnt"
  else
    word_of memory.oom_control "$1"
  fi
}
group_stat() {
  if [[ $1 == file ]]; then
    with_burn_groups memory.stat "$(is_v1 && echo total_cache || echo file)"
  elif ! is_v1; then
    word_of memory.stat "$1"
  else
    fail "cgroup v1 does not count $1"
  fi
}
group_use() { with_burn_groups "memory.$(is_v1 && echo usage_in_bytes || echo current)"; }
group_peak() { cat "$GROUP/memory.$(is_v1 && echo max_usage_in_bytes || echo peak)" 2>/dev/null || echo 0; }
limit_to() { echo "$1" >"$GROUP/$LIMIT"; }

STAGING_MIB=8 # of each worker, in its own memory

# in_group COMMAND...: as a process of the service.
in_group() { bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$GROUP" "$@"; }
# load_in_group OPTIONS...: the model, from the mount; prints the report of the loader.
load_in_group() { in_group loadmodel --staging "${STAGING_MIB}M" "$@" "$MNT"; }
checksum_in() { grep -o '"checksum":"[0-9a-f]*"' <<<"$1" | head -n 1; }
# limit_group PERCENT WORKERS: what the workers need for themselves and so much of the model; 0: none.
limit_group() {
  if (($1 == 0)); then
    limit_to "$NO_LIMIT"
  else
    limit_to $((model_bytes * $1 / 100 + ($2 * (STAGING_MIB + 1) + STAGING_MIB << 20)))
  fi
}
# start_service ID WORKERS [XPUS]: the policy knows of it when this returns.
start_service() {
  must ppcctl service start --id "$1" --cgroup "$GROUP" --workers "$2" --xpu "${3:-0,1}" "$MNT"
  ppcctl status --json "$MNT" >/dev/null
}
end_service() {
  must ppcctl service ready --id "$1" "$MNT"
  must ppcctl service stop --id "$1" "$MNT"
}
