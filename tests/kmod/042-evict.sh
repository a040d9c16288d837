#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: EVICT drops what is clean and unmapped, mapped only on demand, never mlocked or dirty
# unless told, and asked = dropped + mapped + dirty + locked + busy.
. "$(dirname "$0")/lib.sh"

make_file a 8M
want=$(field read hash "$(ppcdev "open $BASE/a" sum)")
mount_ppc
# sum_up TEXT N: the Nth evict line adds up.
sum_up() {
  eq "$(field evict asked "$1" "$2")" $(($(field evict dropped "$1" "$2") + $(field evict mapped "$1" "$2") + \
    $(field evict dirty "$1" "$2") + $(field evict locked "$1" "$2") + $(field evict busy "$1" "$2"))) "sum of evict $2"
}
out=$(dev 'lookup a' 'load 0 - wait' 'evict 0 4M drain' 'resident 0' 'resident 4M 4M' 'evict 0 - drain' 'resident 0' 'evict 0')
for i in 1 2 3; do sum_up "$out" $i; done
eq "$(field evict asked "$out" 1)" $((4 * MIB)) "asked"
eq "$(field evict dropped "$out" 1)" $((4 * MIB)) "dropped"
eq "$(field resident resident "$out" 1) $(field resident resident "$out" 2)" "$((4 * MIB)) $((4 * MIB))" "only the range"
eq "$(field resident resident "$out" 3) $(field evict asked "$out" 3)" "0 0" "nothing left"
# Large folios at the ends of the range stay, and none within.
make_file large 32M
drop_caches
cat "$MNT/large" >/dev/null
out=$(dev 'lookup large' 'evict 12K 28M drain' 'resident 2M 24M' 'evict 0 - drain')
eq "$(field resident resident "$out")" 0 "within an unaligned range"
rm "$BASE/large"
# Partial pages at the ends stay.
out=$(dev 'lookup a' 'load 0 1M wait' 'evict 100 8000 drain' 'resident 0' 'evict 4096 4096 drain' 'resident 0')
eq "$(field evict dropped "$out" 1)" 0 "no whole page in the range"
# No page of a large folio goes alone.
eq $(($(field evict dropped "$out" 2) + $(field evict busy "$out" 2))) 4096 "exactly one page, or a part of a folio"
eq "$(field resident resident "$out" 2)" $((MIB - $(field evict dropped "$out" 2))) "what stays beside it"

# Mapped.
out=$(dev 'lookup a' 'load 0 - wait' "open $MNT/a" mmap 'touch 0 8M' 'evict 0 - drain' 'evict 0 - unmap drain' \
  'resident 0' mincore msum 'resident 0')
sum_up "$out" 1
sum_up "$out" 2
eq "$(field evict mapped "$out" 1) $(field evict dropped "$out" 1)" "$((8 * MIB)) 0" "mapped pages without UNMAP"
eq "$(field evict dropped "$out" 2)" $((8 * MIB)) "mapped pages with UNMAP"
eq "$(field resident resident "$out" 1) $(field mincore resident "$out")" "0 0" "after UNMAP"
eq "$(field msum hash "$out")" "$want" "content faulted in again"

# mlocked pages stay, and are the only ones that do.
out=$(dev 'lookup a' 'load 0 - wait' "open $MNT/a" mmap 'mlock 2M 1M' 'evict 0 - unmap drain' 'resident 0' \
  'resident 2M 1M' 'evict 0 - unmap locked drain' 'resident 0' msum)
sum_up "$out" 1
eq "$(field evict locked "$out" 1) $(field evict dropped "$out" 1)" "$MIB $((7 * MIB))" "mlocked stay"
eq "$(field resident resident "$out" 1) $(field resident resident "$out" 2)" "$MIB $MIB" "which"
eq "$(field evict locked "$out" 2) $(field resident resident "$out" 3)" "0 0" "EVEN_LOCKED"
eq "$(field msum hash "$out")" "$want" "content of an evicted locked mapping"

# Dirty pages of a writer below stay, and are not written because of us.
drop_caches
dd if=/dev/zero of="$BASE/a" bs=1M count=1 conv=notrunc status=none
evicted=$(stat_of evicted_bytes)
out=$(dev 'lookup a' 'load 0 - wait' 'evict 0 - unmap drain' 'resident 0')
sum_up "$out" 1
eq "$(stat_of evicted_bytes)" $((evicted + $(field evict dropped "$out"))) "evicted bytes in sysfs"
eq "$(field evict dirty "$out") $(field resident resident "$out")" "$MIB $MIB" "dirty stay"
eq "$(field resident dirty "$out")" "$MIB" "and are still dirty"
sync

# Freshly read pages sit in LRU batches: what DRAIN is for.  Written ones may be one folio of a MiB.
drop_caches
out=$(dev 'lookup a' "open $MNT/a" 'read 0 32K 32K' 'evict 0 32K drain' 'resident 0 32K')
eq "$(field resident resident "$out")" 0 "freshly read pages with DRAIN"
