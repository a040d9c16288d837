#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: what cannot be loaded says so, and tmpfs and ramfs below work otherwise.
# Once
. "$(dirname "$0")/lib.sh"

for lower in tmpfs ramfs; do
  must mount -t $lower $lower "$BASE"
  head -c 4M /dev/urandom >"$BASE/a"
  mount_ppc
  out=$(dev 'attach managed beacon' 'lookup a' 'load 0 1M wait' 'resident 0' 'evict 0 - unmap' 'resident 0' \
    "open $MNT/a" sum mmap msum)
  eq "$(field load stop "$out") $(field load "done" "$out")" "5 0" "unsupported by $lower"
  eq "$(field resident resident "$out" 1)" $((4 * MIB)) "$lower is resident"
  eq "$(field evict dropped "$out")" 0 "$lower pages dropped"
  eq "$(field resident resident "$out" 2)" $((4 * MIB)) "still there"
  eq "$(md5sum <"$MNT/a")" "$(md5sum <"$BASE/a")" "content on $lower"
  must umount "$MNT"
  must umount "$BASE"
done
exit 0
