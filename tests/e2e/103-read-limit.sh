# SPDX-License-Identifier: Apache-2.0
# Description: loads for a service keep to io.max of its cgroup, although the runner submits them;
# explain-pid tells the worker that a process is taken for.
. "$(dirname "$0")/lib.sh"
group=/sys/fs/cgroup/ppc-read-limit
limit=$((4 << 20))
echo "+memory +io" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
mkdir -p "$group"
trap 'cleanup; rmdir "$group" 2>/dev/null' EXIT
[[ -f $group/io.max ]] || skip "no io controller"
mkdir -p "$FAST/one"
dd if=/dev/urandom of="$FAST/one/file" bs=1M count=64 status=none
sync
device=$(findmnt -no MAJ:MIN -T "$FAST/one" | tr -d ' ')
echo "$device rbps=$limit" >"$group/io.max" || skip "io.max of $device cannot be set"
start_daemon
serve "$FAST/one"
drop_caches
register "$MNT" eager
must ppcctl service start --id svc-limited --cgroup "$group" --workers 2 "$MNT"
loaded() { runner_field '["loader"]["loaded"]'; }
begun=$(date +%s%N)
PPC_WORKER=1 bash -c "echo \$\$ >$group/cgroup.procs && head -c 4096 $MNT/file >/dev/null && sleep 60" &
reader=$!
some() { (($(loaded) >= 8 << 20)); }
within 60 some || fail "loaded only $(loaded) bytes"
now_loaded=$(loaded)
passed_ms=$((($(date +%s%N) - begun) / 1000000))
le "$now_loaded" $((limit * passed_ms / 1000 + (4 << 20))) "loaded in $passed_ms ms"
eq "$(runner_field '["services"][0]["read_limit"]')" "$limit" "limit in the status"

explained=$(ppcctl explain-pid "$reader" "$MNT") || fail "explain-pid"
grep -q '^  \* PPC_WORKER .*PPC_WORKER=1' <<<"$explained" || fail "explained as: $explained"
kill "$reader"
wait "$reader" 2>/dev/null

# Without the limit the rest comes.
echo "$device rbps=max" >"$group/io.max"
all() { (($(loaded) >= 60 << 20)); }
within 60 all || fail "loaded only $(loaded) bytes of 64 MiB"
must ppcctl rm_policy "$MNT"
within 20 rmdir "$group" || fail "the cgroup cannot be removed"
