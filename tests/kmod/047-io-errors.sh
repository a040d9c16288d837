#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: pages that cannot be read are counted as failed by LOAD, and give EIO here as below.
# Once
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faultydisk.sh"

make_bad_disk
mount_ppc
drop_caches
bad_sectors 2
out=$(dev 'lookup a' 'load 0 - wait' 'resident 0')
failed=$(field load failed "$out")
ge "$failed" 4096 "failed bytes"
eq $(($(field load loaded "$out") + failed)) "$(field load submitted "$out")" "loaded and failed"
eq "$(field resident resident "$out")" "$(field load loaded "$out")" "resident"
for file in "$BASE/a" "$MNT/a"; do
  ppcdev "open $file" "!EIO read $BAD 4K 4K" || fail "no EIO from $file"
done
dev 'attach managed beacon' "open $MNT/a" "!EIO read $BAD 4K 4K" >/dev/null
bad_sectors 0
eq "$(md5sum <"$MNT/a")" "$(md5sum <"$BASE/a")" "content when the disk is well again"
