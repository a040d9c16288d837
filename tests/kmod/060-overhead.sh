#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: what the module adds to cached reads, faults and stat, in instructions.
# shellcheck source=tests/kmod/lib.sh
. "$(dirname "$0")/lib.sh"

[[ ${PPC_TEST_ICOUNT:-} == 1 ]] || skip "no instruction counting"
make_file a 16M
mkdir -p "$MNT"
# the same length of path for both
LOWER=${MNT%????}-low
mkdir -p "$LOWER"
must mount --bind "$BASE" "$LOWER"
mount_ppc
must ppc-icount "$LOWER/a"
lower=$(ppc-icount "$LOWER/a")
must umount "$LOWER"
rmdir "$LOWER"
# extra NAME OUTPUT: instructions beyond the lower file's own.
extra() { echo $(($(field icount "$1" "$2") - $(field icount "$1" "$lower"))); }
check() {
  echo "$1: lower $lower, here $2"
  le "$(extra read1m "$2")" "$3" "extra instructions per read of 1 MiB, $1"
  le "$(extra read4k "$2")" "$4" "extra instructions per read of 4 KiB, $1"
  le "$(extra fault "$2")" "$5" "extra instructions per fault-around of 64 KiB, $1"
  le "$(extra stat "$2")" $(($(field icount stat "$lower") / 20)) "extra instructions per stat, $1"
}
must ppc-icount "$MNT/a"
check "nobody attached" "$(ppc-icount "$MNT/a")" 500 100 200
check attached "$(dev attach "sh ppc-icount $MNT/a" | tail -1)" 1500 400 200
check "managed, beacons" "$(dev 'attach managed beacon' "sh ppc-icount $MNT/a" | tail -1)" 1500 500 400
exit 0
