#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: LOAD fills what is absent, in large requests, and its numbers are true.
. "$(dirname "$0")/lib.sh"

make_file a 20000000
mount_ppc
size=20000000 pages=$(((20000000 + PAGE - 1) / PAGE * PAGE))
drop_caches
ios=$(disk_stat 1) sectors=$(disk_stat 3)
out=$(dev 'lookup a' 'load 0 16M wait')
ios=$(($(disk_stat 1) - ios)) sectors=$(($(disk_stat 3) - sectors))
eq "$out" "lookup id=$(field lookup id "$out") size=$size${out#*size="$size"}" "size in lookup"
eq "$(field load loaded "$out") $(field load submitted "$out") $(field load resident "$out")" \
  "$((16 * MIB)) $((16 * MIB)) 0" "loaded, submitted, resident"
eq "$(field load failed "$out") $(field load "done" "$out") $(field load stop "$out")" \
  "0 $((16 * MIB)) 0" "failed, done, stop"
le "$ios" 40 "requests for 16 MiB"
le "$sectors" $((16 * 2048 + 512)) "sectors for 16 MiB"
out=$(dev 'lookup a' 'resident 0' 'load 0 - wait' 'resident 0' 'load 0 - wait')
eq "$(field resident resident "$out" 1)" $((16 * MIB)) "resident by RESIDENT"
eq "$(field load loaded "$out" 1)" $((pages - 16 * MIB)) "loaded of the rest"
eq "$(field load resident "$out" 1)" $((16 * MIB)) "found present"
eq "$(field load "done" "$out" 1) $(field load stop "$out" 1)" "$size 1" "clamped to the end of the file"
eq "$(field resident resident "$out" 2)" $pages "all resident"
eq "$(field load loaded "$out" 2) $(field load submitted "$out" 2)" "0 0" "loaded again"
eq "$(md5sum <"$MNT/a")" "$(md5sum <"$BASE/a")" content
eq "$(stat_of loaded_bytes)" $pages "in sysfs"

# Holes in what is cached: only those are read.
drop_caches
ppcdev "open $MNT/a" 'advise f random' 'read 1M 100K 100K' 'read 5M 4K 4K' >/dev/null
out=$(dev 'lookup a' 'resident 0' 'load 0 8M wait' 'resident 0 8M')
had=$(field resident resident "$out" 1)
eq "$(field load resident "$out")" "$had" "found present"
eq "$(field load loaded "$out")" $((8 * MIB - had)) "loaded around them"
eq "$(field resident resident "$out" 2)" $((8 * MIB)) "resident then"

# Not waiting returns early, and the data comes.
drop_caches
out=$(dev 'lookup a' 'load 0 4M' 'load 0 4M wait')
eq "$(field load submitted "$out" 1) $(field load loaded "$out" 1)" "$((4 * MIB)) 0" "submitted"
eq "$(field load resident "$out" 2)" $((4 * MIB)) "in flight counts as present"
# Unaligned range.
drop_caches
out=$(dev 'lookup a' 'load 5000 100 wait' 'resident 0')
eq "$(field load loaded "$out") $(field load "done" "$out")" "4096 100" "a piece of a page"
eq "$(field resident resident "$out")" 4096 "one page"
# Behind the end, and an empty file.
: >"$BASE/empty"
out=$(dev 'lookup a' 'load 20000000 1M wait' 'load 1G 1M' 'lookup empty' 'load 0 1M wait')
for i in 1 2 3; do eq "$(field load stop "$out" $i) $(field load "done" "$out" $i)" "1 0" "behind the end $i"; done

# LOAD of an open file keeps that file's own read-ahead state.
drop_caches
out=$(dev 'lookup a' "open $MNT/a" mmap 'load 0 4M wait' 'touch 0 4M' 'resident 0')
eq "$(field resident resident "$out")" $((4 * MIB)) "nothing beyond what was asked"
# The bitmap agrees.
drop_caches
out=$(dev 'lookup a' 'load 8K 12K wait' 'load 128K 4K wait' 'resident 0 160K bitmap=40')
eq "$(field resident bits "$out")" 1c00000001 "bitmap"
# sparse files have pages to load too
truncate -s 8M "$BASE/sparse"
out=$(dev 'lookup sparse' 'load 0 - wait')
eq "$(field load loaded "$out")" $((8 * MIB)) "a file of holes"
