#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: FUSE whose server passes files through to another file system is no BASE: its page cache is below it.
# Once
. "$(dirname "$0")/lib.sh"

modprobe fuse 2>/dev/null || grep -qw fuse /proc/filesystems || fail "no FUSE"
cat >"$PPC_TEST_DIR/server.py" <<'PY'
# A directory without files, whose server announces passthrough with one file system below.
import ctypes, errno, os, stat, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if libc.mount(b"server", sys.argv[1].encode(), b"fuse", 0, options): sys.exit(os.strerror(ctypes.get_errno()))
INIT, FORGET, GETATTR, DESTROY = 26, 2, 3, 38
attributes = struct.pack("<6Q3I7I", 1, 0, 0, 0, 0, 0, 0, 0, 0, stat.S_IFDIR | 0o755, 2, 0, 0, 0, 4096, 0)
while True:
    try: request = os.read(device, 1 << 20)
    except OSError as error:
        if error.errno == errno.ENODEV: sys.exit()
        raise
    operation, number = struct.unpack_from("<IQ", request, 4)
    answer, code = b"", 0
    if operation == INIT:
        major, minor, ahead = struct.unpack_from("<3I", request, 40)
        answer = struct.pack("<4I2H2I2H2I24x", 7, minor, ahead, 1 << 30, 0, 0, 4096, 1, 0, 0, 1 << 5, int(sys.argv[2]))
    elif operation == GETATTR: answer = struct.pack("<Q2I", 60, 0, 0) + attributes
    elif operation == FORGET: continue
    else: code = -errno.ENOSYS
    os.write(device, struct.pack("<IiQ", 16 + len(answer), code, number) + answer)
    if operation == DESTROY: sys.exit()
PY
trap 'status=$?; umount "$MNT" 2>/dev/null; umount -l "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
mkdir -p "$MNT"
for depth in 1 0; do
  python3 "$PPC_TEST_DIR/server.py" "$BASE" $depth >"$PPC_TEST_DIR/server" 2>&1 &
  within "$(seconds 60)" mountpoint -q "$BASE" || fail "no server: $(cat "$PPC_TEST_DIR/server")"
  within "$(seconds 60)" stat "$BASE" >/dev/null || fail "no answer: $(cat "$PPC_TEST_DIR/server")"
  # before 6.9 there is none, whatever a server says
  if ((depth)) && ! kernel_before 6.9; then
    mount -t ppc "$BASE" "$MNT" 2>/dev/null && fail "a mount over FUSE that passes files through"
    has "$(dmesg | tail -n 5)" "FUSE that passes files through" "kernel log"
  else
    must mount -t ppc "$BASE" "$MNT"
    must umount "$MNT"
  fi
  must umount "$BASE"
  wait
done
exit 0
