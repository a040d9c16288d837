#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: files of persistent memory that are mapped directly (DAX) have no page cache: reads and faults
# are whole and no event, loading them ahead is refused.
# Once
# Only --pmem
. "$(dirname "$0")/lib.sh"

modprobe -a nd_e820 nd_pmem 2>/dev/null
[[ -b /dev/pmem0 ]] || fail "no persistent memory: no /dev/pmem0"
must mkfs.ext4 -q -b 4096 /dev/pmem0
must mount -o dax=always /dev/pmem0 "$BASE"
trap 'status=$?; umount "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
make_file a 8M
mount_ppc
cached() { fincore -bno RES "$BASE/a" | tr -d " "; }

out=$(dev 'attach managed beacon' "open $MNT/a" sum 'read 0 8M 4K' mmap 'touch 0 8M' counts)
eq "$(sha256sum <"$MNT/a")" "$(sha256sum <"$BASE/a")" "what is read"
eq "$(field counts all "$out")" 0 "events of a file without a page cache"
eq "$(stat_of misses_read) $(stat_of misses_fault)" "0 0" misses
out=$(dev 'lookup a' 'load 0 - wait' 'resident 0' 'evict 0 - unmap')
eq "$(field load stop "$out") $(field load "done" "$out")" "5 0" "unsupported"
eq "$(field resident resident "$out") $(field evict dropped "$out")" "0 0" "resident and dropped"
# The window as well.
eq "$(cached)" 0 "page cache of the file below"
must umount "$MNT"
must umount "$BASE"
