# SPDX-License-Identifier: Apache-2.0
# Description: two directories whose services are below one io.max: their runners together keep to it,
# and each has a part.
. "$(dirname "$0")/lib.sh"
limit_reads ppc-read-limit-shared $((4 << 20)) one two
start_daemon
serve "$FAST/one"
serve "$FAST/two" MNT2
drop_caches
for mount in "$MNT" "$MNT2"; do
  register "$mount" eager
  must ppcctl service start --id "svc-$(basename "$mount")" --cgroup "$group" "$mount"
done
sum() { echo $(($(loaded "$MNT") + $(loaded "$MNT2"))); }
begun=$(date +%s%N)
for mount in "$MNT" "$MNT2"; do
  bash -c "echo \$\$ >$group/cgroup.procs && exec head -c 4096 $mount/file >/dev/null"
done
enough() { (($(sum) >= 28 << 20)); }
within 60 enough || fail "loaded only $(sum) bytes"
now_loaded=$(sum)
passed_ms=$((($(date +%s%N) - begun) / 1000000))
# What two buckets hold, and what is under way.
le "$now_loaded" $((limit * passed_ms * 11 / 10000 + (8 << 20))) "loaded by both in $passed_ms ms"
for mount in "$MNT" "$MNT2"; do
  (($(loaded "$mount") * 4 >= now_loaded)) || fail "of $now_loaded bytes only $(loaded "$mount") are of $mount"
done
for mount in "$MNT" "$MNT2"; do must ppcctl rm_policy "$mount"; done
within 20 rmdir "$group" || fail "the cgroup cannot be removed"
