# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by every test of this folder: a ppcd of its own, mounts that go away at the end.
# A test exits 0 passed, 1 failed, 77 skipped.  One that says "needs module" or "needs observer" in
# its head is of that backend alone; any other is what both promise, on $MNT as `serve` makes it.
# shellcheck disable=SC2034  # variables for the tests
set -uo pipefail

BACKEND=$PPC_E2E_BACKEND
MODEL=$PPC_E2E_SLOW/model
FAST=$PPC_E2E_FAST
MNT=/mnt/ppc-e2e
MNT2=/mnt/ppc-e2e-2
MNT3=/mnt/ppc-e2e-3
BAD=$PPC_E2E_BUILD/tests/e2e
WORK=$(mktemp -d /run/ppc-e2e.XXXXXX)
export PPC_SOCKET=$WORK/ppcd.sock
export PPC_TEMPLATE_DIR=$WORK/templates
DAEMON=''

. "$(dirname "${BASH_SOURCE[0]}")/../lib/check.sh"
fail() {
  echo "FAIL: $*"
  if [[ -s $WORK/ppcd.log ]]; then tail -n 40 "$WORK/ppcd.log" | sed 's/^/ppcd.log: /'; fi
  exit 1
}
is_module() { [[ $BACKEND == kmod ]]; }
# refuse STATUS TEXT COMMAND...: it ends with STATUS and one line on stderr that says TEXT.
refuse() {
  local out status want_status=$1 want=$2
  shift 2
  out=$(LC_ALL=C "$@" 2>&1 >/dev/null)
  status=$?
  eq "$status" "$want_status" "status of '$*' ($out)"
  has "$out" "$want" "message of '$*'"
  eq "$(wc -l <<<"$out")" 1 "lines on stderr of '$*'"
  echo "# refused: $out"
}

cleanup() {
  [[ -n $DAEMON ]] && kill -CONT "$DAEMON" 2>/dev/null
  exec 5<&-
  # shellcheck disable=SC2046
  kill $(jobs -p) 2>/dev/null
  local name
  for name in loadmodel cat dd; do pkill -s 0 -x "$name"; done
  wait
  ! is_module || unmount_all
  rm -rf "$WORK"
}
unmount_all() {
  local mount
  for mount in "$MNT3" "$MNT2" "$MNT"; do
    ! mountpoint -q "$mount" || within 5 umount "$mount" || echo "FAIL: $mount stays busy"
  done
}
trap cleanup EXIT

drop_caches() { echo 3 >/proc/sys/vm/drop_caches; }

# start_daemon [LAUNCHER...]: stopped again with stop_daemon.
start_daemon() {
  "$@" ppcd --state-dir "$WORK" >>"$WORK/ppcd.log" 2>&1 &
  DAEMON=$!
  within 20 ppcctl list >/dev/null 2>&1 || fail "ppcd does not answer: $(cat "$WORK/ppcd.log")"
}
stop_daemon() {
  kill "$DAEMON"
  wait "$DAEMON" || fail "ppcd ended with status $?"
  DAEMON=''
}

# restart_daemon: killed, and its runner with it; the next one takes up what was registered.
restart_daemon() {
  local runner
  runner=$(runner_pid)
  kill -9 "$DAEMON"
  wait "$DAEMON"
  within 20 is_dead "$runner" || fail "the runner outlived its supervisor"
  "${@:-true}"
  start_daemon
  within 20 state_is running || fail "not adopted: $(ppcctl status)"
}

# serve [BASE [NAME]]: MNT (or NAME) becomes what shows BASE to the backend: a ppc mount of it, or the
# directory itself.
serve() {
  local base=${1:-$MODEL} name=${2:-MNT}
  if is_module; then mount_ppc "$base" "${!name}"; else declare -g "$name=$base"; fi
}
# second_base: what a second directory shows: the same one to the module, a copy to the observer,
# for which files are one directory's.
second_base() {
  is_module && echo "$MODEL" && return
  cp -r "$MODEL" "$FAST/model" && sync && echo "$FAST/model"
}
# mount_ppc [BASE [MNT [OPTIONS]]]
mount_ppc() {
  mkdir -p "${2:-$MNT}"
  must mount -t ppc ${3:+-o "$3"} "${1:-$MODEL}" "${2:-$MNT}"
}
# sys_of MNT: its directory in sysfs.
sys_of() {
  local number dir
  number=$(mountpoint -d "$1") || fail "$1 is no mount point"
  for dir in /sys/fs/ppc/*/; do
    [[ $(cat "$dir/dev") == "$number" ]] && echo "${dir%/}" && return
  done
  fail "no device for mount $1"
}
# Before 5.13 a program on a function is attached once and stays until the last directory goes.
keeps_entries() {
  local major minor
  IFS=. read -r major minor _ <<<"$(uname -r)"
  ((major * 100 + minor < 513))
}
# What is in force on $MNT, as far as the kernel knows: native, attached, expired.
kernel_state() {
  if is_module; then
    cat "$(sys_of "$MNT")/state"
  elif keeps_entries && ! grep -qs 'raw_tracepoint' "/proc/${RUNNER:-$DAEMON}/fdinfo"/*; then
    echo native # what it keeps tells nobody anything
  elif [[ -n $(bpf_of "${RUNNER:-$DAEMON}" link) ]]; then
    echo attached
  else
    echo native
  fi
}
kernel_state_is() { [[ $(kernel_state) == "$1"* ]]; }
# bpf_of PID prog|map|link: the numbers of those that the process holds.
bpf_of() { awk -v kind="$2_id:" '$1 == kind {print $2}' "/proc/$1/fdinfo"/* 2>/dev/null | sort -un; }
# reg_policy DIR POLICY...: with the backend that is tested; the module is what auto takes.
reg_policy() {
  local backend=()
  is_module || backend=(--backend observer)
  ppcctl reg_policy "${backend[@]}" "$@"
}
register() { must reg_policy "$@"; }
# start_with POLICY [CONFIG]: a daemon, and the policy on what $MNT shows.
start_with() {
  start_daemon
  serve
  register "$MNT" "$@"
}

# status_field FIELD [MNT]: of `ppcctl status --json`, by a jq-like path in Python.
status_field() {
  ppcctl status --json "${2:-$MNT}" | python3 -c "
import json, sys
print(json.load(sys.stdin)['mounts'][0]$1)"
}
# runner_field FIELD [MNT]: of what the runner itself counts; asked again while it is too busy to answer.
runner_field() {
  local value
  for _ in {1..60}; do
    value=$(status_field "[\"runner\"]$1" "${2:-$MNT}" 2>/dev/null) && echo "$value" && return
    sleep 0.5
  done
  fail "the runner does not tell $1"
}
# loaded [MNT]: bytes that its runner has loaded.
loaded() { runner_field '["loader"]["loaded"]' "${1:-$MNT}"; }
state() { ppcctl list | awk -v mount="${1:-$MNT}" '$1 == mount {print $3}'; }
state_is() { [[ $(state "${2:-$MNT}") == "$1" ]]; }
runner_pid() { pgrep -P "${DAEMON:-0}" -x ppc-runner | head -n 1; }
# is_restarted PID: another runner than that one runs.  `running` alone may be said of the one that
# was just killed.
is_restarted() {
  local now
  now=$(runner_pid)
  [[ -n $now && $now != "$1" ]] && state_is running
}
is_dead() { ! kill -0 "$1" 2>/dev/null; }

# mode_of ID: what MAIO does for the service, once it has looked for a template.
mode_of() {
  local mode
  knows() {
    mode=$(ppcctl policy "$MNT" '{"op": "status"}' |
      python3 -c 'import json, sys
print(*(s["mode"] for s in json.load(sys.stdin)["services"] if s["service_id"] == sys.argv[1]))' "$1")
    [[ -n $mode && $mode != starting ]]
  }
  within 30 knows "$1" || fail "$1: mode '$mode'"
  echo "$mode"
}

# checksum_of DIR [OPTIONS]: what two workers make of the model.
checksum_of() {
  loadmodel --workers 2 "$@" | grep -o '"checksum":"[0-9a-f]*"' | head -n 1
}
# reference_checksum: read natively, once for all tests.
reference_checksum() {
  local file=$FAST/checksum
  [[ -s $file ]] || checksum_of "$MODEL" >"$file"
  cat "$file"
}
# start_load DIR: in the background; a cold cache; returns in the middle of it.
start_load() {
  drop_caches
  checksum_of "$1" >"$WORK/loaded" &
  LOAD=$!
  within 60 half_loaded || fail "the load does not get on"
}
half_loaded() {
  kill -0 "$LOAD" 2>/dev/null || fail "the load ended before its middle"
  (($(resident_of "$MODEL") > 30 << 20))
}
finish_load() {
  wait "$LOAD" || fail "the load failed"
  eq "$(cat "$WORK/loaded")" "$(reference_checksum)" "checksum"
}
# resident_of PATH: bytes in the page cache.
resident_of() { ppcctl residency --json "$1" | awk -F'[:,]' '/^  "resident"/ {print $2 + 0}'; }

# miss: one more event, without hurting what a load has in the cache.
miss() {
  dd if="$MNT/tokenizer.json" iflag=nocache count=0 status=none
  cat "$MNT/tokenizer.json" >/dev/null
}
# ticks_pass COUNT [MNT]: the runner of MNT ticks so often.  Between two ticks it takes every event there is.
ticks_pass() {
  local until
  until=$(($(runner_field '["events"]["ticks"]' "${2:-$MNT}") + $1))
  ticked() { (($(runner_field '["events"]["ticks"]' "$2") >= $1)); }
  within 60 ticked "$until" "${2:-$MNT}" || fail "the runner of ${2:-$MNT} does not tick"
}
# missed DIR FILE: how many more misses the runner of DIR counts for a cold read of FILE.
missed() {
  local before
  before=$(runner_field '["events"]["misses"]' "$1")
  # A page may be in another CPU's batch for a moment.
  is_cold() {
    dd if="$1" iflag=nocache count=0 status=none
    (($(resident_of "$1") == 0))
  }
  within 20 is_cold "$2" || fail "$2 stays in memory"
  cat "$2" >/dev/null
  # A backend gathers what one reader misses for a fifth of a second.
  ticks_pass 3 "$1"
  echo $(($(runner_field '["events"]["misses"]' "$1") - before))
}
# told_alone DIR OTHER FILE: DIR is told of a cold read of FILE, and OTHER is not.
told_alone() {
  local told
  told=$(missed "$1" "$3") || fail "$told"
  ((told > 0)) || fail "$1 is told nothing of $3"
  told=$(missed "$2" "$3") || fail "$told"
  eq "$told" 0 "what $2 is told of $3"
}
# A lease runs out over events that nobody takes; without a miss nobody needs it to.
lease_runs_out() {
  miss
  kernel_state_is expired
}

# expect_native_read_ahead FD FILE OFFSET_MIB: a small read there through FD, which was open
# before, must bring in what the kernel's read-ahead does: more than was read, less than a window.
expect_native_read_ahead() {
  local before after
  # What a runner that is gone has asked for may still be on its way.
  at_rest() {
    before=$(resident_of "$1")
    sleep 0.3
    [[ $before == "$(resident_of "$1")" ]]
  }
  within 10 at_rest "$2" || fail "$2 is still being loaded"
  dd of=/dev/null bs=4096 skip=$(($3 * 256)) count=4 iflag=fullblock status=none <&"$1" ||
    fail "cannot read through the open file"
  sleep 0.3
  after=$(resident_of "$2")
  echo "# 16 KiB read brought in $(((after - before) >> 10)) KiB"
  ge $((after - before)) $((20 << 10)) "bytes brought in by native read-ahead"
  le $((after - before)) $((512 << 10)) "bytes brought in by native read-ahead"
}

# lacked_by ID: bytes of the model that no worker reads by the template of a service.
lacked_by() {
  ppcctl template dump "$1" | /usr/bin/python3 -c '
import glob, json, os, sys
reads = [read for group in json.load(sys.stdin)["groups"] for read in group["sequence"]]
lacking = 0
for shard in glob.glob(sys.argv[1] + "/*.safetensors"):
    pages = set(range((os.path.getsize(shard) + 4095) // 4096))
    for read in (read for read in reads if read["path"] == os.path.basename(shard)):
        pages -= set(range(read["offset"] // 4096, (read["offset"] + read["size"] + 4095) // 4096))
    lacking += 4096 * len(pages)
print(lacking)' "$MODEL"
}

# limit_reads GROUP RATE NAME...: a group whose processes read so many bytes a second, and directories of a file of
# 64 MiB each below $FAST; sets device.
limit_reads() {
  local name
  group=/sys/fs/cgroup/$1 limit=$2
  echo "+memory +io" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
  mkdir -p "$group"
  trap 'cleanup; rmdir "$group" 2>/dev/null' EXIT
  [[ -f $group/io.max ]] || skip "no io controller"
  for name in "${@:3}"; do
    mkdir -p "$FAST/$name"
    dd if=/dev/urandom of="$FAST/$name/file" bs=1M count=64 status=none
  done
  sync
  device=$(findmnt -no MAJ:MIN -T "$FAST/$3" | tr -d ' ')
  echo "$device rbps=$limit" >"$group/io.max" || skip "io.max of $device cannot be set"
}
