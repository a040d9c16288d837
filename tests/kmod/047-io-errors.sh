#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: pages that cannot be read are counted as failed by LOAD, and give EIO here as below.
# Once
# shellcheck source=tests/kmod/lib.sh
. "$(dirname "$0")/lib.sh"

# A disk in memory that can be told to fail sectors 4660 to 4669.
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
# Where in the file is the bad place?
at=$(filefrag -v "$BASE/a" | sed 's/[.:]/ /g' | awk '$1 ~ /^[0-9]+$/ && 582 >= $4 && 582 <= $5 {print $2 + 582 - $4}')
[[ -n $at ]] || skip "the file does not cover the bad sectors"
mount_ppc
drop_caches
echo 2 >$opts
out=$(dev 'lookup a' 'load 0 - wait' 'resident 0')
failed=$(field load failed "$out")
ge "$failed" 4096 "failed bytes"
eq $(($(field load loaded "$out") + failed)) "$(field load submitted "$out")" "loaded and failed"
eq "$(field resident resident "$out")" "$(field load loaded "$out")" "resident"
for file in "$BASE/a" "$MNT/a"; do
  ppcdev "open $file" "!EIO read $((at * 4096)) 4K 4K" || fail "no EIO from $file"
done
dev 'attach managed beacon' "open $MNT/a" "!EIO read $((at * 4096)) 4K 4K" >/dev/null
echo 0 >"$opts"
eq "$(md5sum <"$MNT/a")" "$(md5sum <"$BASE/a")" "content when the disk is well again"
exit 0
