# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: what a loader reads with O_DIRECT is not loaded ahead, at its first start either; other services are
# served beside it.
# needs observer
# natively by default
. "$(dirname "$0")/maio.sh"
# sectors_of COMMAND...: what the disk reads for a cold start.
sectors_of() {
  local before
  drop_caches
  before=$(sectors)
  "$@" >/dev/null || fail "'$*' ended with status $?"
  echo $(($(sectors) - before))
}
serve
# Two seconds are enough to load more than half of the model.
load=(loadmodel --workers 2 --tp 2 --mode read --direct --init-s 2 "$MNT")
native=$(sectors_of "${load[@]}")
((native * 512 >= model_bytes)) || skip "no O_DIRECT: $native sectors"
start_daemon
register "$MNT" maio '{"wait_for_reader": true}'
bypassed() { runner_field '["device"]["bypassed_bytes"]'; }
for start in first second; do
  before=$(bypassed)
  ours=$(sectors_of ppcctl run --required --id svc-direct --workers 2 "$MNT" -- "${load[@]}")
  echo "# $start start: $ours sectors, natively $native"
  ((ours * 100 <= native * 105)) || fail "the $start start reads $ours sectors, natively $native"
  past=$(($(bypassed) - before))
  ((past >= model_bytes)) || fail "$past bytes went past the page cache, the model has $model_bytes"
done
has "$(ppcctl status "$MNT")" "MiB were read with O_DIRECT, past the page cache" "status"
# Another service's loads go on beside a stranger that reads so.
drop_caches
must ppcctl run --required --id svc-plain --workers 2 "$MNT" -- loadmodel --workers 2 --tp 2 "$MNT" >/dev/null
drop_caches
shards=("$MNT"/*.safetensors)
start_service svc-plain 2
dd if="${shards[0]}" of=/dev/null bs=1M iflag=direct status=none || fail "the stranger cannot read"
eq "$(mode_of svc-plain)" use "mode of a service that was recorded"
all_there() { (($(resident_of "$MNT") > model_bytes * 9 / 10)); }
within 60 all_there || fail "loaded only $(resident_of "$MNT"): $(ppcctl status)"
