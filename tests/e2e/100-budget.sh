# SPDX-License-Identifier: Apache-2.0
# Description: loads are charged to the service's cgroup and stop below its limit; eviction makes
# room, and the kernel's own reclaim finds nothing to do.
. "$(dirname "$0")/maio.sh"
mkdir -p "$FAST/one"
dd if=/dev/urandom of="$FAST/one/file" bs=1M count=96 status=none
sync
wanted=$(sha256sum <"$FAST/one/file")
limit_to 48M
first_read() { in_group head -c 4096 "$MNT/file" >/dev/null; }
start_daemon
serve "$FAST/one"

# A policy that wants everything and drops nothing.
drop_caches
register "$MNT" eager
must ppcctl service start --id svc-eager --cgroup "$GROUP" --workers 1 "$MNT"
first_read
full() { (($(group_stat file) > 30 << 20)); }
within 30 full || fail "only $(group_stat file) bytes charged: $(ppcctl status --json)"
ticks_pass 2
# A loader process inside the cgroup (5.10) needs a little memory of its own.
own=0
[[ -z $(cat "$GROUP/cgroup.procs") ]] || own=$((1 << 20))
le "$(group_use)" $((48 * 1024 * 1024 * 85 / 100 + own)) "use of the cgroup"
eq "$(group_event max)" 0 "times the limit was hit"
is_v1 || eq "$(group_stat pgscan)" 0 "pages scanned by the kernel"
ge "$(runner_field '["loader"]["queued"]')" $((30 << 20)) "what waits for room"
must ppcctl rm_policy "$MNT"

# One that drops what was read: the whole file goes through.  Its reader waits for 2 MiB at a time; ahead
# of it is half a window at least, less the 1 MiB that it may have gone on untold.
drop_caches
register "$MNT" readahead '{"behind":"4M","window_min":"8M","window_max":"8M"}'
must ppcctl service start --id svc-ahead --cgroup "$GROUP" --workers 1 "$MNT"
# shellcheck disable=SC2094  # both read it
eq "$(in_group cat <"$MNT/file" | "$(dirname "$0")/paced.py" "$MNT/file" | sha256sum)" "$wanted" "checksum"
le "$(group_peak)" $((48 << 20)) "peak of the cgroup"
dropped() { runner_field '["evictor"]["dropped"]'; }
most_is_dropped() { (($(dropped) >= 40 << 20)); }
within 20 most_is_dropped || fail "dropped: only $(dropped): $(ppcctl status --json)"  # the evictor may be behind the reader
ge "$(runner_field '["loader"]["loaded"]')" $((60 << 20)) "loaded ahead"

# Nothing of ours keeps an idle service's cgroup populated.
empty() { [[ -z $(cat "$GROUP/cgroup.procs") ]]; }
within 20 empty || fail "still in the cgroup: $(cat "$GROUP/cgroup.procs")"
must ppcctl rm_policy "$MNT"
within 20 rmdir "$GROUP" || fail "the cgroup cannot be removed"
