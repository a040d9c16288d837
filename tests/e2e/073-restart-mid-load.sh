# SPDX-License-Identifier: Apache-2.0
# Description: kill -9 of the runner, then of ppcd, in the middle of a load with memory for less than
# half of the model: the kernel reads the rest.  Right bytes, and little is read a second time: what
# was loaded ahead may be reclaimed before its readers come to it.
# natively by default
. "$(dirname "$0")/maio.sh"
wanted=$(reference_checksum)
start_with maio
# The recording notes what the workers take for themselves.
limit_group 45 2
drop_caches
start_service svc-restart 2
eq "$(checksum_in "$(load_in_group --workers 2)")" "$wanted" "checksum while recording"
end_service svc-restart

read_so_far() { echo $((($(sectors) - before) * 512)); }
has_read() { (($(read_so_far) >= model_bytes * $1 / 100)); }
# load_and PERCENT COMMAND...: a load; when so much has come from the disk, COMMAND.  Sets used, bytes from the disk but for
# as many as the kernel has reclaimed, and loaded, what the runner there is then has loaded.
load_and() {
  local percent=$1 load
  shift
  drop_caches
  # What is loaded ahead begins at once.
  before=$(sectors) stolen_before=$(stolen)
  start_service svc-restart 2
  load_in_group --workers 2 >"$WORK/report" &
  load=$!
  within 60 has_read "$percent" || fail "the load does not get to $percent%"
  is_dead "$load" && fail "the load ended before $percent%"
  "$@"
  wait "$load" || fail "the load failed"
  used=$(read_so_far) reclaimed=$((($(stolen) - stolen_before) * 4096))
  counted="$(percent_of "$used")(reclaimed $(percent_of $reclaimed)"
  used=$((used - reclaimed))
  loaded=$(runner_field '["loader"]["loaded"]')
  counted+=" loaded $(percent_of "$loaded"))"
  eq "$(checksum_in "$(cat "$WORK/report")")" "$wanted" "checksum, disturbed at $percent%"
  end_service svc-restart
}
percent_of() { echo $(($1 * 100 / model_bytes)); }
# Pages that the kernel has reclaimed, where it counts them.
stolen() { if is_v1; then echo 0; else group_stat pgsteal; fi; }
kill_runner() {
  local runner
  runner=$(runner_pid)
  must kill -9 "$runner"
  within 20 is_restarted "$runner" || fail "no restart: $(ppcctl status)"
}

# Of a disturbed load.
check() {
  eq "$loaded" 0 "bytes loaded by the next runner with $1"
  le "$used" $((undisturbed * 115 / 100)) "bytes from the disk with $1 ($said)"
}
undisturbed=0 said=''
for _ in 1 2 3; do
  load_and 50 true
  undisturbed=$((used > undisturbed ? used : undisturbed))
  said+=" undisturbed=$counted"
done
for percent in 10 50 90; do
  : >"$WORK/ppcd.log"
  load_and $percent kill_runner
  said+=" at$percent=$counted"
  check "the runner killed at $percent%"
done
: >"$WORK/ppcd.log"
load_and 50 restart_daemon
said+=" ppcd=$counted"
check "ppcd killed"
echo "# counted: percent of the model from the disk: $said"
