# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a policy is registered and removed again and again, then ones whose ppc_exit throws, crashes or hangs:
# nothing of it stays, neither a process, a descriptor of ppcd, a cgroup, nor a BPF program or map.  PPC_E2E_CYCLES says
# how often.
# natively by default
. "$(dirname "$0")/lib.sh"
cycles=${PPC_E2E_CYCLES:-20} every=$WORK/bpf
start_daemon
serve "$FAST"
pinned() { find /sys/fs/bpf -name '*ppc*' 2>/dev/null; }
descriptors() { find "/proc/$DAEMON/fd" -type l | wc -l; }
cycle() {
  local runner kind id group
  register "$MNT" "$@"
  runner=$(runner_pid)
  group=$(grep -o '/ppc\.runners/.*$' "/proc/$runner/cgroup" || true)
  for kind in prog map link; do
    for id in $(bpf_of "$runner" $kind) $(bpf_of "$DAEMON" $kind); do echo "$kind $id"; done
  done >>"$every"
  must ppcctl rm_policy "$MNT"
  is_dead "$runner" || fail "the runner outlives rm_policy"
  [[ -z $group || ! -e /sys/fs/cgroup$group ]] || fail "the runner's cgroup outlives rm_policy"
}
dd if=/dev/urandom of="$FAST/file" bs=1M count=4 status=none
wanted=$(sha256sum <"$FAST/file")
before=$(descriptors)
policies=(readahead eager maio null)
for ((i = 0; i < cycles; i++)); do cycle "${policies[i % 4]}"; done
for fault in throw crash hang; do
  cycle "$BAD/libppc_misbehave.so" "{\"do\": \"exit-$fault\", \"runtime\": {\"hook_timeout_ms\": 20}}"
  register "$MNT" null
  eq "$(state)" running "the next registration after exit-$fault"
  must ppcctl rm_policy "$MNT"
done
# ppcd keeps a handle of each runner for a moment, to end it should it hang.
settled() { (($(descriptors) <= before)); }
within 20 settled || fail "ppcd had $before descriptors and has $(ls -l "/proc/$DAEMON/fd")"
eq "$(pgrep -P "$DAEMON" | wc -l)" 0 "processes that ppcd left"
eq "$(pinned)" "" "what is pinned in bpffs"
is_module || { command -v bpftool >/dev/null || fail "bpftool is not installed"; }
left() {
  local kind
  for kind in prog map link; do
    bpftool $kind list | sed -n "s/^\([0-9]*\): .*/$kind \1/p"
  done | sort >"$WORK/there"
  sort -u "$every" | comm -12 - "$WORK/there"
}
if ! is_module; then
  ge "$(wc -l <"$every")" $((cycles * 5)) "BPF objects that were seen"
  # The kernel frees maps a moment after their last user.
  gone() { [[ -z $(left) ]]; }
  within 10 gone || fail "left behind: $(left | tr '\n' ' ')"
fi
eq "$(sha256sum <"$MNT/file")" "$wanted" "checksum"
echo "# counted: cycles=$cycles objects=$(wc -l <"$every") descriptors=$before"
