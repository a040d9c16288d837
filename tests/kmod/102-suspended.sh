#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Once unless --all
# Description: while the disk below does not answer, asynchronous direct reads are only queued and
# RWF_NOWAIT says EAGAIN.
. "$(dirname "$0")/lib.sh"

command -v dmsetup >/dev/null || skip "no dmsetup"
{ modprobe loop && modprobe dm_mod; } 2>/dev/null || skip "no device mapper"
export DM_DISABLE_UDEV=1
fs=$(findmnt -no FSTYPE -T "$PPC_TEST_DIR")
truncate -s 320M "$PPC_TEST_DIR/image"
loop=$(losetup -f --show "$PPC_TEST_DIR/image") || fail losetup
release() {
  dmsetup resume ppctest
  umount "$MNT" "$BASE"
  dmsetup remove ppctest
  losetup -d "$loop"
}
trap 'status=$?; release 2>/dev/null; (exit $status); clean_up' EXIT
must dmsetup create ppctest --table "0 $(blockdev --getsz "$loop") linear $loop 0"
disk=/dev/dm-$(dmsetup info -c --noheadings -o minor ppctest)
must "mkfs.$fs" -q "$disk"
must mount "$disk" "$BASE"
make_file a 4M
make_file b 4M
want=$(ppc-answers async "$BASE/a" true | tail -1)
mount_ppc
eq "$(ppc-answers async "$MNT/a" true | tail -1)" "$want" "asynchronous direct reads"
# Opened beforehand: a suspended disk may stop an open.
drop_caches
for mode in '' 'attach managed beacon'; do
  out=$(dev "$mode" "open $MNT/b" 'read 0 4K' "sh dmsetup suspend --nolockfs ppctest" '!EAGAIN read 3M 4K 4K nowait' \
    '!EAGAIN read 3M 1M 1M nowait' 'read 0 4K 4K nowait' "sh dmsetup resume ppctest" 'read 3M 4K') || fail "mode '$mode'"
  eq "$(field read bytes "$out" 2)" 4096 "cached bytes while suspended, mode '$mode'"
  drop_caches
done
must dmsetup suspend --nolockfs ppctest
out=$(timeout 60 ppc-answers async "$MNT/a" 'dmsetup resume ppctest') || fail "submitting waits for the disk"
eq "$(head -1 <<<"$out")" "submitted 8 ready 0" "while suspended"
eq "$(tail -1 <<<"$out")" "$want" "after it"
