#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: whatever the reader writes into its page, the kernel and the application are unharmed;
# records cannot be written.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 8M
sum=$(md5sum <"$BASE/a")
mount_ppc queue=128
for value in 1 0xffffffff 0x80000000 77777 64; do
  drop_caches
  out=$(dev 'attach managed beacon' "open $MNT/a" "scribble $value" 'sum 4K' "scribble $value" 'sum 64K' \
    'poll 0' info)
  eq "$(md5sum <"$MNT/a")" "$sum" "content with a hostile reader"
  total=$(($(field info queued "$out") + $(field info dropped "$out")))
  ge "$total" 1 "events tried"
done
# A mapping outlives nothing it should not: unmapping and forking the rings.
dev attach '!EACCES write_rings' 'fork info' >/dev/null
# A reader scribbling all the time while events flow.
drop_caches
ppcdev "dev $DEV" 'attach trace' "open $MNT/a" \
  "thread sh for i in 1 2 3 4 5 6; do md5sum <$MNT/a; done >$PPC_TEST_DIR/sums" \
  'scribble 3' 'scribble 5' 'scribble 7' 'sleep 200' 'scribble 9' 'scribble 0xfffffffe' join >/dev/null ||
  fail "scribbling"
eq "$(sort -u "$PPC_TEST_DIR/sums")" "$sum" "content meanwhile"
# mmap of wrong places and sizes
python3 - "$DEV" <<'PY' || fail "odd mappings of the device"
import fcntl, mmap, os, struct, sys
from errno import EINVAL, ENXIO, EPERM
fd = os.open(sys.argv[1], os.O_RDWR)
def refused(why, length, offset, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED):
    try:
        mmap.mmap(fd, length, flags=flags, prot=prot, offset=offset).close()
    except OSError as error:
        assert error.errno == why, (error, length, offset)
        return
    raise SystemExit(f"mapped {length} at {offset:#x} prot {prot} flags {flags}")
refused(ENXIO, 4096, 0)                            # nobody attached
attach = struct.pack("IIII32sIIQQQQ", 0, 1000, 0, 0, b"x", 0, 0, 0, 0, 0, 0)
out = bytearray(attach)
fcntl.ioctl(fd, (3 << 30) | (len(attach) << 16) | (0xb9 << 8) | 1, out)
rings, entries, stride, consumer = struct.unpack_from("IIQQ", out, 48)
refused(EINVAL, rings * stride + 4096, 0)
refused(EINVAL, 4096, rings * stride)
refused(EINVAL, consumer + 4096, 0x100000000)
refused(EINVAL, 4096, 0x100000000 + consumer)
refused(EINVAL, 4096, 0x7ffffffff000)
refused(EINVAL, 4096, 0, flags=mmap.MAP_PRIVATE)
refused(EPERM, 4096, 0, prot=mmap.PROT_READ | mmap.PROT_WRITE)
mmap.mmap(fd, rings * stride, prot=mmap.PROT_READ, offset=0).close()
PY
exit 0
