# SPDX-License-Identifier: Apache-2.0
# Description: loads for a service keep to io.max of its cgroup, although the runner submits them;
# explain-pid tells the worker that a process is taken for.
. "$(dirname "$0")/lib.sh"
limit_reads ppc-read-limit $((4 << 20)) one
start_daemon
serve "$FAST/one"
drop_caches
register "$MNT" eager
must ppcctl service start --id svc-limited --cgroup "$group" --workers 2 "$MNT"
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
