# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a directory is registered and one in it too: what is read there is told to the inner one alone.
# needs observer: with the module the inner mount covers the outer one's directory
. "$(dirname "$0")/lib.sh"
start_daemon
outer=$FAST/outer inner=$FAST/outer/inner
mkdir -p "$inner"
for file in "$outer/a" "$inner/b"; do dd if=/dev/zero of="$file" bs=64K count=4 status=none; done
sync
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
register "$outer" kvtier
register "$inner" kvtier
expect "$inner" "$outer" "$inner/b"
expect "$outer" "$inner" "$outer/a"
sleep 2 # the outer one has looked what is registered below it
expect "$inner" "$outer" "$inner/b"
must ppcctl rm_policy "$inner"
found=0
for _ in {1..20}; do
  found=$(missed "$outer" "$inner/b")
  ((found > 0)) && break
done
((found > 0)) || fail "without the inner one the outer one is not told of $inner/b"
# Registered in the other order it is the same.
must ppcctl rm_policy "$outer"
register "$inner" kvtier
register "$outer" kvtier
expect "$inner" "$outer" "$inner/b"
expect "$outer" "$inner" "$outer/a"
