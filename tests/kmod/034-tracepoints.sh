#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: each tracepoint fires, with the fields that docs/abi/tracefs-events-ppc gives it and
# the right values.
# Once
. "$(dirname "$0")/lib.sh"

tracefs=/sys/kernel/tracing
mountpoint -q $tracefs || mount -t tracefs none $tracefs 2>/dev/null || skip "no tracefs"
abi=$(dirname "$0")/../../docs/abi/tracefs-events-ppc

make_file a 8M
mount_ppc queue=64
stop_tracing() { echo 0 >$tracefs/events/ppc/enable; }
trap 'status=$?; stop_tracing; (exit $status); clean_up' EXIT
echo >$tracefs/trace
echo 1 >$tracefs/events/ppc/enable || fail "no events/ppc"
drop_caches
reads=()
for ((i = 0; i < 256; i++)); do reads+=("read $((1024 + 8 * i))K 4K 4K"); done
out=$(dev 'lookup a' 'attach openclose' "open $MNT/a" 'advise f random' 'read 8K 8K 8K' "${reads[@]}" close detach \
  'load 4M 1M wait' 'load 9M 4K' 'evict 4M 1M drain')
stop_tracing
text=$(cat $tracefs/trace)
id=$(field lookup id "$out") minor=${DEV#/dev/ppc}
# fired NAME FIELDS: some line of it says exactly that.
fired() {
  grep -qE " $1: minor=$minor $2\$" <<<"$text" || fail "no $1 with $2; there is: $(grep -m 1 " $1:" <<<"$text")"
}
fired ppc_attach 'mode=17 window=1048576 beacon=4194304'
fired ppc_attach 'mode=0 window=0 beacon=0'
fired ppc_miss "file=$id index=2 pages=2 kind=1"
fired ppc_event_queued "file=$id offset=8192 length=8192 kind=1 flags=0"
fired ppc_event_queued "file=$id offset=0 length=8388608 kind=5 flags=0"
fired ppc_event_dropped "file=$id offset=[0-9]+ length=4096 kind=1 flags=0"
fired ppc_load "file=$id offset=4194304 done=1048576 submitted=[0-9]+ resident=[0-9]+ failed=0 stop=0"
fired ppc_load "file=$id offset=9437184 done=0 submitted=0 resident=0 failed=0 stop=1"
fired ppc_evict "file=$id offset=4194304 length=1048576 asked=1048576 dropped=1048576 mapped=0 busy=0"
eq "$(grep -c ' ppc_miss:' <<<"$text")" "$(stat_of misses_read)" "misses traced"
eq "$(grep -c ' ppc_event_queued:' <<<"$text")" "$(stat_of events_queued)" "events traced"
eq "$(grep -c ' ppc_event_dropped:' <<<"$text")" "$(stat_of events_dropped)" "lost events traced"

# The documented fields are those that are printed, in order.
for name in ppc_miss ppc_event_queued ppc_event_dropped ppc_load ppc_evict ppc_attach; do
  documented=$(awk -v what="/sys/kernel/tracing/events/ppc/$name" '$1 == "What:" {here = $2 == what} here && /^$/ {list = 1; next}
    here && list {printf "%s ", $1}' "$abi")
  printed=$(grep -m 1 " $name:" <<<"$text" | sed -E "s/.* $name: //; s/=[^ ]*//g")
  eq "${documented% }" "$printed" "fields of $name in docs/abi"
done
eq "$(find $tracefs/events/ppc -mindepth 1 -maxdepth 1 -type d | wc -l)" "$(grep -c '^What:' "$abi")" "tracepoints documented"
