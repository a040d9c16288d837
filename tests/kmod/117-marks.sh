#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: who answers for the lower file system by fanotify is asked of what is opened, run and read
# through the mount, and of nothing unasked; what is filled on demand is filled.
# Once
. "$(dirname "$0")/lib.sh"

mkdir -p "$BASE/dir" "$BASE/closed"
for name in open refused dir/unread free; do make_file $name 64K; done
cp /bin/true "$BASE/program"
cp /bin/true "$BASE/unrun"
mount_ppc
mkdir -p "$PPC_TEST_DIR/upper"
must mount -t ppc "$MNT" "$PPC_TEST_DIR/upper"
trap 'status=$?; umount "$PPC_TEST_DIR/upper" 2>/dev/null; (exit $status); clean_up' EXIT
cat >"$PPC_TEST_DIR/listener.py" <<'PY'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
OPEN_PERM, ACCESS_PERM, OPEN_EXEC_PERM, PRE_ACCESS, ONDIR, ON_CHILD = 0x10000, 0x20000, 0x40000, 0x100000, 0x40000000, 0x08000000
base, kind = sys.argv[1], sys.argv[2]
def mark(group, flags, mask, path):
    assert libc.fanotify_mark(group, 1 | flags, ctypes.c_uint64(mask), -100, path.encode()) == 0, (path, os.strerror(ctypes.get_errno()))
if kind == "fill":
    group = libc.fanotify_init(0x8, os.O_RDWR)  # FAN_CLASS_PRE_CONTENT
    if group < 0 or libc.fanotify_mark(group, 1, ctypes.c_uint64(PRE_ACCESS), -100, f"{base}/hollow".encode()) < 0:
        print("cannot", flush=True)
        sys.exit(0)
else:
    group = libc.fanotify_init(0x4, os.O_RDONLY)  # FAN_CLASS_CONTENT
    assert group >= 0
    for name in ("open", "refused", "dir/unread"):
        mark(group, 0, OPEN_PERM, f"{base}/{name}")
    mark(group, 0, ACCESS_PERM | ON_CHILD, f"{base}/dir")
    mark(group, 0, OPEN_PERM | ONDIR, f"{base}/closed")
    mark(group, 0x100, OPEN_EXEC_PERM, base)  # FAN_MARK_FILESYSTEM
def inode(name):
    return os.stat(f"{base}/{name}").st_ino
denied = {} if kind == "fill" else {
    (inode("refused"), OPEN_PERM), (inode("closed"), OPEN_PERM), (inode("dir/unread"), ACCESS_PERM), (inode("unrun"), OPEN_EXEC_PERM)}
names = {inode(name): name for name in os.listdir(base)}
print("ready", flush=True)
while True:
    data = os.read(group, 4096)
    while data:
        length, _, _, _, mask, fd, _ = struct.unpack_from("IBBHqii", data)
        data = data[length:]
        found = os.fstat(fd).st_ino
        if mask & PRE_ACCESS:
            os.pwrite(fd, b"filled!!" * 8192, 0)
        answer = 2 if any((found, bit) in denied for bit in (OPEN_PERM, ACCESS_PERM, OPEN_EXEC_PERM) if mask & bit) else 1
        print("asked", names.get(found, "other"), hex(mask & 0x1fffff), flush=True)
        os.write(group, struct.pack("iI", fd, answer))
        os.close(fd)
PY
listen() {
  python3 "$PPC_TEST_DIR/listener.py" "$BASE" "$1" >"$PPC_TEST_DIR/asked" 2>&1 &
  LISTENER=$!
  within 30 grep -qE 'ready|cannot' "$PPC_TEST_DIR/asked" || fail "no listener: $(cat "$PPC_TEST_DIR/asked")"
}
asked() { grep -c "asked $1" "$PPC_TEST_DIR/asked"; }

listen answer
for mnt in "$MNT" "$PPC_TEST_DIR/upper"; do
  must cmp "$mnt/free" "$mnt/free"
  eq "$(asked free)" 0 "questions about a file without marks"
  before=$(asked open)
  must dd if="$mnt/open" of=/dev/null status=none
  eq "$(($(asked open) - before))" 1 "questions about an open"
  refuse "Operation not permitted" cat "$mnt/refused"
  refuse "Operation not permitted" ls "$mnt/closed"
  refuse "Operation not permitted" cat "$mnt/dir/unread"
  must "$mnt/program"
  refuse "Operation not permitted" "$mnt/unrun"
  # Opened before is opened; each read is asked of.
  python3 - "$mnt/dir/unread" <<'PY' || fail "reads that are refused"
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
def refused(call, *arguments):
    try:
        call(*arguments)
    except PermissionError:
        return
    raise SystemExit(f"{call} was not refused")
refused(os.pread, fd, 1, 0)
reader, writer = os.pipe()
refused(os.splice, fd, writer, 4096, 0) if hasattr(os, "splice") else refused(os.sendfile, writer, fd, 0, 4096)
PY
done
kill $LISTENER
wait $LISTENER 2>/dev/null
must cmp "$MNT/refused" "$BASE/refused"
must cmp "$MNT/dir/unread" "$BASE/dir/unread"

# No listener is asked about LOAD and EVICT: one that never answers delays neither them nor an unmount.
python3 - "$BASE/free" >"$PPC_TEST_DIR/mute" 2>&1 <<'PY' &
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
group = libc.fanotify_init(0x4, os.O_RDONLY)
assert libc.fanotify_mark(group, 1, ctypes.c_uint64(0x10000), -100, sys.argv[1].encode()) == 0
print("ready", flush=True)
time.sleep(600)
PY
MUTE=$!
within 30 grep -q ready "$PPC_TEST_DIR/mute" || fail "no listener: $(cat "$PPC_TEST_DIR/mute")"
out=$(timeout 60 ppcdev "dev $DEV" 'lookup free' attach 'evict 0 - unmap drain' 'load 0 - wait' 'evict 0 - unmap drain') ||
  fail "LOAD waits for who never answers: $out"
eq "$(field evict dropped "$out" 2)" 65536 "evicted beside who never answers"
kill $MUTE
wait $MUTE 2>/dev/null

truncate -s 64K "$BASE/hollow"
sync -f "$BASE"
listen fill
if grep -q cannot "$PPC_TEST_DIR/asked"; then
  kernel_before 6.14 || fail "no pre-content events"
  exit 0
fi
has "$(dev "open $MNT/hollow" mmap 'touch 0 4096')" "sum=102" "the first byte of a file that is filled on demand"
eq "$(head -c 8 "$MNT/hollow")" 'filled!!' "content"
kill $LISTENER
exit 0
