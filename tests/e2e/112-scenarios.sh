# SPDX-License-Identifier: Apache-2.0
# Description: starts with enough memory that differ from the recorded one, or are of another shape,
# read the model once and get the right bytes.
# needs module: its bounds have not been met with the observer yet
. "$(dirname "$0")/scenario.sh"
once="disk<=103 refault<=5"
# By the per mille.  Slices of up to 16 KiB, and the pages in which two meet, are loaded with their
# neighbours: more with more workers.  Without affinity it would be half.
placed="$once wrong<=10"
many="$once wrong<=20"

warm() {
  local shard
  for shard in "$MODEL"/*.safetensors; do
    head -c $(($(stat -c %s "$shard") / 2)) "$shard" >/dev/null
  done
}
# Same bytes, another file.
replace_a_shard() {
  local shard
  shard=$(find "$MODEL" -name '*.safetensors' | sort | head -n 1)
  cp "$shard" "$shard.new" && mv "$shard.new" "$shard" && sync
  drop_caches
}
# All workers die when half is there, and the service starts them anew.
die_half_way() {
  load_in_group --workers 2 --device-mbps "$(device_of 2)" >/dev/null 2>&1 &
  half() { (($(resident_of "$MODEL") > model_bytes / 2)); }
  within 60 half || fail "the first attempt does not get on"
  pkill -9 -s 0 -x loadmodel
  wait $!
  return 0
}

begin
if is_all; then
  for workers in 1 8; do record svc-w$workers $workers; done
  know 2 --ranks 1,0
  know 2 --passes 2
  know 2 --mode read --direct
fi
record svc-read 2 --mode read
# Whichever worker each process was taken for while it was recorded.
for id in svc-w2 svc-w4; do
  is_stored() { ppcctl template show "$id" >/dev/null 2>&1; }
  within 20 is_stored || fail "no template of $id"
  lacking=$(lacked_by "$id")
  echo "# counted: recorded $id lacking=$lacking"
  le $((lacking * 1000)) "$model_bytes" "a thousand times the bytes of the model that the template of $id lacks"
done

extra workers-1 svc-w1 0 1 "$once"
scenario workers-2 svc-w2 0 2 "$placed"
extra workers-4 svc-w4 0 4 "$many"
extra workers-8 svc-w8 0 8 "$many"
scenario read svc-read 0 2 "$once" --mode read
extra direct-readers svc-read 0 2 "$once" --mode read --direct
scenario shuffled-shards svc-w2 0 2 "$placed" --shuffle 7
extra ranks-permuted svc-w2 0 2 "$once" --ranks 1,0
scenario other-tp svc-w4 0 2 "$placed"
DEVICE=12 extra consumer-half svc-w2 0 2 "$placed"
DEVICE=100 extra consumer-fast svc-w2 0 2 "$placed"
extra two-passes svc-w2 0 2 "$placed" --passes 2
BEFORE=warm extra warm-start svc-w2 0 2 "disk<=53"
BESIDE=own_prefetch scenario own-prefetch svc-w2 0 2 "$once"
FIRST=die_half_way scenario worker-restarts svc-w2 0 2 "$once"
BEFORE=replace_a_shard scenario file-replaced svc-w2 0 2 "$placed"
# After sixteen starts and five recordings.
memory_of() { awk -v name="$1:" '$1 == name {print $2}' "/proc/$(runner_pid)/status"; }
echo "# counted: runner anonymous=$(memory_of RssAnon) peak=$(memory_of VmHWM) KiB"
le "$(memory_of RssAnon)" 10240 "KiB of memory of the runner's own"
verdict
