# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: unmounting under a registered policy works at once and ends the registration.
# needs module
. "$(dirname "$0")/lib.sh"
start_daemon
mount_ppc
register "$MNT" eager
runner=$(runner_pid)
group=$(grep -o '/ppc\.runners/[0-9]*$' "/proc/$runner/cgroup") || fail "no cgroup of its own"
drop_caches
cat "$MNT"/*.safetensors >/dev/null &
has_loaded() { (($(runner_field '["loader"]["loaded"]') > 0)); }
within 20 has_loaded || fail "nothing is loaded"
kill "$!"
wait "$!"
must umount "$MNT"
is_gone() { ! kill -0 "$runner" 2>/dev/null && [[ -z $(ppcctl list) ]]; }
within 10 is_gone || fail "still there: $(ppcctl list)"
[[ ! -e /sys/fs/cgroup$group ]] || fail "the runner's cgroup is still there"
grep -q "<3>\|gave up\|killed" "$WORK/ppcd.log" && fail "noise: $(cat "$WORK/ppcd.log")"
# The same place, the same numbers, another mount.
mount_ppc
register "$MNT" eager
[[ $(runner_pid) != "$runner" ]] || fail "the same runner"
must umount "$MNT"
mount_ppc
register "$MNT" readahead
eq "$(cat "$(sys_of "$MNT")/policy")" readahead "attached policy"
# Over its own base, and with the daemon stopped.
must umount "$MNT"
mount_ppc "$MODEL" "$MODEL"
register "$MODEL" readahead
kill -STOP "$(runner_pid)"
must umount "$MODEL"
within 10 test -e "$MODEL/config.json" || fail "the original is not back"
stop_daemon
