#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: the lower file system can be frozen and remounted under readers; the mount itself cannot
# be frozen.
# Once unless --all
. "$(dirname "$0")/lib.sh"

disk=$(findmnt -no TARGET -T "$PPC_TEST_DIR")
[[ $disk == / ]] && skip "the root file system is not to be frozen"
make_file a 4M
sum=$(md5sum <"$BASE/a")
mount_ppc
trap 'status=$?; fsfreeze -u "$disk" 2>/dev/null; (exit $status); clean_up' EXIT
refuse "Operation not supported" fsfreeze -f "$MNT"
for mode in '' 'attach managed beacon'; do
  drop_caches
  must fsfreeze -f "$disk"
  out=$(timeout 60 ppcdev "dev $DEV" "$mode" "open $MNT/a" sum mmap msum 'lookup a' 'evict 0 - unmap' 'load 0 - wait') ||
    fail "reading over a frozen file system, mode '$mode'"
  must fsfreeze -u "$disk"
  eq "$(field read bytes "$out")" $((4 * MIB)) "bytes, mode '$mode'"
done
eq "$(md5sum <"$MNT/a")" "$sum" "content"
must mount -o remount,ro "$disk"
eq "$(md5sum <"$MNT/a")" "$sum" "content over a read-only lower"
must mount -o remount,rw "$disk"
