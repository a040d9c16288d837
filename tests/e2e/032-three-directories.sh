# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: three directories on a machine without any limit of a cgroup never keep more than its
# threshold together, and the share of one that is removed comes back to the others.
# Runs natively by default.  A small machine, as the daemon sees it: 400 MiB, of which 300 could be had; page cache may take 240.
if [[ -z ${PPC_E2E_MEMINFO:-} ]]; then
  PPC_E2E_MEMINFO=1 exec unshare --mount bash "$0"
fi
. "$(dirname "$0")/lib.sh"
BUDGET=$((240 << 20))
# What a first miss brings in is nobody's decision: a window each.
SLACK=$((6 << 20))
{
  printf '%s: %d kB\n' MemTotal $((400 << 10)) MemFree $((300 << 10)) MemAvailable $((300 << 10))
  printf '%s: %d kB\n' 'Active(file)' $((150 << 10)) 'Inactive(file)' $((150 << 10))
} >"$WORK/meminfo"
must mount --bind "$WORK/meminfo" /proc/meminfo

mkdir -p "$FAST/three"
for number in 1 2 3; do
  mkdir -p "$FAST/three/$number"
  dd if=/dev/urandom of="$FAST/three/$number/file" bs=1M count=96 status=none
done
sync
start_daemon
serve "$FAST/three/1"
serve "$FAST/three/2" MNT2
serve "$FAST/three/3" MNT3
drop_caches

kept() {
  local sum=0 mount
  for mount in "$MNT" "$MNT2" "$MNT3"; do sum=$((sum + $(resident_of "$mount"))); done
  echo "$sum"
}
# What was loaded, by the runner's word: somebody may drop the machine's caches meanwhile.
all_of() { (($(loaded "$1") >= 95 << 20)); }
most=0
watch_sum() {
  local now
  now=$(kept)
  ((now <= most)) || most=$now
}
# eager wants every byte and drops none.
for mount in "$MNT" "$MNT2"; do
  register "$mount" eager
  head -c 4096 "$mount/file" >/dev/null
  within 60 all_of "$mount" || fail "not loaded: $(ppcctl status --json "$mount")"
done
register "$MNT3" eager
head -c 4096 "$MNT3/file" >/dev/null
third_has_its_part() {
  watch_sum
  (($(loaded "$MNT3") >= 40 << 20))
}
within 60 third_has_its_part || fail "the third has $(loaded "$MNT3"): $(ppcctl status --json)"
for _ in {1..20}; do
  watch_sum
  sleep 0.1
done
echo "# together at most $((most >> 20)) MiB"
le "$most" $((BUDGET + SLACK)) "page cache of the three together"
ge "$(runner_field '["loader"]["queued"]' "$MNT3")" $((32 << 20)) "what waits for room"

must ppcctl rm_policy "$MNT2"
within 60 all_of "$MNT3" || fail "the share of the second did not come back: $(ppcctl status --json "$MNT3")"
