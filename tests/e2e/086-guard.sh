# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a policy that drops what a reader maps, or loads a file that it does not read, without end: a reader that
# passes over its file in a memory group 8% larger reads the native bytes and what the guard allows at first, no more;
# status, doctor and metrics say within 10 s that the guard refuses the rest.
# needs observer
. "$(dirname "$0")/maio.sh"
. "$(dirname "$0")/doctor.sh"
HOSTILE=$PPC_E2E_BUILD/bin/libppc_sim_hostile.so
[[ -f $HOSTILE ]] || skip "no $HOSTILE: it exists in a build"
FILE_MIB=160 PASSES=12 CREDIT_MIB=64
mkdir "$FAST/passes"
head -c "${FILE_MIB}M" /dev/urandom >"$FAST/passes/model.safetensors"
sync
serve "$FAST/passes"
disk=$(basename "$(readlink -f "/sys/dev/block/$(mountpoint -d "$(stat -c %m "$FAST")")")")
cat >"$WORK/passes.py" <<'PY'
import mmap, sys, time
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
    for number in range(int(sys.argv[2])):
        sum(pages[::4096])
        time.sleep(0.3)
PY
# The file, 8% of it, and what the interpreter holds.
LIMIT_MIB=$((FILE_MIB * 108 / 100 + 12))
limit_to $((LIMIT_MIB << 20))
# begin_passes: reads the file PASSES times, cold, in the group; finish_passes sets MIB, what the disk gave.
begin_passes() {
  drop_caches
  before=$(sectors)
  in_group /usr/bin/python3 "$WORK/passes.py" "$MNT/model.safetensors" "$PASSES" &
  reader=$!
}
finish_passes() {
  wait "$reader" || fail "the reader ended with $?"
  MIB=$((($(sectors) - before) >> 11))
}
start_daemon
begin_passes
finish_passes
native=$MIB
echo "# natively: $native MiB"

# are_told WAY STATE: by status and metrics.  The guard may go on to another state between two looks.
are_told() {
  [[ $(ppcctl status "$MNT") == *"    guard $2"* &&
    $(ppcctl metrics | grep '^ppc_guard{') == *"service=\"svc-$1\",state=\"$2"* ]]
}
# harm WAY STATE MIB: the passes beside such a policy, the state that it leads to, and what it may cost.
harm() {
  register "$MNT" "$HOSTILE" "{\"way\": \"$1\", \"progress\": true}"
  must ppcctl service start --id "svc-$1" --cgroup "$GROUP" --workers 1 "$MNT"
  begin_passes
  within 10 are_told "$1" "$2" || fail "$1: the guard is not $2: $(ppcctl status "$MNT")"
  named guard-limits "$MNT"
  finish_passes
  echo "# $1: $MIB MiB; $(runner_field '["services"][0]["guard"]')"
  le "$MIB" $((native * 105 / 100 + $3)) "MiB that the disk gave"
  must ppcctl service stop "$MNT" --id "svc-$1"
  must ppcctl rm_policy "$MNT"
}
harm drops no_unmap "$CREDIT_MIB"
head -c 96M /dev/urandom >"$MNT/unread.safetensors" && sync
# All of its memory may be loaded before a reader begins.
harm unread small_window $((CREDIT_MIB + LIMIT_MIB))
