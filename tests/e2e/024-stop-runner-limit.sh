# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: kill -STOP of MAIO's runner in the middle of a load with memory for less than half of the model,
# and -CONT a second later: right bytes, and next to nothing is read a second time.
# natively by default
. "$(dirname "$0")/maio.sh"
wanted=$(reference_checksum)
start_with maio
drop_caches
start_service svc-stop 2
eq "$(checksum_in "$(load_in_group --workers 2)")" "$wanted" "checksum while recording"
end_service svc-stop
limit_group 45 2
drop_caches
before=$(sectors)
read_so_far() { echo $((($(sectors) - before) * 512)); }
is_half_read() { (($(read_so_far) >= model_bytes / 2)); }
start_service svc-stop 2
load_in_group --workers 2 --device-mbps 10 >"$WORK/report" &
load=$!
within 60 is_half_read || fail "the load does not get to its middle"
runner=$(runner_pid)
must kill -STOP "$runner"
stopped=$(read_so_far)
sleep 1
is_dead "$load" && fail "the load ended before its runner went on"
went_on=$(read_so_far)
must kill -CONT "$runner"
wait "$load" || fail "the load failed"
used=$(read_so_far)
# The module's lease is two seconds: where it has run out on a busy machine another runner goes on.
is_module || eq "$(runner_pid)" "$runner" "the runner"
eq "$(checksum_in "$(cat "$WORK/report")")" "$wanted" "checksum"
echo "# counted: percent of the model from the disk: stopped at $((stopped * 100 / model_bytes)), went on at" \
  "$((went_on * 100 / model_bytes)), in all $((used * 100 / model_bytes))"
le "$used" $((model_bytes * 115 / 100)) "bytes from the disk"
end_service svc-stop
