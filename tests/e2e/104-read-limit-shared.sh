# SPDX-License-Identifier: Apache-2.0
# Description: two directories whose services are below one io.max: their runners together keep to it,
# and each has a part.
. "$(dirname "$0")/lib.sh"
group=/sys/fs/cgroup/ppc-read-limit-shared
limit=$((4 << 20))
echo "+memory +io" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
mkdir -p "$group"
trap 'cleanup; rmdir "$group" 2>/dev/null' EXIT
[[ -f $group/io.max ]] || skip "no io controller"
for name in one two; do
  mkdir -p "$FAST/$name"
  dd if=/dev/urandom of="$FAST/$name/file" bs=1M count=64 status=none
done
sync
device=$(findmnt -no MAJ:MIN -T "$FAST/one" | tr -d ' ')
echo "$device rbps=$limit" >"$group/io.max" || skip "io.max of $device cannot be set"
start_daemon
serve "$FAST/one"
serve "$FAST/two" MNT2
drop_caches
for mount in "$MNT" "$MNT2"; do
  register "$mount" eager
  must ppcctl service start --id "svc-$(basename "$mount")" --cgroup "$group" "$mount"
done
loaded() { runner_field '["loader"]["loaded"]' "$1"; }
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
