#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: an open device, a reader and mapped rings never block an unmount; applications do.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 4M
mount_ppc
drop_caches
out=$(dev 'attach managed beacon openclose' 'lookup a' "open $MNT/a" 'read 0 4K' close 'load 0 - wait' \
  "sh umount $MNT" '!ENODEV info' '!ENODEV load 0 4K' '!ENODEV attach' '!ENODEV detach' '!ENODEV name' 'poll 0' counts)
eq "$(field poll hup "$out")" 1 POLLHUP
ge "$(field counts miss_read "$out")" 1 "events are still in the rings"
[[ ! -e $DEV ]] || fail "$DEV is still there"
# The number is not given away while the old device is open.
mount_ppc
old=$DEV
ppcdev "dev $DEV" 'attach' 'sleep 20000' >/dev/null &
holder=$!
within 5 grep -q attached "$SYS/state" || fail "not attached"
must umount "$MNT"
mount_ppc
[[ $DEV != "$old" ]] || fail "the number of an open device was used again"
refuse "in use" rmmod ppc
kill -9 $holder
wait $holder 2>/dev/null
# A poller learns.
out=$(dev attach "thread poll 10000 sleepy" 'sleep 200' "sh umount $MNT" join)
eq "$(field poll hup "$out")" 1 "a sleeping poller is woken"
# Applications hold it: an open file, a mapping without a file, a working directory.
mount_ppc
ppcdev "open $MNT/a" "!EPROTO sh umount $MNT 2>/dev/null" mmap close "!EPROTO sh umount $MNT 2>/dev/null" munmap \
  "sh umount $MNT" || fail "busy or not"
mount_ppc
(cd "$MNT" && ! umount "$MNT" 2>/dev/null) || fail "unmounted under a working directory"
# A lazy unmount lets a mapping go on, native.
out=$(dev 'attach managed beacon trace' "open $MNT/a" mmap close 'touch 0 1M' "sh umount -l $MNT" \
  "sh echo 3 >/proc/sys/vm/drop_caches" msum info munmap 'sleep 500' '!ENODEV info')
eq "$(field msum hash "$out")" "$(field read hash "$(ppcdev "open $BASE/a" sum)")" "mapping after a lazy unmount"
