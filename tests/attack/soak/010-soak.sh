# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: rounds of a dozen operations at random: services start, are ready, stop, their loaders and the runner are
# killed and paused, ppcd is killed, files are replaced, the directory's policy and its file system go and come back.
# After each round a load has the right bytes, and descriptors, tasks, BPF objects, memory, groups and the page cache
# are what they were.  PPC_SOAK_SEED and the number of a round give its operations; PPC_SOAK_STATE keeps that number.
. "$(dirname "${BASH_SOURCE[0]}")/../../e2e/maio.sh"
SEED=${PPC_SOAK_SEED:-1} MINUTES=${PPC_SOAK_MINUTES:-5} STATE=${PPC_SOAK_STATE:-$WORK/round}
OPERATIONS=12
DISK=$WORK/disk IMAGE=$PPC_E2E_BUILD/test/soak.$$.img EVERY=$WORK/bpf
LOOP='' LOADS=() SAID=''
trap 'for_loads KILL; unmount_disk; losetup -d "$LOOP"; rm -f "$IMAGE"; cleanup; rmdir "$GROUP"/* "$GROUP" 2>/dev/null' EXIT
note() { SAID+=" $*"; }
wrong() { fail "seed $SEED, round $ROUND:$SAID: $*"; }

mount_disk() {
  must mount "$LOOP" "$DISK"
  if is_module; then mount_ppc "$DISK/model" "$MNT"; else MNT=$DISK/model; fi
}
unmount_disk() {
  if is_module && mountpoint -q "$MNT"; then within 10 umount "$MNT" || return 1; fi
  within 10 umount "$DISK"
}
for_loads() {
  local pid
  for pid in "${LOADS[@]}"; do pkill "-$1" -g "$pid"; done 2>/dev/null
}
end_loads() {
  for_loads KILL
  if ((${#LOADS[@]})); then wait "${LOADS[@]}" 2>/dev/null; fi
  LOADS=()
}
is_registered() { [[ -n $(state) ]]; }
enter() {
  local configuration='{}'
  is_registered && return
  if ((RANDOM % 2)); then configuration='{"at_ready": "keep"}'; fi
  register "$MNT" maio "$configuration"
}
objects() {
  local pid kind id
  for pid in "$DAEMON" $(pgrep -P "$DAEMON" -x ppc-runner); do
    for kind in prog map link; do
      for id in $(bpf_of "$pid" $kind); do echo "$kind $id"; done
    done
  done
}

begin() {
  local id=svc-$((RANDOM % 3)) workers=$((RANDOM % 2 + 1))
  mkdir -p "$GROUP/$id"
  ppcctl service start --id "$id" --cgroup "$GROUP/$id" --workers "$workers" --xpu 0,1 "$MNT" >/dev/null 2>&1
  # shellcheck disable=SC2016  # for the inner shell
  setsid bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$GROUP/$id" \
    loadmodel --workers "$workers" --device-mbps $((RANDOM % 80 + 20)) "$MNT" >/dev/null 2>&1 &
  LOADS+=($!)
}
verb() { ppcctl service "$1" --id "svc-$((RANDOM % 3))" "$MNT" >/dev/null 2>&1; }
pause_runner() {
  local pid
  pid=$(runner_pid)
  [[ -n $pid ]] || return
  kill -STOP "$pid"
  sleep 0.$((RANDOM % 9 + 1))
  kill -CONT "$pid"
}
replace() {
  local shard
  shard=$(find "$DISK/model" -name '*.safetensors' | sort | sed -n "$((RANDOM % 2 + 1))p")
  cp "$shard" "$shard.new" && mv "$shard.new" "$shard"
}
operate() {
  local what
  case $((RANDOM % 13)) in
    0 | 1 | 2) what=begin ;;
    3) what='verb ready' ;;
    4) what='verb stop' ;;
    5) what='for_loads KILL' ;;
    6) what=kill_runner ;;
    7) what=pause_runner ;;
    8) what=pause_loads ;;
    9) what=replace ;;
    10) what=leave ;;
    11) what=remount ;;
    *) what=kill_daemon ;;
  esac
  note "$what"
  $what
  objects >>"$EVERY"
  sleep 0.$((RANDOM % 6))
}
kill_runner() { pkill -KILL -P "$DAEMON" -x ppc-runner; }
pause_loads() {
  for_loads STOP
  sleep 0.$((RANDOM % 9 + 1))
  for_loads CONT
}
leave() {
  must ppcctl rm_policy "$MNT"
  enter
}
# An application that ends lets go of the mount; nothing of ours may hold it.
remount() {
  end_loads
  unmount_disk || wrong "the file system stays busy: $(fuser -vm "$DISK" 2>&1 | tr '\n' ' ')"
  mount_disk
  is_gone() { ! is_registered; }
  within 20 is_gone || true
  enter
}
kill_daemon() {
  kill -KILL "$DAEMON"
  wait "$DAEMON" 2>/dev/null
  start_daemon
  within 20 is_registered || enter
}

descriptors() { find "/proc/$DAEMON/fd" -type l | wc -l; }
tasks() { find "/proc/$DAEMON/task" -mindepth 1 -maxdepth 1 | wc -l; }
rss_kib() { awk '$1 == "VmRSS:" {print $2}' "/proc/$DAEMON/status"; }
# What is left of a round, in words; "" if nothing is.
left() {
  local kind more
  [[ -z $(pgrep -P "$DAEMON") ]] || echo "processes: $(ps -o args= --ppid "$DAEMON" | tr '\n' ';')"
  (($(descriptors) <= FDS)) || echo "descriptors: $(descriptors), at first $FDS"
  (($(tasks) <= TASKS)) || echo "tasks: $(tasks), at first $TASKS"
  (($(rss_kib) <= RSS + 4096)) || echo "memory: $(rss_kib) KiB, at first $RSS"
  more=$(find "$GROUP" -mindepth 2 -type d)
  [[ -z $more ]] || echo "groups: $more"
  ! is_module && command -v bpftool >/dev/null || return 0
  more=$(for kind in prog map link; do
    bpftool $kind list | sed -n "s/^\([0-9]*\): .*/$kind \1/p"
  done | sort | comm -12 - <(sort -u "$EVERY"))
  [[ -z $more ]] || echo "BPF: ${more//$'\n'/ }"
}
is_clean() { [[ -z $(left) ]]; }
# Nothing is registered, nothing runs.
measure_daemon() { FDS=$(descriptors) TASKS=$(tasks) RSS=$(rss_kib); }
end_round() {
  local id said
  end_loads
  for id in svc-0 svc-1 svc-2; do ppcctl service stop --id $id "$MNT"; done >/dev/null 2>&1
  enter
  must ppcctl service start --timeout 60 --id svc-last --workers 2 "$MNT"
  drop_caches
  said=$(checksum_of "$MNT")
  [[ $said == "$wanted" ]] || wrong "bytes: '$said'"
  must ppcctl service ready --timeout 60 --id svc-last "$MNT"
  must ppcctl rm_policy "$MNT"
  within 30 is_clean || wrong "left: $(left | tr '\n' ' ')"
  : >"$EVERY"
  sync
  drop_caches
  no_pages() { (($(resident_of "$DISK/model") == 0)); }
  within 10 no_pages || wrong "$(resident_of "$DISK/model") bytes stay in the page cache"
}

mkdir "$DISK"
must mke2fs -q -t ext4 "$IMAGE" 450M
LOOP=$(losetup --find --show --direct-io=on "$IMAGE") || fail "no loop device"
must mount "$LOOP" "$DISK"
cp -r "$MODEL" "$DISK/model"
sync
umount "$DISK"
wanted=$(reference_checksum)
mount_disk
start_daemon
measure_daemon
first=$(cat "$STATE" 2>/dev/null || echo 0)
for ((ROUND = first; SECONDS < MINUTES * 60; ROUND++)); do
  RANDOM=$((SEED + ROUND)) SAID=''
  enter
  for ((at = 0; at < OPERATIONS; at++)); do operate; done
  end_round
  echo "# round $ROUND:$SAID; $(rss_kib) KiB, $(descriptors) descriptors"
  echo $((ROUND + 1)) >"$STATE"
done
ge "$ROUND" $((first + 1)) "rounds"
echo "# counted: seed=$SEED rounds=$first..$((ROUND - 1)) descriptors=$FDS tasks=$TASKS memory=$(rss_kib) KiB"
