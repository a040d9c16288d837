# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a process that does not belong to the service reads its model, backwards and at random, mapped, or
# all of it with cat, while the service is recorded and while its template is used: the template is what a
# start without strangers records, its use is as theirs, and no stranger changes it.
# natively by default
. "$(dirname "$0")/lib.sh"
reference=$(reference_checksum)
start_with maio '{"at_ready": "keep"}'
mkfifo "$WORK/go"
shards() { find "$MNT/" -name '*.safetensors' | sort -r; }

nobody() { :; }
at_random() {
  local shard mib
  while read -r shard; do
    mib=$(($(stat -c %s "$shard") >> 20))
    for ((at = mib - 4; at > 0; at -= 4)); do
      dd if="$shard" of=/dev/null bs=1M count=1 skip="$at" status=none
      dd if="$shard" of=/dev/null bs=4k count=1 skip=$((RANDOM % (mib * 256))) status=none
    done
  done < <(shards)
}
with_cat() { shards | xargs cat >/dev/null; }
# A page of each 16, backwards.
mapped() {
  shards | xargs /usr/bin/python3 -c '
import mmap, sys
for name in sys.argv[1:]:
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        sum(pages[at] for at in range(len(pages) - 1, 0, -65536))'
}
# service ID STRANGER: a start of its own, children of the process that was told; the stranger is in the same
# cgroup.  Sets MODE, and what the policy tells of it (of this one: an automatic service may be made for the stranger).
service() {
  local id=$1 disturber
  drop_caches
  # shellcheck disable=SC2016  # for the inner shell
  bash -c 'read -r <"$1/go"; loadmodel --workers 2 "$2" >"$1/out"; read -r <"$1/go"' _ "$WORK" "$MNT" &
  SERVICE=$!
  must ppcctl service start --id "$id" --workers 2 --pid "$SERVICE" "$MNT"
  MODE=$(mode_of "$id")
  "$2" &
  disturber=$!
  echo >"$WORK/go"
  is_loaded() { grep -q checksum "$WORK/out" 2>/dev/null; }
  within 120 is_loaded || fail "the service does not load"
  has "$(cat "$WORK/out")" "$reference" "checksum"
  wait "$disturber"
  ticks_pass 2
  tells "$id"
  must ppcctl service ready --id "$id" "$MNT"
  rm "$WORK/out"
  echo >"$WORK/go"
  wait "$SERVICE"
}
# tells ID: sets READ (bytes that were loaded for it, and that it missed after they were dropped), COVERAGE (percent of
# its template that was read), MATCHED and UNKNOWN (events).
tells() {
  read -r READ COVERAGE MATCHED UNKNOWN < <(ppcctl policy "$MNT" '{"op": "status"}' | python3 -c '
import json, sys
of, = (s for s in json.load(sys.stdin)["services"] if s["service_id"] == sys.argv[1])
groups = of.get("groups", [])
total = sum(group["total"] for group in groups)
print(of.get("loaded", 0) + of.get("refaults", 0), total and sum(group["consumed"] for group in groups) * 100 // total,
      of.get("matched", 0), of.get("unknown", 0))' "$1") || fail "the policy does not tell of $1"
}
strangers() { runner_field '["events"]["strangers"]'; }
# Of told services; those that were set aside, too.  The cat may get an automatic service, with a template of its own.
templates() { find "$PPC_TEMPLATE_DIR" -path '*/au/*' -prune -o -name '*.ppct*' -exec sha256sum {} +; }
# What was recorded is stored behind the end of the start.
is_stored() { [[ $(templates) == *"/$1.ppct"* ]]; }

# If fentry is not allowed, a large folio that a stranger has read is mapped whole: its part beyond a worker's slice comes
# as an event that fits no template.
sees_all() { [[ $(ppcctl status --json "$MNT") != *"fentry is not allowed on this kernel"* ]]; }
# bytes_of ID FIELD: of both templates, svc-alone and this one, summed over the workers.
bytes_of() {
  ppcctl template diff --json svc-alone "$1" |
    python3 -c 'import json, sys; print(sum(group[sys.argv[1]] for group in json.load(sys.stdin)["groups"]))' "$2"
}

service svc-alone nobody
eq "$MODE" record "mode of the first start without strangers"
within 20 is_stored svc-alone || fail "no template is stored"
# What it read last, just before it was ready, is there too.
lacking=$(lacked_by svc-alone)
whole=$(du -cb "$MODEL"/* | awk 'END {print $1}')
echo "# counted: recorded whole=$whole lacking=$lacking"
le $((lacking * 1000)) "$whole" "a thousand times the bytes of the model that the template lacks"
service svc-alone nobody
eq "$MODE" use "mode of the second start without strangers"
undisturbed=$READ
for stranger in at_random mapped with_cat; do
  id=svc-$stranger before=$(strangers)
  service "$id" "$stranger"
  eq "$MODE" record "mode of the first start, $stranger"
  ge $(($(strangers) - before)) 10 "events of strangers, $stranger"
  within 20 is_stored "$id" || fail "no template of $id: $(tail -n 5 "$WORK/ppcd.log")"
  both=$(bytes_of "$id" both) lacking=$(bytes_of "$id" only_in_first) strange=$(bytes_of "$id" only_in_second)
  echo "# counted: $stranger template both=$both lacking=$lacking strange=$strange"
  le $((strange * 100)) "$both" "a hundred times the bytes of the template that are a stranger's, $stranger"
  le $((lacking * 50)) "$both" "fifty times the bytes that the template lacks, $stranger"
  template=$(templates)
  has "$template" "$id.ppct" "the templates"
  service "$id" "$stranger"
  echo "# counted: $stranger took=$READ undisturbed=$undisturbed"
  eq "$MODE" use "mode of the second start, $stranger"
  ge "$COVERAGE" 95 "percent of the template that was read, $stranger"
  # Pages at a slice's end are mapped with a neighbour's, not always the same ones.
  if [[ $stranger == at_random ]] || sees_all; then
    le $((UNKNOWN * 20)) "$MATCHED" "20 times the events that do not fit the template, $stranger"
  fi
  # What is not loaded ahead its readers miss themselves: undisturbed, too, a part of the model.
  le $((READ * 10)) $((whole * 11)) "ten times the bytes that the start took, $stranger"
  eq "$(templates)" "$template" "the template, $stranger"
done
