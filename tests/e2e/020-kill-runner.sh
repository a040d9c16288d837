# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: kill -9 of the runner in the middle of a load.
. "$(dirname "$0")/lib.sh"
reference_checksum >/dev/null
start_with readahead
file=$(find "$MNT" -name '*.safetensors' | sort | tail -n 1)
start_load "$MNT"
runner=$(runner_pid)
kill -9 "$runner"
within 20 is_restarted "$runner" || fail "no restart: $(ppcctl status)"
finish_load
eq "$(status_field '["restarts"]')" 1 restarts
has "$(ppcctl status)" "killed by signal 9" "what status tells"
is_module && has "$(ppcctl status)" "  device /dev/ppc" "what status tells of the mount"

# Without anybody to restart it: files that are open are back to native read-ahead.
drop_caches
exec 5<"$file"
dd of=/dev/null bs=4096 count=1 status=none <&5
within 10 kernel_state_is attached || fail "not attached"
kill -STOP "$DAEMON"
kill -9 "$(runner_pid)"
# The observer's programs are ppcd's, and never stand in the way of read-ahead.
! is_module || within 5 kernel_state_is native || fail "kernel's state is $(kernel_state)"
expect_native_read_ahead 5 "$file" 24 # beyond what the policy may have asked for by now
kill -CONT "$DAEMON"
within 20 kernel_state_is attached || fail "not attached again"
exec 5<&-

# Again and again: it gives up, says so, and a new registration works.
for _ in 1 2 3 4 5 6 7; do
  within 20 kernel_state_is attached || break
  kill -9 "$(runner_pid)" 2>/dev/null
  sleep 0.2
done
within 20 state_is failed || fail "state is $(state)"
has "$(ppcctl status)" "gave up after 5" "what status tells"
eq "$(kernel_state)" native "kernel's state"
eq "$(checksum_of "$MNT")" "$(reference_checksum)" "checksum without a policy"
register "$MNT" eager
within 10 state_is running || fail "a new registration"
