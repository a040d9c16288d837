# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: kill -9 of the runner again and again, at random moments of loads: right bytes, a policy in
# force again each time.  PPC_E2E_KILLS says how often.
. "$(dirname "$0")/lib.sh"
reference_checksum >/dev/null
start_daemon
mount_ppc
kills=${PPC_E2E_KILLS:-3} under_load=0
policies=(readahead eager)
for ((i = 0; i < kills; i++)); do
  # After five quick deaths in a row it would be given up.
  if ((i % 4 == 0)); then
    ((i == 0)) || must ppcctl rm_policy "$MNT"
    register "$MNT" "${policies[i / 4 % 2]}"
  fi
  within 30 kernel_state_is attached || fail "kill $i: not attached: $(ppcctl status)"
  drop_caches
  checksum_of "$MNT" >"$WORK/loaded" &
  LOAD=$!
  sleep $((RANDOM % 4)).$((RANDOM % 10))
  if kill -0 "$LOAD" 2>/dev/null; then under_load=$((under_load + 1)); fi
  runner=$(runner_pid)
  must kill -9 "$runner"
  finish_load
  within 30 is_restarted "$runner" || fail "kill $i: no restart: $(ppcctl status)"
done
echo "# counted: kills=$kills under_load=$under_load"
ge $under_load $((kills / 2)) "kills under load"
