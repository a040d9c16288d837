# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: starts that are not as the recorded one was: that one ran from memory; a shard has another header, or is gone;
# an adapter is read after ready.  Each gets the right bytes, what is there is loaded ahead, and nothing else.
# natively by default
. "$(dirname "$0")/maio.sh"
shards_of() { du -cb "$1"/*.safetensors | awk 'END {print $1}'; }
# start ID COMMAND...: a start that reads all shards in their order, cold if COMMAND makes it so, once all is loaded that is
# to be.  Sets said, the digest of what it read, MODE, REASON, the policy's status, AHEAD, bytes that were there before it read, and of the runner's loads
# ASKED and FAILED.
start() {
  local id=$1 asked failed asked_before failed_before
  read -r asked_before failed_before < <(counts)
  "${@:2}"
  start_service "$id" 1
  MODE=$(mode_of "$id") REASON=$(ppcctl policy "$MNT" '{"op": "status"}')
  within 60 rests || fail "$id: the loader does not come to rest"
  AHEAD=$(resident_of "$MNT")
  said=$(in_group cat "$MNT"/*.safetensors | sha256sum)
  must ppcctl service ready --id "$id" "$MNT"
  read -r asked failed < <(counts)
  ASKED=$((asked - asked_before)) FAILED=$((failed - failed_before))
  echo "# counted: $id $MODE asked=$(percent "$ASKED")% ahead=$(percent "$AHEAD")% failed=$FAILED"
}
# Sorted by their names.
counts() { runner_field '["loader"]' | grep -oE "'(asked|failed)': [0-9]+" | awk '{printf "%s ", $2} END {print ""}'; }
percent() { echo $(($1 * 100 / $(shards_of "$MNT"))); }
rests() {
  local now
  now=$(counts)
  ticks_pass 5
  [[ $now == "$(counts)" ]]
}
digest() { cat "$MNT"/*.safetensors | sha256sum; }
stop() { must ppcctl service stop --id "$1" "$MNT"; }
start_daemon
serve
register "$MNT" maio

# Recorded from memory.
wanted=$(digest)
start svc-warm true
eq "$said" "$wanted" "bytes of a start from memory"
eq "$MODE" record "mode of the first start"
stop svc-warm
before=$(sectors)
start svc-warm drop_caches
eq "$said" "$wanted" "bytes of the cold start after it"
ge "$(percent "$AHEAD")" 95 "percent loaded ahead of a cold start whose template was recorded from memory"
le $((($(sectors) - before) * 51200 / model_bytes)) 105 "percent of the model that the disk gave"
stop svc-warm
must ppcctl rm_policy "$MNT"

# A shard with a longer header, whose tensors all lie elsewhere; then one less.
mkdir "$FAST/changed"
cp "$MODEL"/* "$FAST/changed" && sync
serve "$FAST/changed"
register "$MNT" maio
shards=("$FAST/changed"/*.safetensors)
lengthen() {
  python3 - "$1" <<'PY'
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    size = struct.unpack("<Q", file.read(8))[0]
    header, data = json.loads(file.read(size)), file.read()
header["__metadata__"] = {"made": "anew" * 1500}
text = json.dumps(header).encode()
with open(sys.argv[1] + ".new", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
PY
  mv "$1.new" "$1" && sync
}
start svc-changed drop_caches
stop svc-changed
lengthen "${shards[1]}"
ticks_pass 10 # the observer looks for new files once a second
wanted=$(digest)
start svc-changed drop_caches
eq "$said" "$wanted" "bytes with a changed shard"
eq "$MODE" record "mode with a changed shard"
ge "$(percent "$AHEAD")" 95 "percent loaded ahead with a changed shard"
le "$(percent "$ASKED")" 101 "percent that was to be loaded with a changed shard"
stop svc-changed
rm "${shards[3]}"
ticks_pass 10
wanted=$(digest)
start svc-changed drop_caches
eq "$said" "$wanted" "bytes without a shard"
ge "$(percent "$AHEAD")" 95 "percent loaded ahead without a shard"
has "$REASON" "${shards[3]##*/} is missing" "reason without a shard"
le "$(percent "$ASKED")" 101 "percent that was to be loaded without a shard"
eq "$FAILED" 0 "bytes that could not be loaded without a shard"
stop svc-changed

# An adapter, which only a service that is ready reads.
cp "$MODEL/${shards[3]##*/}" "$MNT" && sync
mkdir "$MNT/adapter"
head -c 8M /dev/urandom >"$MNT/adapter/weights"
{
  printf '\x48\0\0\0\0\0\0\0%-72s' '{"lora":{"dtype":"U8","shape":[8388608],"data_offsets":[0,8388608]}}'
  cat "$MNT/adapter/weights"
} >"$MNT/adapter/adapter_model.safetensors"
sync
ticks_pass 10
wanted=$(digest)
for mode in record use use; do
  start svc-adapter drop_caches
  eq "$said" "$wanted" "bytes of a start with an adapter"
  eq "$MODE" $mode "mode of a start with an adapter"
  [[ $mode == record ]] || ge "$(percent "$AHEAD")" 95 "percent loaded ahead of a start with an adapter"
  before=$(counts)
  cmp <(tail -c 8M "$MNT/adapter/adapter_model.safetensors") "$MNT/adapter/weights" || fail "the adapter's bytes"
  ticks_pass 10
  eq "$(counts)" "$before" "bytes that were asked for and loaded after ready"
  eq "$(mode_of svc-adapter)" serving "mode of a service that has read its adapter"
  stop svc-adapter
done
