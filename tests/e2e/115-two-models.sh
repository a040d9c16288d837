# SPDX-License-Identifier: Apache-2.0
# Description: two services with models of their own load at once under one limit, which has no room for
# both: each gets an equal share of the disk within 20%, the limit is not hit, and what was dropped for the
# other one is not missed.
# natively by default
. "$(dirname "$0")/maio.sh"
STAGING_MIB=1
BASE=$(dirname "$MODEL")
trap 'cleanup; remove_groups "$GROUP"/* "$GROUP"' EXIT
[[ -d $BASE/other ]] || must cp -r "$MODEL" "$BASE/other"
reference_checksum >/dev/null
start_daemon
# Before anybody looks on: what reads a model there is taken for a service.
for name in model other; do
  must ppcctl template synth --tp 2 --id "svc-$name" --root "$BASE" "$BASE/$name"
done
serve "$BASE"
register "$MNT" maio
limit_group 90 4
is_v1 || echo +memory >"$GROUP/cgroup.subtree_control"
mkdir "$GROUP/model" "$GROUP/other"
sync && drop_caches

# load NAME: the service's two workers, together as fast as the disk.
load() {
  bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$GROUP/$1" \
    loadmodel --workers 2 --staging "${STAGING_MIB}M" --init-s 1 --device-mbps 33 "$MNT/$1" >"$WORK/$1.report"
}
# of_services FIELD: what MAIO counts of model and other, in one answer.
of_services() {
  ppcctl policy "$MNT" '{"op": "status"}' | python3 -c '
import json, sys
counted = {s["service_id"]: s[sys.argv[1]] for s in json.load(sys.stdin)["services"]}
print(counted["svc-model"], counted["svc-other"])' "$1"
}
max=$(group_event max) killed=$(group_event oom_kill) announced=()
for name in model other; do
  must ppcctl service start --id "svc-$name" --cgroup "$GROUP/$name" --workers 2 --xpu 0,1 "$MNT" &
  announced+=($!)
done
wait "${announced[@]}" || fail "a service could not be announced"
loads=()
for name in model other; do
  load "$name" &
  loads+=($!)
done
wait -n "${loads[@]}" || fail "a load failed"
read -r one two <<<"$(of_services loaded)"
wait "${loads[@]}" || fail "a load failed"
echo "# counted: loaded until the first one was there: $one and $two of $model_bytes bytes each"
# Four fifths of an equal share are two thirds of what the other one has then.
least=$((one < two ? one : two)) most=$((one < two ? two : one))
ge $((least * 3)) $((most * 2)) "three times what the one that got less was given, in bytes"
declare -A dropped missed
read -r "dropped[model]" "dropped[other]" <<<"$(of_services dropped)"
read -r "missed[model]" "missed[other]" <<<"$(of_services refaults)"
for name in model other; do
  eq "$(checksum_in "$(cat "$WORK/$name.report")")" "$(reference_checksum)" "checksum of $name"
  echo "# counted: $name dropped=${dropped[$name]} missed=${missed[$name]} bytes"
  ge "${dropped[$name]}" $((model_bytes / 4)) "bytes dropped of $name"
  le $((missed[$name] * 1000)) $((dropped[$name] * 5)) "a thousand times what was dropped of $name and missed again, in bytes"
  must ppcctl service stop --id "svc-$name" "$MNT"
done
echo "# counted: the limit was hit $(($(group_event max) - max)) times"
eq "$(group_event oom_kill)" "$killed" "processes killed"
eq "$(group_event max)" "$max" "times the limit was hit"
