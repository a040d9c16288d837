# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a service that is ready, and was to be dropped when it became so, is left alone when its
# runner, and then ppcd, is killed and started again: nothing of it is evicted or loaded.
# natively by default
. "$(dirname "$0")/lib.sh"
start_with maio '{"at_ready": "all"}'
must ppcctl service start --id svc-one --workers 1 "$MNT"
drop_caches # what others had cached stays
reference=$(checksum_of "$MNT")
must ppcctl service ready --id svc-one "$MNT"
dropped() { runner_field '["evictor"]["dropped"]'; }
has_dropped() { (($(dropped) > 0)); }
within 10 has_dropped || fail "at_ready=all dropped nothing: the rest proves nothing"
# Its serving brings it back.
eq "$(checksum_of "$MNT")" "$reference" "a second load"
# By our own counters: some kernels page out an idle cache by themselves.
is_serving() {
  ticks_pass 10
  eq "$(dropped)" 0 "bytes dropped after $1"
  eq "$(runner_field '["loader"]["asked"]')" 0 "bytes asked for after $1"
}
runner=$(runner_pid)
kill -9 "$runner"
within 10 is_restarted "$runner" || fail "the runner was not restarted"
is_told() { status_field '["services"][0]["service_id"]' 2>/dev/null | grep -q svc-one; }
within 10 is_told || fail "the service is not listed"
is_serving "the runner's death"
restart_daemon
within 10 is_told || fail "the service is not listed"
is_serving "ppcd's death"
must ppcctl service stop --id svc-one "$MNT"
