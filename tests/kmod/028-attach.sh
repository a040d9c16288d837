#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: one reader at a time; terms can be changed; detach, exit and kill -9 end it, and open
# files and mappings are native again.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 8M
mount_ppc
out=$(dev 'attach managed label=first' 'info' "sh cat $SYS/policy $SYS/state" "dev $DEV" '!EBUSY attach' \
  'use 0' 'attach beacon window=2M label=other' info "sh cat $SYS/policy $SYS/state" 'use 1' '!ENOTCONN detach' '!ENOTCONN flush' \
  'use 0' flush detach info '!ENOTCONN detach' '!ENOTCONN flush' 'use 1' attach 'use 0' '!EBUSY attach' "sh cat $SYS/state")
eq "$(field info state "$out" 1)" 3 "attached and managed"
has "$out" "first
attached managed" "policy and state"
eq "$(field info state "$out" 2)" 9 "terms changed"
eq "$(field info window "$out" 2)" $((2 * MIB)) "window changed"
eq "$(field info state "$out" 3)" 0 detached
eq "$(stat_of state)" native "after exit"

# Native read-ahead of a file that is open the whole time: off while managed, on afterwards.
mkfifo "$PPC_TEST_DIR/go" "$PPC_TEST_DIR/done"
python3 -c '
import os, sys
f = os.open(sys.argv[1], os.O_RDONLY)
for line in open(sys.argv[2]):
    for i in range(512):
        os.pread(f, 4096, i * 4096)
    print("done", flush=True)
' "$MNT/a" "$PPC_TEST_DIR/go" >"$PPC_TEST_DIR/done" &
exec 8<>"$PPC_TEST_DIR/go" 9<>"$PPC_TEST_DIR/done"
# reads: COUNT = device requests of 512 sequential 4 KiB reads of the long-open file.
reads() {
  local ios
  drop_caches
  ios=$(disk_stat 1)
  echo go >&8
  read -r -t 60 -u 9 || fail "the reader is gone"
  COUNT=$(($(disk_stat 1) - ios))
}
reads && native=$COUNT
ppcdev "dev $DEV" 'attach managed window=4K' 'sleep 30000' >/dev/null &
reader=$!
within 5 grep -q managed "$SYS/state" || fail "not attached"
reads && managed=$COUNT
ge "$managed" 400 "requests while a policy with windows of one page manages"
kill -9 $reader
within 5 grep -q native "$SYS/state" || fail "still attached after kill -9"
reads && after=$COUNT
le "$after" $((native * 5 / 4 + 4)) "requests after kill -9 (native: $native)"
