# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a ppc mount in a ppc mount, both registered: what is read there is told to the inner one alone, and to
# the outer one once the inner one is unmounted.
# needs module
. "$(dirname "$0")/lib.sh"
trap 'umount -q "$MNT/inner"; cleanup' EXIT
start_daemon
base=$FAST/outer
mkdir -p "$base/inner"
for file in "$base/a" "$base/inner/b"; do dd if=/dev/zero of="$file" bs=64K count=4 status=none; done
sync
mount_ppc "$base" "$MNT"
mount_ppc "$base/inner" "$MNT/inner"
# missed DIR FILE: how many more misses the runner of DIR counts for a cold read of FILE.
missed() {
  local before
  before=$(runner_field '["events"]["misses"]' "$1")
  dd if="$2" iflag=nocache count=0 status=none
  cat "$2" >/dev/null
  sleep 1
  echo $(($(runner_field '["events"]["misses"]' "$1") - before))
}
expect() { # has the other FILE
  (($(missed "$1" "$3") > 0)) || fail "$1 is told nothing of $3"
  eq "$(missed "$2" "$3")" 0 "what $2 is told of $3"
}
register "$MNT" kvtier
register "$MNT/inner" kvtier
expect "$MNT/inner" "$MNT" "$MNT/inner/b"
expect "$MNT" "$MNT/inner" "$MNT/a"
must ppcctl rm_policy "$MNT/inner"
must umount "$MNT/inner"
(($(missed "$MNT" "$MNT/inner/b") > 0)) || fail "without the inner mount $MNT is not told of what lay there"
