# SPDX-License-Identifier: Apache-2.0
# Description: MAIO records a start, then reads ahead of the next one from the moment it is
# announced: right bytes, every byte read once, the time without model reads used, pages on the
# nodes of this run's XPU list, and released behind the readers under a limit.
# needs module: its bounds have not been met with the observer yet
. "$(dirname "$0")/maio.sh"
wanted=$(reference_checksum)
start_with maio

# Recording.
drop_caches
start_service svc-maio 2 0,1
eq "$(checksum_in "$(load_in_group --workers 2)")" "$wanted" "checksum while recording"
end_service svc-maio
template=$PPC_TEMPLATE_DIR/sv/svc-maio.ppct
is_stored() { [[ -s $template ]]; }
within 20 is_stored || fail "no template: $(tail -n 5 "$WORK/ppcd.log")"
le "$(stat -c %s "$template")" 65536 "bytes of the template"

# Using it: the model is there before the service reads.
drop_caches
misses=$(runner_field '["events"]["misses"]')
start_service svc-maio 2 1,0
present() { (($(resident_of "$MODEL") >= model_bytes * 99 / 100)); }
within 60 present || fail "not prefetched: $(ppcctl status --json)"
eq "$(runner_field '["events"]["misses"]')" "$misses" "misses before and after"
node() { runner_field "[\"loader\"][\"node_loaded\"][\"$1\"]"; }
if [[ -d /sys/devices/system/node/node1 ]]; then
  ge "$(node 0)" $((model_bytes * 2 / 5)) "bytes for node 0"
  ge "$(node 1)" $((model_bytes * 2 / 5)) "bytes for node 1"
fi
before=$(sectors)
eq "$(checksum_in "$(load_in_group --workers 2)")" "$wanted" "checksum with everything prefetched"
le $((($(sectors) - before) * 512)) $((model_bytes / 50)) "bytes read by the load itself"
must ppcctl service ready --id svc-maio "$MNT"
# The observer tells an insertion together with the read-ahead around it.
! is_module || eq "$(stat_of unknown_events)" 0 "events that do not fit the template"
ge "$(stat_of coverage_percent)" 99 "percent of the template that was read"
must ppcctl service stop --id svc-maio "$MNT"

# With memory for less than half of it.
drop_caches
limit_group 45 2
before=$(sectors)
start_service svc-maio 2 0,1
eq "$(checksum_in "$(load_in_group --workers 2)")" "$wanted" "checksum under a limit"
# The readers race with the loader from the start: a little of what it has read ahead makes room.
le $((($(sectors) - before) * 512)) $((model_bytes * 125 / 100)) "bytes from the disk under a limit"
le "$(group_event max)" 10 "times the limit was hit"
eq "$(stat_of refault_bytes)" 0 "bytes dropped too early"
must ppcctl service ready --id svc-maio "$MNT"
ge "$(stat_of released_bytes)" $((model_bytes / 2)) "released behind the readers"
ge "$(stat_of coverage_percent)" 99 "percent of the template that was seen read"
must ppcctl service stop --id svc-maio "$MNT"
