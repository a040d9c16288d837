#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: overlayfs over a ppc mount and ppc over ppc work, evict and unmount cleanly.
# Once unless --all
. "$(dirname "$0")/lib.sh"

make_file a 4M
mount_ppc
caps=$(field info caps "$(dev info)") backing=2
if kernel_before 6.7; then backing=0; fi
eq $((caps & 2)) "$backing" "PPC_CAP_BACKING_FILE"
sum=$(md5sum <"$BASE/a")
want=$(field read hash "$(ppcdev "open $BASE/a" sum)")
top=$PPC_TEST_DIR/top
mkdir -p "$top" "$PPC_TEST_DIR/up" "$PPC_TEST_DIR/work" "$PPC_TEST_DIR/up2"
must mount -t overlay -o "lowerdir=$MNT,upperdir=$PPC_TEST_DIR/up,workdir=$PPC_TEST_DIR/work" overlay "$top"
for mode in '' 'attach managed beacon'; do
  drop_caches
  out=$(dev "$mode" "open $top/a" sum mmap msum close 'lookup a' 'evict 0 - unmap drain' 'resident 0' msum munmap)
  eq "$(field read hash "$out")" "$want" "read through the overlay"
  eq "$(field msum hash "$out" 1) $(field msum hash "$out" 2)" "$want $want" "mapped through the overlay"
  eq "$(field resident resident "$out")" 0 "evicted under the overlay"
done
drop_caches
out=$(dev attach "open $top/a" 'sum 4K' counts 'lookup a' 'evict 0 - unmap drain' mmap msum counts)
ge "$(field counts miss_read "$out" 1)" 1 "misses of reads through the overlay"
ge "$(field counts miss_fault "$out" 2)" 1 "misses of faults through the overlay"
# The overlay holds the super block, not the mount: its device stays.
must umount "$MNT"
[[ -e $DEV ]] || fail "the device went while the overlay uses the mount"
echo x >>"$top/a"
[[ $(md5sum <"$top/a") != "$sum" ]] || fail "copy-up"
eq "$(md5sum <"$BASE/a")" "$sum" "lower after copy-up"
must umount "$top"
[[ ! -e $DEV ]] || fail "the device stayed after the overlay was gone"

mount_ppc allow_suid
must mount -t ppc -o allow_suid "$MNT" "$top"
outer=$(mountpoint -d "$top")
for dir in /sys/fs/ppc/*/; do
  [[ $(cat "$dir/dev") == "$outer" ]] && second=/dev/ppc$(basename "$dir")
done
drop_caches
out=$(ppcdev "dev $DEV" 'attach managed' "dev $second" 'attach managed beacon' "open $top/a" sum mmap msum close 'lookup a' \
  'resident 0' 'evict 0 - unmap drain' 'resident 0' msum counts munmap) || fail "ppc over ppc"
eq "$(field read hash "$out") $(field msum hash "$out" 2)" "$want $want" "content through two"
eq "$(field resident resident "$out" 1) $(field resident resident "$out" 2)" "$((4 * MIB)) 0" "residency through two"
ge "$(field counts miss_read "$out")" 1 "misses through two"
# Faults are told to the lower one only, whether a ppc or an overlay is on top.
out=$(ppcdev "dev $DEV" attach "dev $second" attach 'use 0' "open $top/a" mmap 'lookup a' 'evict 0 - unmap drain' drop \
  'use 1' drop msum counts 'use 0' counts) || fail "faults through two"
eq "$(field counts miss_fault "$out" 1)" 0 "faults told to the upper of two"
ge "$(field counts miss_fault "$out" 2)" 1 "faults told to the lower of two"
# Set-id bits and their owner are copied by both.
cp /usr/bin/id "$BASE/id"
eq "$("$top/id" -u)" 0 "uid through two"
chown 65534 "$BASE/id" && chmod 4755 "$BASE/id"
eq "$("$top/id" -u)" 65534 "uid through two, set-id now"
chown 65533 "$BASE/id"
eq "$("$top/id" -u)" 0 "uid through two, set-id no more"
# What is deleted below is let go of by both.
make_file big 32M
cat "$top/big" >/dev/null
free_kib() { df --output=avail -k "$BASE" | tail -1; }
before=$(free_kib)
rm "$BASE/big"
freed() { (($(free_kib) - before >= 32000)); }
within "$(seconds 8)" freed || fail "a deleted file's space is held by two mounts"
must umount "$top"
must umount "$MNT"
