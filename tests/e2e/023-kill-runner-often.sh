# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: kill -9 of the runner again and again, at random moments, while a service loads from
# a cold cache over and over: right bytes in every load, a policy in force again after each kill.
# PPC_E2E_KILLS says how often.
# natively by default
. "$(dirname "$0")/lib.sh"
kills=${PPC_E2E_KILLS:-12} under_load=0
policies=(readahead eager)
reference=$(reference_checksum)

# Ends by itself only with a load that failed or brought wrong bytes.
load_forever() {
  local got
  while :; do
    drop_caches
    got=$(checksum_of "$MNT") || return
    [[ $got == "$reference" ]] || return
    echo . >>"$WORK/loads"
  done
}
is_loading() { pgrep -s 0 -x loadmodel >/dev/null; }

start_daemon
serve
load_forever &
SERVICE=$!
for ((i = 0; i < kills; i++)); do
  # After five quick deaths in a row it would be given up, a start that is too slow counts as one.
  if ((i % 3 == 0)); then
    ((i == 0)) || must ppcctl rm_policy "$MNT"
    register "$MNT" "${policies[i / 3 % 2]}"
  fi
  within 30 kernel_state_is attached || fail "kill $i: not attached: $(ppcctl status)"
  sleep $((RANDOM % 8 ? 0 : RANDOM % 4)).$((RANDOM % 10))
  within 30 is_loading || fail "kill $i: nothing is loaded"
  is_dead "$SERVICE" && fail "kill $i: a load before it failed or brought wrong bytes"
  if is_loading; then under_load=$((under_load + 1)); fi
  runner=$(runner_pid)
  must kill -9 "$runner"
  within 30 is_restarted "$runner" || fail "kill $i: no restart: $(ppcctl status)"
done
# Shown, not judged: more than the kills where a start was too slow.
deaths=$(grep -c 'native policy in force, restart in' "$WORK/ppcd.log")
loads() { wc -l <"$WORK/loads"; }
# Whatever was under way at the last kill ends as well.
before=$(loads 2>/dev/null || echo 0)
another_load() { is_dead "$SERVICE" || (($(loads) > before + 1)); }
within 120 another_load || fail "the loads after the last kill do not end"
is_dead "$SERVICE" && fail "a load failed or brought wrong bytes"
echo "# counted: kills=$kills deaths=$deaths under_load=$under_load loads=$(loads)"
ge $under_load $((kills / 2)) "kills under load"
