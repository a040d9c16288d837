#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a read below that fails once is made once more by the lower file system, never by us;
# an error ends the fault in SIGBUS as below, and is gone with its cause.
# Once
# shellcheck source=tests/kmod/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/kmod/faultydisk.sh
. "$(dirname "$0")/faultydisk.sh"

make_disk
make_file a 8M
want=$(ppcdev "open $BASE/a" mmap msum 'read 0 8M')
sum=$(field msum hash "$want")
mount_ppc
for how in '' attach 'attach managed' 'attach managed beacon' 'attach trace'; do
  attach=("dev $DEV" "$how")
  [[ -n $how ]] || attach=()
  # A disk that fails: EIO by read, SIGBUS by fault (which ends the child); well again: the bytes.
  # The same file, mapping and process all along.
  drop_caches
  out=$(ppcdev "${attach[@]}" "open $MNT/a" mmap "sh $DISK fails" \
    '!EIO read 1M 4K 4K' '!EPROTO fork touch 1M 1' '!EPROTO fork touch 3M 1' '!EIO read 1M 4K 4K' \
    "sh $DISK works" \
    'read 1M 4K 4K' 'touch 3M 1' 'fork touch 1M 1' msum 'read 0 8M') || fail "attach '$how': $out"
  eq "$(field msum hash "$out")" "$sum" "bytes by fault after the error, '$how'"
  eq "$(field read hash "$out" 2)" "$(field read hash "$want")" "bytes by read after the error, '$how'"
done
must umount "$MNT"
release_disk
trap clean_up EXIT

# Bad sectors fail a large request as a whole; the pages around them come at the second try, which
# is the lower file system's own: one page, for the reader of that page.
{ modprobe sd_mod && modprobe scsi_debug dev_size_mb=64; } 2>/dev/null || skip "no scsi_debug"
opts=/sys/bus/pseudo/drivers/scsi_debug/opts
find_disk() { disk=$(compgen -G "/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*"); }
eventually 10 find_disk || skip "no disk by scsi_debug"
disk=/dev/${disk##*/}
must mkfs.ext4 -q -b 4096 -N 64 -m 0 -O ^has_journal,^resize_inode "$disk"
must mount "$disk" "$BASE"
release() {
  echo 0 >"$opts"
  umount "$MNT" "$BASE"
  rmmod scsi_debug
}
trap 'status=$?; release 2>/dev/null; (exit $status); clean_up' EXIT
head -c 62M /dev/urandom >"$BASE/a"
sync
# Sectors 4660 to 4669 are pages 582 and 583 of the disk.
at=$(filefrag -v "$BASE/a" | sed 's/[.:]/ /g' | awk '$1 ~ /^[0-9]+$/ && 582 >= $4 && 582 <= $5 {print $2 + 582 - $4}')
[[ -n $at ]] || skip "the file does not cover the bad sectors"
near=$(((at + 3) * 4096)) bad=$((at * 4096))
want=$(field msum hash "$(ppcdev "open $BASE/a" mmap "msum $near 32K")")
mount_ppc
for how in attach 'attach managed'; do
  drop_caches
  echo 2 >"$opts"
  out=$(dev "$how" "open $MNT/a" mmap "fork touch $near 1" "!EPROTO fork touch $bad 1" "msum $near 32K" counts) ||
    fail "$how: a page beside the bad sectors: $out"
  eq "$(field msum hash "$out")" "$want" "bytes beside the bad sectors, $how"
  echo 0 >"$opts"
  eq "$(field msum hash "$(ppcdev "open $MNT/a" mmap "msum $bad 8K")")" \
    "$(field msum hash "$(ppcdev "open $BASE/a" mmap "msum $bad 8K")")" "the bad sectors, well again, $how"
done
exit 0
