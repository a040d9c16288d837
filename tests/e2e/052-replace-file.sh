# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a file is replaced by a rename in the middle of its load: who has it open reads the old
# bytes to the end, who opens it then the new ones, and these are loaded ahead as well.
. "$(dirname "$0")/lib.sh"
mkdir -p "$FAST/replaced"
for name in file next; do dd if=/dev/urandom of="$FAST/replaced/$name" bs=1M count=64 status=none; done
old=$(sha256sum <"$FAST/replaced/file") new=$(sha256sum <"$FAST/replaced/next")
sync
start_daemon
serve "$FAST/replaced"
register "$MNT" readahead
drop_caches
exec 5<"$MNT/file" # closed by cleanup
{
  head -c 16M <&5
  mv "$FAST/replaced/next" "$FAST/replaced/file"
  cat <&5
} | sha256sum >"$WORK/read"
eq "$(cat "$WORK/read")" "$old" "what the open file gave"
exec 5<&-
paced=$(dirname "$0")/paced.py
# shellcheck disable=SC2094  # both read it
read_slowly() { "$paced" "$MNT/file" <"$MNT/file"; }
eq "$(read_slowly | sha256sum)" "$new" "what the name gave afterwards"
# The observer looks for new files once a second.
is_loaded_ahead() {
  local before
  before=$(loaded)
  drop_caches
  eq "$(read_slowly | sha256sum)" "$new" "the same, cold"
  echo "# loaded ahead of the new file: $(($(loaded) - before))"
  (($(loaded) - before >= 16 << 20))
}
within 30 is_loaded_ahead || fail "the new file is not loaded ahead"
