#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: inotify and fanotify on the mount tell of accesses through the mount; changes below are not
# told there, and our own opening of the lower file is not told below.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 64K
mount_ppc
# From 6.14 on those who watch below are told that a directory is opened.
told=nothing
kernel_before 6.14 || told=opens
python3 - "$MNT" "$BASE" "$DEV" $told <<'PY' || fail "inotify"
import ctypes, os, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
ACCESS, OPEN, CLOSE = 1, 0x20, 0x10
def watch(path):
    fd = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(fd, path.encode(), 0xFFF) > 0
    return fd
def seen(fd):
    time.sleep(0.2)
    out = []
    try:
        data = os.read(fd, 65536)
    except BlockingIOError:
        return out
    at = 0
    while at < len(data):
        _, mask, _, length = struct.unpack_from("iIII", data, at)
        out.append((mask & 0xFFF, data[at + 16:at + 16 + length].rstrip(b"\0").decode()))
        at += 16 + length
    return out
upper, lower = watch(sys.argv[1]), watch(sys.argv[2])
fd = os.open(sys.argv[1] + "/a", os.O_RDONLY)
os.read(fd, 4096)
os.close(fd)
told = seen(upper)
assert told == [(OPEN, "a"), (ACCESS, "a"), (CLOSE, "a")], told
assert seen(lower) == [], "accesses through the mount are told below"
os.listdir(sys.argv[1])
masks = [mask for mask, _ in seen(lower)]
assert (OPEN in masks) == (sys.argv[4] == "opens"), ("a directory", masks)
subprocess.run(["ppcdev", "dev " + sys.argv[3], "lookup a", "load 0 4K wait"], check=True)
masks = [mask for mask, _ in seen(lower)]
assert not masks, ("LOAD", masks)
seen(upper)
with open(sys.argv[2] + "/new", "w") as file:
    file.write("x")
os.rename(sys.argv[2] + "/new", sys.argv[2] + "/newer")
assert [m for m, _ in seen(lower)], "nothing is told below"
assert seen(upper) == [], "changes below are told here"
assert open(sys.argv[1] + "/newer").read() == "x"
PY
python3 - "$MNT" "$BASE" <<'PY' || fail "fanotify"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
ACCESS, OPEN = 1, 0x20
def marked(path):
    fd = libc.fanotify_init(2, os.O_RDONLY)  # FAN_NONBLOCK
    assert fd >= 0, os.strerror(ctypes.get_errno())
    # FAN_MARK_ADD | FAN_MARK_MOUNT
    assert libc.fanotify_mark(fd, 0x11, ctypes.c_uint64(ACCESS | OPEN), -100, path.encode()) == 0
    return fd
upper = marked(sys.argv[1])
with open(sys.argv[1] + "/a", "rb", buffering=0) as file:
    file.read(4096)
with open(sys.argv[2] + "/a", "rb", buffering=0) as file:
    file.read(4096)
told, data = [], os.read(upper, 4096)
while data:
    length, _, _, _, mask, fd, _ = struct.unpack_from("IBBHqii", data)
    told.append((mask, os.readlink(f"/proc/self/fd/{fd}")))
    data = data[length:]
name = sys.argv[1] + "/a"
assert {path for _, path in told} == {name} and {mask for mask, _ in told} <= {ACCESS, OPEN, ACCESS | OPEN}, told
PY
exit 0
