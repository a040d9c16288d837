#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: the shortest way through everything: mount, read, map, events, load, evict, unmount,
# unload.  What a kernel must pass that gets no more than a smoke test.
. "$(dirname "$0")/lib.sh"

make_file a 8M
want=$(sha256sum <"$BASE/a")
hash=$(field read hash "$(ppcdev "open $BASE/a" sum)")
mount_ppc
eq "$(ls "$MNT")" a "listing"
drop_caches
eq "$(sha256sum <"$MNT/a")" "$want" "bytes by read"
drop_caches
eq "$(field msum hash "$(ppcdev "open $MNT/a" mmap msum)")" "$hash" "bytes by mapping"
(echo x >"$MNT/a") 2>/dev/null && fail "it can be written"

# One miss by read and one by fault, each of them told; the device says who and where.
drop_caches
out=$(dev attach "open $MNT/a" 'advise f random' 'read 1M 4K' mmap 'advise m random' 'touch 4M 1' counts)
eq "$(field counts miss_read "$out")" 1 "misses by read"
eq "$(field counts miss_fault "$out")" 1 "misses by fault"

drop_caches
out=$(dev 'lookup a' name 'load 0 8M wait' 'resident 0' 'evict 0 8M drain' 'resident 0')
eq "$(field load loaded "$out")" $((8 * MIB)) "loaded"
eq "$(field resident resident "$out" 1)" $((8 * MIB)) "resident after LOAD"
eq "$(field evict dropped "$out")" $((8 * MIB)) "dropped"
eq "$(field resident resident "$out" 2)" 0 "resident after EVICT"
out=$(dev 'lookup a' "open $MNT/a" mmap 'touch 0 8M' 'evict 0 8M unmap drain' 'resident 0' msum)
eq "$(field resident resident "$out")" 0 "resident after EVICT of a mapped file"
eq "$(field msum hash "$out")" "$hash" "bytes after EVICT"

must umount "$MNT"
within 5 test ! -e "$DEV" || fail "the device outlives the mount"
must rmmod ppc
must modprobe ppc
