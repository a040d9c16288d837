# SPDX-License-Identifier: Apache-2.0
# Description: loads are charged to the service's cgroup and stop below its limit; eviction makes
# room, and the kernel's own reclaim finds nothing to do.
. "$(dirname "$0")/lib.sh"
group=/sys/fs/cgroup/ppc-budget
echo +memory >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
mkdir -p "$group"
[[ -f $group/memory.max ]] || skip "no memory controller"
trap 'cleanup; rmdir "$group" 2>/dev/null' EXIT
mkdir -p "$FAST/one"
dd if=/dev/urandom of="$FAST/one/file" bs=1M count=96 status=none
sync
echo 48M >"$group/memory.max"
of_group() { awk -v key="$1" '$1 == key {print $2}' "$group/memory.stat"; }
first_read() { bash -c "echo \$\$ >$group/cgroup.procs && head -c 4096 $MNT/file >/dev/null"; }
start_daemon
mount_ppc "$FAST/one"

# A policy that wants everything and drops nothing.
drop_caches
register "$MNT" eager
must ppcctl service start --id svc-eager --cgroup "$group" --workers 1 "$MNT"
first_read
full() { (($(of_group file) > 30 << 20)); }
within 30 full || fail "only $(of_group file) bytes charged: $(ppcctl status --json)"
sleep 1
# A loader process inside the cgroup (5.10) needs a little memory of its own.
own=0
[[ -z $(cat "$group/cgroup.procs") ]] || own=$((1 << 20))
le "$(cat "$group/memory.current")" $((48 * 1024 * 1024 * 8 / 10 + own)) "use of the cgroup"
eq "$(of_group pgscan)" 0 "pages scanned by the kernel"
ge "$(runner_field '["loader"]["queued"]')" $((30 << 20)) "what waits for room"
must ppcctl rm_policy "$MNT"

# One that drops what was read: the whole file goes through.
drop_caches
register "$MNT" readahead '{"behind":"4M","window_max":"8M"}'
must ppcctl service start --id svc-ahead --cgroup "$group" --workers 1 "$MNT"
bash -c "echo \$\$ >$group/cgroup.procs && exec cmp $MNT/file $FAST/one/file" || fail "other bytes"
le "$(cat "$group/memory.peak" 2>/dev/null || echo 0)" $((48 << 20)) "peak of the cgroup"
ge "$(runner_field '["evictor"]["dropped"]')" $((40 << 20)) "dropped"
ge "$(runner_field '["loader"]["loaded"]')" $((60 << 20)) "loaded ahead"

# Nothing of ours keeps an idle service's cgroup populated.
empty() { [[ -z $(cat "$group/cgroup.procs") ]]; }
within 20 empty || fail "still in the cgroup: $(cat "$group/cgroup.procs")"
must ppcctl rm_policy "$MNT"
within 20 rmdir "$group" || fail "the cgroup cannot be removed"
