#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: what EVICT costs grows with the extents that a task has locked, not with their square.
# Only --icount
# Once
. "$(dirname "$0")/lib.sh"

make_file a 16M
mount_ppc
cat >"$PPC_TEST_DIR/lock.py" <<'PY'
import ctypes, mmap, os, sys, time
path, pages, ready = sys.argv[1], int(sys.argv[2]), sys.argv[3]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
page = mmap.PAGESIZE
at = libc.mmap(None, 16 << 20, mmap.PROT_READ, mmap.MAP_SHARED, os.open(path, os.O_RDONLY), 0)
for i in range(pages):
    if libc.mlock(at + 2 * i * page, page): sys.exit(os.strerror(ctypes.get_errno()))
open(ready, "w").close()
time.sleep(100000)
PY
# cost_of PAGES: instructions of an EVICT with so many pages locked, each an extent of its own.
cost_of() {
  local locker out
  rm -f "$PPC_TEST_DIR/ready"
  python3 "$PPC_TEST_DIR/lock.py" "$MNT/a" "$1" "$PPC_TEST_DIR/ready" &
  locker=$!
  within 600 test -e "$PPC_TEST_DIR/ready" || fail "nothing is locked"
  out=$(dev 'lookup a' 'load 0 - wait' 'evict 0 - unmap' 'load 0 - wait' cost 'evict 0 - unmap' cost) || exit 1
  kill "$locker" && wait "$locker" 2>/dev/null
  ge "$(field evict locked "$out" 2)" $(($1 * PAGE)) "locked bytes"
  field cost ns "$out" 2
}
few=$(cost_of 400) || exit 1
many=$(cost_of 1600) || exit 1
echo "cost $few with 400 locked extents, $many with 1600"
le "$many" $((few * 6)) "cost of four times as many locked extents"
must umount "$MNT"
