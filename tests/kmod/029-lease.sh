#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a reader that stops consuming loses its attachment: native read-ahead is back for
# open files, it learns by poll, may attach again, and an idle one keeps it.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 16M
mount_ppc
drop_caches
out=$(dev 'attach managed lease=300' "open $MNT/a" 'sleep 900' info 'read 0 4K 4K' 'sleep 100' counts 'sleep 900' info \
  'read 2M 4K 4K' 'sleep 1200' 'poll 0' "sh cat $SYS/state" "sh cat $SYS/lease_expiries" \
  'read 4M 4K 4K' counts info 'attach managed lease=300' 'poll 0' 'read 6M 4K 4K' counts info)
eq "$(field info state "$out" 1)" 3 "idle: still attached"
eq "$(field info state "$out" 2)" 3 "consuming: still attached"
eq "$(field poll err "$out" 1)$(field poll hup "$out" 1)" 11 "poll after the lease ran out"
has "$out" expired "state in sysfs"
eq "$(stat_of lease_expiries)" 1 "expiries"
eq "$(field counts all "$out" 2)" 1 "only what came before the expiry"
eq "$(field info state "$out" 3)" 16 "state: expired"
eq "$(field poll err "$out" 2)$(field poll hup "$out" 2)" 00 "poll after attaching again"
eq "$(field counts miss_read "$out" 3)" 1 "events flow again"

# INFO renews the lease although nothing is consumed.
drop_caches
out=$(dev 'attach managed lease=500' "open $MNT/a" 'read 0 4K 4K' 'sleep 300' info 'sleep 300' info 'sleep 300' info \
  'sleep 300' info)
eq "$(field info state "$out" 4)" 3 "renewed by ioctl"

# A stopped reader: a reader of a long-open mapping gets native read-around back.
ppcdev "dev $DEV" 'attach managed lease=300 window=4K' 'sleep 60000' >/dev/null &
reader=$!
within 5 grep -q managed "$SYS/state" || fail "not attached"
kill -STOP $reader
drop_caches
out=$(ppcdev "open $MNT/a" mmap 'touch 0 1M step=4K' 'sleep 1500' "sh cat $SYS/state; echo; sync; echo 3 >/proc/sys/vm/drop_caches" \
  "sh awk '{print \"ios n=\" \$1}' /sys/dev/block/\$((\$(stat -c %d $BASE) >> 8)):\$((\$(stat -c %d $BASE) & 255))/stat" \
  'touch 8M 4M' \
  "sh awk '{print \"ios n=\" \$1}' /sys/dev/block/\$((\$(stat -c %d $BASE) >> 8)):\$((\$(stat -c %d $BASE) & 255))/stat") || fail "long-open mapping"
has "$out" expired "state after the stop"
le $(($(field ios n "$out" 2) - $(field ios n "$out" 1))) 200 "requests for 4 MiB of the mapping afterwards"
kill -CONT $reader
kill -9 $reader
exit 0
