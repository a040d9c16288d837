#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: private mappings are copied on write, shared ones are read-only, and mappings
# outlive close, fork, split and move.
. "$(dirname "$0")/lib.sh"

make_file a 4M
sum=$(md5sum <"$BASE/a")
mount_ppc
want=$(field read hash "$(ppcdev "open $BASE/a" sum)")
for mode in '' 'attach managed beacon'; do
  drop_caches
  out=$(dev "$mode" "open $MNT/a" 'mmap write' 'touch 0 1M write' 'touch 0 4M' msum close msum)
  [[ $(field msum hash "$out") != "$want" ]] || fail "private writes are not seen"
  eq "$(field msum hash "$out" 2)" "$(field msum hash "$out" 1)" "after close"
  eq "$(md5sum <"$BASE/a")" "$sum" "lower content after private writes"
  # evicting under it keeps the copies
  out=$(dev "$mode" 'lookup a' "open $MNT/a" 'mmap write' 'touch 0 1M write' msum 'evict 0 - unmap drain' \
    'resident 0' msum)
  eq "$(field resident resident "$out")" 0 "resident after eviction"
  eq "$(field msum hash "$out" 2)" "$(field msum hash "$out" 1)" "private copies after eviction"
  dev "$mode" "open $MNT/a" '!EACCES mmap shared write' 'mmap shared' '!EACCES mprotect write' \
    'mmap' 'mprotect write' 'touch 0 8K write' >/dev/null
done

# Mapped where the lower file would be: aligned for huge pages where that one is.
python3 - "$MNT/a" "$BASE/a" <<'PY' || fail "addresses"
import mmap, os, sys
HUGE = 2 << 20
def aligned(name):
    maps = []  # they stay, so that one is not aligned by being next to another
    for pages in 1, 3, 2:
        maps.append(mmap.mmap(os.open(name, os.O_RDONLY), 4 << 20, prot=mmap.PROT_READ))
        maps.append(mmap.mmap(-1, pages * mmap.PAGESIZE))
    starts = [int(line.split("-")[0], 16) for line in open("/proc/self/maps") if line.rstrip().endswith(name)]
    return sum(start % HUGE == 0 for start in starts), len(starts)
ours, lower = aligned(sys.argv[1]), aligned(sys.argv[2])
print("aligned, mapped:", *ours, "below:", *lower)
assert ours == lower
PY

drop_caches
python3 - "$MNT/a" "$BASE/a" <<'PY' || fail "fork, split, move"
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
want = open(sys.argv[2], "rb").read()
fd = os.open(sys.argv[1], os.O_RDONLY)
size, page = len(want), 4096
at = libc.mmap(None, size, 3, mmap.MAP_PRIVATE, fd, 0)
os.close(fd)
def same(addr, first, last):
    return ctypes.string_at(addr + first, last - first) == want[first:last]
assert same(at, 0, page)
# A mapping that the lower file system refuses (before 5.15; later kernels ignore the flag)
# leaves the open file as it was.
other = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(4):
    refused = libc.mmap(None, page, 1, mmap.MAP_PRIVATE | 0x80000, other, 0)  # MAP_SYNC
    if refused != ctypes.c_void_p(-1).value:
        libc.munmap(refused, page)
assert os.pread(other, page, 0) == want[:page]
os.close(other)
child = os.fork()
if child == 0:
    os._exit(0 if same(at, 0, size) else 1)
assert os.waitpid(child, 0)[1] == 0
# a hole in the middle splits it, mprotect splits again
assert libc.munmap(at + 1024 * 1024, 1024 * 1024) == 0
assert libc.mprotect(at + 2 * 1024 * 1024, 512 * 1024, 1) == 0
assert same(at, 0, 1024 * 1024) and same(at, 2 * 1024 * 1024, size)
# the tail moves
tail = at + 3 * 1024 * 1024
moved = libc.mremap(tail, 1024 * 1024, 1024 * 1024 + page, 1)
assert moved not in (None, ctypes.c_void_p(-1).value)
assert ctypes.string_at(moved, 1024 * 1024) == want[3 * 1024 * 1024:]
# beyond the end: SIGBUS, in a child
child = os.fork()
if child == 0:
    ctypes.string_at(moved + 1024 * 1024, 1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 7
PY
eq "$(stat_of open_files)" 0 "open files left"
