# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of services: one in a memory cgroup of its own, and what its loads cost.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

GROUP=/sys/fs/cgroup/ppc-maio
echo +memory >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
mkdir -p "$GROUP"
[[ -f $GROUP/memory.max ]] || skip "no memory controller"
trap 'cleanup; rmdir "$GROUP" 2>/dev/null' EXIT

disk=$(basename "$(readlink -f "/sys/dev/block/$(mountpoint -d "$(stat -c %m "$MODEL")")")")
sectors() { awk '{print $3}' "/sys/class/block/$disk/stat"; }
model_bytes=$(du -cb "$MODEL"/*.safetensors | awk 'END {print $1}')
stat_of() { runner_field "[\"stats\"][\"$1\"]"; }
group_event() { awk -v name="$1" '$1 == name {print $2}' "$GROUP/memory.events"; }
group_stat() { awk -v name="$1" '$1 == name {print $2}' "$GROUP/memory.stat"; }

STAGING_MIB=8 # of each worker, in its own memory

# in_group COMMAND...: as a process of the service.
in_group() { bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$GROUP" "$@"; }
# load_in_group OPTIONS...: the model, from the mount; prints the report of the loader.
load_in_group() { in_group loadmodel --staging "${STAGING_MIB}M" "$@" "$MNT"; }
checksum_in() { grep -o '"checksum":"[0-9a-f]*"' <<<"$1" | head -n 1; }
# limit_group PERCENT WORKERS: what the workers need for themselves and so much of the model; 0: none.
limit_group() {
  if (($1 == 0)); then
    echo max >"$GROUP/memory.max"
  else
    echo $((model_bytes * $1 / 100 + ($2 * (STAGING_MIB + 1) + STAGING_MIB << 20))) >"$GROUP/memory.max"
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
