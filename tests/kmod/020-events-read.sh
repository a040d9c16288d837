#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a read sends one event per contiguous absent extent, with the right numbers; a hit
# sends none; without a consumer none are counted.
. "$(dirname "$0")/lib.sh"

make_file a 4M
mount_ppc
drop_caches
dev "open $MNT/a" sum >/dev/null
eq "$(stat_of misses_read)$(stat_of events_queued)" 00 "misses counted with nobody attached"

# One extent for an absent file, whatever the size of the read.
drop_caches
out=$(dev attach "open $MNT/a" 'read 0 4M 4M' events 'read 0 4M 4M' counts)
eq "$(field counts all "$out" 1)" 1 "events of one cold read"
eq "$(field event kind "$out")" miss_read kind
eq "$(field event off "$out") $(field event len "$out")" "0 $((4 * MIB))" extent
eq "$(field counts all "$out" 2)" 0 "events of a hot read"

# Extents around what is resident: pages 0-255 and 512-767 of 1024 present.
drop_caches
out=$(dev 'lookup a' 'load 0 1M wait' 'load 2M 1M wait' attach "open $MNT/a" 'read 0 4M 4M' events)
eq "$(field event off "$out" 1) $(field event len "$out" 1)" "$MIB $MIB" "first extent"
eq "$(field event off "$out" 2) $(field event len "$out" 2)" "$((3 * MIB)) $MIB" "second extent"
eq "$(field counts all "$out")" 2 "events"
eq "$(field event file "$out")" "$(field lookup id "$out")" "file id"

# Unaligned ends are rounded to pages; the end of the file bounds it.
drop_caches
out=$(dev attach "open $MNT/a" 'advise f random' 'read 5000 100 100' 'read 4194000 1M 1M' events)
eq "$(field event off "$out" 1) $(field event len "$out" 1)" "4096 4096" "small read"
eq "$(field event off "$out" 2) $(field event len "$out" 2)" "4190208 4096" "read over the end"

# Who: process, thread, time, cgroup.
mkdir -p /sys/fs/cgroup/ppc-who
drop_caches
before=$(awk '{printf "%d", $1 * 1e9}' /proc/uptime)
# shellcheck disable=SC2016
out=$(dev attach 'sh sh -c "echo \$\$ >/sys/fs/cgroup/ppc-who/cgroup.procs && echo pid id=\$\$ &&
  exec head -c 100 '"$MNT"'/a >/dev/null"' events)
eq "$(field event tgid "$out")" "$(field pid id "$out")" tgid
eq "$(field event tid "$out")" "$(field pid id "$out")" tid
eq "$(field event cgroup "$out")" "$(stat -c %i /sys/fs/cgroup/ppc-who)" "cgroup id"
ge "$(field event start "$out")" "$((before - 100000000))" "start of the process"
ge "$(field event time "$out")" "$before" "time of the event"
rmdir /sys/fs/cgroup/ppc-who
# In the pid namespace of who listens; who is outside of it has no number there.
drop_caches
out=$(unshare -pf --mount-proc ppcdev "dev $DEV" attach "sh echo pid id=\$\$ && exec head -c 100 $MNT/a >/dev/null" events) ||
  fail "a reader in a pid namespace"
eq "$(field event tgid "$out") $(field event tid "$out")" "$(field pid id "$out") $(field pid id "$out")" "ids in a pid namespace"
le "$(field event tgid "$out")" 9 "a number of that namespace"
drop_caches
unshare -pf --mount-proc ppcdev "dev $DEV" attach \
  "sh until [ -e $PPC_TEST_DIR/done ]; do sleep 0.1; done" events >"$PPC_TEST_DIR/out" &
within 20 grep -q attached "$SYS/state" || fail "not attached"
must head -c 100 "$MNT/a"
touch "$PPC_TEST_DIR/done"
wait $! || fail "a reader in a pid namespace"
out=$(cat "$PPC_TEST_DIR/out")
eq "$(field event tgid "$out") $(field event tid "$out")" "0 0" "ids of a process that cannot be seen"
# Two opens are told apart.
drop_caches
out=$(dev attach "open $MNT/a" 'read 0 4K 4K' "open $MNT/a" 'read 1M 4K 4K' 'read 2M 4K 4K' events)
eq "$(field event open "$out" 2)" "$(field event open "$out" 3)" "open id of one open"
[[ $(field event open "$out" 1) != "$(field event open "$out" 2)" ]] || fail "two opens have one id"
# splice and sendfile are reads
drop_caches
out=$(dev attach "open $MNT/a" 'splice 0 64K' counts)
ge "$(field counts miss_read "$out")" 1 "miss by splice"
