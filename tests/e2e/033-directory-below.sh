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
register "$outer" kvtier
register "$inner" kvtier
told_alone "$inner" "$outer" "$inner/b"
told_alone "$outer" "$inner" "$outer/a"
sleep 2 # the outer one has looked what is registered below it
told_alone "$inner" "$outer" "$inner/b"
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
told_alone "$inner" "$outer" "$inner/b"
told_alone "$outer" "$inner" "$outer/a"
