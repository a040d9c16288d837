# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: kill -STOP of the runner in the middle of a load.
. "$(dirname "$0")/lib.sh"
reference_checksum >/dev/null
start_with readahead
file=$(find "$MNT" -name '*.safetensors' | sort | tail -n 1)
start_load "$MNT"
exec 5<"$file"  # closed by cleanup
runner=$(runner_pid)
kill -STOP "$runner"
if is_module; then within 20 lease_runs_out || fail "the lease does not run out: $(kernel_state)"; fi
started=$SECONDS
text=$(ppcctl status)
le $((SECONDS - started)) 20 "seconds that status took"
has "$text" "stopped by a signal" "what status tells"
! is_module || has "$text" "lease has run out: the native policy is in force" "what status tells"
eq "$(status_field '["state"]')" stopped "state in status"
finish_load
drop_caches
dd of=/dev/null bs=4096 count=1 status=none <&5
expect_native_read_ahead 5 "$file" 24

# Woken up it comes back by itself ...
kill -CONT "$runner"
within 30 kernel_state_is attached || fail "not attached again: $(ppcctl status)"
within 10 state_is running || fail "state is $(state)"
eq "$(checksum_of "$MNT")" "$(reference_checksum)" "checksum after the return"

# ... and a stopped one can be removed and replaced.
runner=$(runner_pid)
kill -STOP "$runner"
must ppcctl rm_policy "$MNT"
kill -0 "$runner" 2>/dev/null && fail "the stopped runner lives on"
eq "$(kernel_state)" native "kernel's state"
register "$MNT" null
eq "$(state)" running "a new registration"
