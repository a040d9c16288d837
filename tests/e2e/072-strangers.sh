# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a process that does not belong to the service reads its model backwards and at random, while the
# service is recorded and while its template is used: the template and its use stay as they are.
# natively by default
. "$(dirname "$0")/lib.sh"
reference=$(reference_checksum)
start_daemon
serve
register "$MNT" maio '{"at_ready": "keep"}'
mkfifo "$WORK/go"
shards() { find "$MNT/" -name '*.safetensors' | sort -r; }
disturb() {
  local shard mib
  while read -r shard; do
    mib=$(($(stat -c %s "$shard") >> 20))
    for ((at = mib - 4; at > 0; at -= 4)); do
      dd if="$shard" of=/dev/null bs=1M count=1 skip="$at" status=none
      dd if="$shard" of=/dev/null bs=4k count=1 skip=$((RANDOM % (mib * 256))) status=none
    done
  done < <(shards)
}
# Children of the process that was told; who disturbs them is in the same cgroup.
service() {
  drop_caches
  # shellcheck disable=SC2016  # for the inner shell
  bash -c 'read -r <"$1/go"; loadmodel --workers 2 "$2" >"$1/out"; read -r <"$1/go"' _ "$WORK" "$MNT" &
  SERVICE=$!
  must ppcctl service start --id svc-ours --workers 2 --pid "$SERVICE" "$MNT"
  MODE=$(mode_of svc-ours)
  disturb &
  local disturber=$!
  echo >"$WORK/go"
  is_loaded() { grep -q checksum "$WORK/out" 2>/dev/null; }
  within 120 is_loaded || fail "the service does not load"
  has "$(cat "$WORK/out")" "$reference" "checksum"
  wait "$disturber"
  must ppcctl service ready --id svc-ours "$MNT"
  rm "$WORK/out"
  echo >"$WORK/go"
  wait "$SERVICE"
}
service
eq "$MODE" record "mode of the first start"
ge "$(runner_field '["events"]["strangers"]')" 10 "events of strangers"
# Those that were set aside, too.
templates() { find "$PPC_TEMPLATE_DIR" -name '*.ppct*' -exec sha256sum {} +; }
template=$(templates)
has "$template" .ppct "the template"
service
eq "$MODE" use "mode of the second start"
ge "$(runner_field '["stats"]["coverage_percent"]')" 95 "percent of the template that was read"
# Pages at a slice's end are mapped with a neighbour's, not always the same ones.
unknown=$(runner_field '["stats"]["unknown_events"]') matched=$(runner_field '["stats"]["matched_events"]')
le $((unknown * 20)) "$matched" "20 times the events that do not fit the template"
eq "$(templates)" "$template" "the template"
