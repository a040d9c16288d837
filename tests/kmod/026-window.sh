#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: while a policy manages read-ahead a miss loads an aligned window in large requests,
# by read and by fault; advice of the application is honoured; other modes stay native.
. "$(dirname "$0")/lib.sh"

# Before 5.15 the window of a fault is the lower file system's read-around, centred on the page
# and not counted.
centred=false
if kernel_before 5.15; then centred=true; fi
make_file a 24M
mount_ppc
# measure COMMAND...: sets IOS and KIB read from the device.
measure() {
  local ios kib
  drop_caches
  ios=$(disk_stat 1) kib=$(disk_stat 3)
  out=$(dev "$@")
  IOS=$(($(disk_stat 1) - ios)) KIB=$((($(disk_stat 3) - kib) / 2))
  echo "$*: $IOS requests, $KIB KiB"
}

measure 'lookup a' 'attach managed' "open $MNT/a" 'read 3000000 4K' 'resident 0' 'resident 2M 1M' counts
eq "$(field resident resident "$out" 1)" $MIB "resident after one small read"
eq "$(field resident resident "$out" 2)" $MIB "the aligned window"
le "$IOS" 12 "requests for a window"
measure 'lookup a' 'attach managed' "open $MNT/a" mmap 'touch 3000000 1' 'resident 0' 'resident 2M 1M'
eq "$(field resident resident "$out" 1)" $MIB "resident after one fault"
$centred || eq "$(field resident resident "$out" 2)" $MIB "the window around the fault"
measure 'lookup a' 'attach managed window=64K' "open $MNT/a" mmap 'touch 3000000 1' 'resident 0'
eq "$(field resident resident "$out")" 65536 "a window of 64 KiB"

# A sequential reader of a mapping: 24 windows, not hundreds of read-arounds.
measure 'attach managed' "open $MNT/a" mmap 'touch 0 24M' counts
if $centred; then
  le "$(field counts miss_fault "$out")" 48 "misses of a sequential mapping"
else
  eq "$(field counts miss_fault "$out")" 24 "misses of a sequential mapping"
fi
le "$IOS" 80 "requests of a sequential mapping"
ge "$KIB" 24576 "KiB read"
le "$KIB" 24800 "KiB read"
if $centred; then
  eq "$(stat_of window_bytes_loaded)" $MIB "window bytes counted"
else
  eq "$(stat_of window_bytes_loaded)" $((3 * MIB + 65536 + 23 * MIB)) "window bytes counted"
fi
measure 'attach managed' "open $MNT/a" 'sum 64K' counts
eq "$(field counts miss_read "$out")" 24 "misses of a sequential reader"
le "$IOS" 80 "requests of a sequential reader"
measure 'attach managed' "open $MNT/a" 'read 0 24M 8M' counts
le "$(field counts miss_read "$out")" 6 "misses of a reader of 8 MiB"

# The application knows better: random advice turns windows off.
measure 'lookup a' 'attach managed' "open $MNT/a" 'advise f random' 'read 3000000 4K' 'resident 0'
le "$(field resident resident "$out")" 65536 "resident after a random read"
measure 'lookup a' 'attach managed' "open $MNT/a" mmap 'advise m random' 'touch 3000000 1' 'resident 0'
le "$(field resident resident "$out")" 65536 "resident after a random fault"
measure 'lookup a' 'attach managed' "open $MNT/a" 'advise f random' 'advise f normal' 'read 3000000 4K' 'resident 0'
eq "$(field resident resident "$out")" $MIB "back to normal"

# Not managed: native read-ahead, as on the lower file.
measure attach "open $MNT/a" 'sum 64K'
native=$IOS
measure "open $BASE/a" 'sum 64K'
le "$native" $((IOS * 5 / 4 + 8)) "requests when attached without managing"

# One file can be taken out, open or not.
measure 'lookup a' 'attach managed' 'filemode native' "open $MNT/a" mmap 'touch 3000000 1' 'resident 0'
le "$(field resident resident "$out")" 262144 "native read-around for an exempt file"
measure 'lookup a' 'attach managed' "open $MNT/a" 'filemode policy' mmap 'touch 3000000 1' 'resident 0'
eq "$(field resident resident "$out")" $MIB "taken back while open"
# At the end of the file.
measure 'lookup a' 'attach managed' "open $MNT/a" 'read 25165000 4K' 'resident 0'
eq "$(field resident resident "$out")" $MIB "the last window"
