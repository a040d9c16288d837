# SPDX-License-Identifier: Apache-2.0
# Description: ppc-runner without ppcd: works in the foreground, records, ends as asked, and says
# by its exit status when the mount or directory is gone or its lease ran out.
. "$(dirname "$0")/lib.sh"
mkdir -p "$FAST/three/blobs" "$FAST/three/snapshot"
dd if=/dev/urandom of="$FAST/three/blobs/b" bs=1M count=48 status=none
ln -sf ../blobs/b "$FAST/three/snapshot/model"
ln -sf ../../../etc/passwd "$FAST/three/snapshot/out"
sync
wanted=$(sha256sum <"$FAST/three/blobs/b")
serve "$FAST/three"
RUNNER=''
begin() {
  ppc-runner --mount "$MNT" --backend "$BACKEND" "$@" >"$WORK/status" 2>"$WORK/log" &
  RUNNER=$!
  within 20 kernel_state_is attached || fail "not attached: $(cat "$WORK/log")"
}
ends_with() {
  wait "$RUNNER"
  eq "$?" "$1" "exit status ($(cat "$WORK/log"))"
}
of_status() { python3 -c "import json,sys; print(json.load(open('$WORK/status'))$1)"; }

drop_caches
begin --policy readahead --record "$WORK/events"
# It reads as the policy loads.  How much of it that is depends on the disk's other users, to whom the loader leaves time:
# the kernel's own read-ahead alone would be 0.
eq "$(dd if="$MNT/blobs/b" bs=64K status=none | "$(dirname "$0")/paced.py" "$MNT/blobs/b" | sha256sum)" "$wanted" "checksum"
kill -TERM "$RUNNER"
ends_with 0
eq "$(kernel_state)" native "state afterwards"
ge "$(of_status '["loader"]["loaded"]')" $((8 << 20)) "loaded ahead"
ge "$(stat -c %s "$WORK/events")" 500 "bytes of recorded events"
eq "$(head -c 8 "$WORK/events")" PPCEVLOG "magic of the record"

# Links that stay in the mount are followed, others are not.
drop_caches
begin --policy eager --config '{"files":["snapshot/model","snapshot/out"]}'
head -c 4096 "$MNT/blobs/b" >/dev/null
all_there() { (($(resident_of "$MNT/blobs/b") == 48 << 20)); }
within 60 all_there || fail "of the file $(resident_of "$MNT/blobs/b") bytes are in memory"
kill -INT "$RUNNER"
ends_with 0
ge "$(($(of_status '["loader"]["loaded"]') + $(of_status '["loader"]["resident"]')))" $((48 << 20)) \
  "loaded through a link"

if ! is_module; then
  begin --policy null
  mv "$MNT" "$MNT.moved"
  ends_with 19
  exit
fi
begin --policy null --config '{"runtime":{"lease_ms":500}}'
kill -STOP "$RUNNER"
drop_caches
head -c 4M "$MNT/blobs/b" >/dev/null
within 10 kernel_state_is expired || fail "the lease does not end: $(kernel_state)"
kill -CONT "$RUNNER"
ends_with 22

begin --policy null
drop_caches
head -c 4M "$MNT/blobs/b" >/dev/null
must umount "$MNT"
ends_with 19
