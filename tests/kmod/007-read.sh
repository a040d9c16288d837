#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: reads, maps, splices, seeks and executes the lower file's bytes.
. "$(dirname "$0")/lib.sh"

make_file a 5242881
# Holes: 1 MiB data, 2 MiB hole, 1 MiB data, 1 MiB hole.
truncate -s 5M "$BASE/sparse"
head -c 1M /dev/urandom | dd of="$BASE/sparse" conv=notrunc status=none
head -c 1M /dev/urandom | dd of="$BASE/sparse" bs=1M seek=3 conv=notrunc status=none
: >"$BASE/empty"
mount_ppc

want=$(field read hash "$(ppcdev "open $BASE/a" sum)")
for mode in '' attach 'attach managed beacon' 'attach trace'; do
  for step in 4K 1M 5000; do
    drop_caches
    out=$(dev "$mode" "open $MNT/a" "sum $step" "splice 0 16M" "read 5000000 1M 77")
    eq "$(field read hash "$out" 1)" "$want" "read by $step, mode '$mode'"
    eq "$(field read hash "$out" 2)" "$want" "splice, mode '$mode'"
    eq "$(field read bytes "$out" 3)" 242881 "bytes up to the end, mode '$mode'"
  done
  drop_caches
  out=$(dev "$mode" "open $MNT/a" mmap msum munmap 'mmap write' msum 'mmap shared' msum)
  for i in 1 2 3; do eq "$(field msum hash "$out" $i)" "$want" "mapping $i, mode '$mode'"; done
  drop_caches
done
out=$(dev attach "open $MNT/empty" sum 'read 100 10')
eq "$(field read bytes "$out" 1)$(field read bytes "$out" 2)" 00 "empty file"

# A splice into a pipe misses what the pipe takes, not what was asked for.
drop_caches
out=$(dev attach "sh python3 -c 'import os
r, w = os.pipe()
os.splice(os.open(\"$MNT/a\", os.O_RDONLY), w, 4 << 20)'" events)
ge "$(field event len "$out")" 4096 "missed by a splice"
le "$(field event len "$out")" 65536 "missed by a splice"

# sendfile and copy_file_range paths of ordinary tools.
must cp --sparse=never "$MNT/a" "$PPC_TEST_DIR/copy" && must cmp "$PPC_TEST_DIR/copy" "$BASE/a"
python3 - "$MNT/a" "$PPC_TEST_DIR/sent" <<'PY' || fail sendfile
import os, sys
src, dst = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
at = 0
while n := os.sendfile(dst, src, at, 1 << 20):
    at += n
assert at == os.fstat(src).st_size
PY
must cmp "$PPC_TEST_DIR/sent" "$BASE/a"

# Holes as the lower file system reports them.
for file in "$BASE/sparse" "$MNT/sparse"; do
  ppcdev "open $file" 'seek data 0' 'seek hole 0' 'seek data 1M' 'seek hole 3M' 'seek end 0' \
    '!ENXIO seek data 5M' >"$PPC_TEST_DIR/seek.$(dirname "$file" | md5sum | cut -c1-4)" || fail seek
done
eq "$(cat "$PPC_TEST_DIR"/seek.* | sort | uniq -u)" '' "SEEK_DATA and SEEK_HOLE"
eq "$(filefrag -v "$MNT/a" | sed 1,2d | head -n -1)" "$(filefrag -v "$BASE/a" | sed 1,2d | head -n -1)" fiemap

# Executing, its path, and a script.
cp /bin/sleep "$BASE/prog"
printf '#!/bin/sh\necho script\n' >"$BASE/script" && chmod 755 "$BASE/script"
"$MNT/prog" 30 &
sleep 0.3
eq "$(readlink /proc/$!/exe)" "$MNT/prog" "/proc/PID/exe"
has "$(cat /proc/$!/maps)" "$MNT/prog" "/proc/PID/maps"
refuse "busy" umount "$MNT"
kill $!
eq "$("$MNT/script")" script "a script"

# A shared library, and its pages leaving from under it.
cp "$(ldd /usr/bin/python3 | awk '$1 ~ /^libz/ {print $3}')" "$BASE/libz.so" || fail "no libz"
python3 - "$MNT/libz.so" "$DEV" <<'PY' || fail "a shared library"
import ctypes, subprocess, sys
zlib = ctypes.CDLL(sys.argv[1])
assert sys.argv[1] in open("/proc/self/maps").read()
for _ in range(3):
    assert zlib.crc32(0, b"123456789", 9) & 0xFFFFFFFF == 0xCBF43926
    subprocess.run(["ppcdev", "dev " + sys.argv[2], "lookup libz.so", "evict 0 - unmap drain"], check=True,
                   stdout=subprocess.DEVNULL)
PY

# fsync and friends succeed.
python3 -c 'import os,sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.fsync(fd); os.fdatasync(fd)' \
  "$MNT/a" || fail fsync
exit 0
