#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: user namespaces, id maps, mounts inside BASE, bind mounts, remounts and lazy unmounts.
# Once
# shellcheck source=tests/kmod/lib.sh
. "$(dirname "$0")/lib.sh"

mkdir -p "$BASE/inner" "$BASE/private" "$PPC_TEST_DIR/b" "$PPC_TEST_DIR/i"
make_file a 1M
echo own >"$BASE/private/own"
chown -R 1000:1000 "$BASE/private" && chmod 700 "$BASE/private"
sum=$(md5sum <"$BASE/a")

# A mount inside BASE is not crossed: its place is empty, as on the lower file system alone.
must mount -t tmpfs tmpfs "$BASE/inner"
echo hidden >"$BASE/inner/hidden"
mount_ppc
eq "$(ls "$MNT/inner")" '' "a mount inside BASE"
must umount "$BASE/inner"
# One made over a name later changes nothing either.
must mount -t tmpfs tmpfs "$BASE/inner"
eq "$(ls "$MNT/inner")" '' "a later mount inside BASE"
must umount "$BASE/inner"

# In a user namespace: no new mount, access by mapped ids, ownership as mapped.
cat >"$PPC_TEST_DIR/inside" <<IN
set -e
[[ \$(id -u) == 0 ]]
md5sum <$MNT/a
stat -c '%u:%g' $MNT/private $MNT/a
cat $MNT/private/own
mount -t ppc $BASE $PPC_TEST_DIR/i 2>&1 && echo mounted || true
# a bind mount in there is fine, and stays read-only
mount --bind $MNT $PPC_TEST_DIR/i && md5sum <$PPC_TEST_DIR/i/a
touch $PPC_TEST_DIR/i/new 2>&1 || true
IN
chmod 755 "$PPC_TEST_DIR" "$PPC_TEST_DIR/inside"
out=$(python3 - "$PPC_TEST_DIR/inside" <<'PY'
import os, subprocess, sys
# a child without privileges, given the map 0 -> 1000 by this process
ready, go = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000 | 0x00020000):
        os.write(ready[1], b"n")
        os._exit(9)
    os.write(ready[1], b"y")
    os.read(go[0], 1)
    os.execvp("bash", ["bash", sys.argv[1]])
if os.read(ready[0], 1) == b"y":
    open(f"/proc/{pid}/uid_map", "w").write("0 1000 1")
    open(f"/proc/{pid}/gid_map", "w").write("0 1000 1")
os.write(go[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
) || fail "in a user namespace: $out"
eq "$(grep -c "$(cut -d' ' -f1 <<<"$sum")" <<<"$out")" 2 "reads in a user namespace"
has "$out" "0:0
65534:65534
own" "owners in a user namespace"
has "${out,,}" "permission denied" "mounting in a user namespace"
lacks "$out" mounted "mounting in a user namespace"
has "$out" "Read-only file system" "writing in a user namespace"

# Id-mapped: neither the base nor the mount itself.
cat >"$PPC_TEST_DIR/idmap.py" <<'PY'
# idmap.py SOURCE TARGET: an id-mapped clone of SOURCE at TARGET; prints the errno.
import ctypes, errno, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
pid = os.fork()
if pid == 0:
    libc.unshare(0x10000000)
    time.sleep(20)
    os._exit(0)
time.sleep(0.5)
open(f"/proc/{pid}/uid_map", "w").write("0 5000 1000")
open(f"/proc/{pid}/gid_map", "w").write("0 5000 1000")
ns = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
tree = libc.syscall(428, -100, sys.argv[1].encode(), 1 | 0x80000)
attr = (ctypes.c_uint64 * 4)(0x00100000, 0, 0, ns)
ret = libc.syscall(442, tree, b"", 0x1000, attr, 32)
print("ok" if ret == 0 else errno.errorcode[ctypes.get_errno()])
if ret == 0:
    assert libc.syscall(429, tree, b"", -100, sys.argv[2].encode(), 4) == 0
os.kill(pid, 9)
os.waitpid(pid, 0)
PY
refused=EINVAL
if kernel_before 5.12; then refused=ENOSYS; fi
eq "$(python3 "$PPC_TEST_DIR/idmap.py" "$MNT" "$PPC_TEST_DIR/i")" $refused "id-mapping a ppc mount"
if [[ $(python3 "$PPC_TEST_DIR/idmap.py" "$PPC_TEST_DIR" "$PPC_TEST_DIR/i") == ok ]]; then
  mark="ppc-test-mark-$RANDOM"
  echo "$mark" >/dev/kmsg
  mount -t ppc "$PPC_TEST_DIR/i/base" "$PPC_TEST_DIR/b" 2>/dev/null && fail "an id-mapped base was accepted"
  has "$(dmesg | sed "1,/$mark/d")" "is on an id-mapped mount" "kernel log"
  must umount "$PPC_TEST_DIR/i"
fi

# Bind mounts: all lead to one super block, the last one ends it.
must mount --bind "$MNT" "$PPC_TEST_DIR/b"
must mount --bind "$MNT/private" "$PPC_TEST_DIR/i"
eq "$(md5sum <"$PPC_TEST_DIR/b/a")$(cat "$PPC_TEST_DIR/i/own")" "${sum}own" "through bind mounts"
eq "$(stat -c %d "$PPC_TEST_DIR/b/a")" "$(stat -c %d "$MNT/a")" "device number"
refuse "write-protected" mount -o remount,rw "$PPC_TEST_DIR/b"
must umount "$MNT"
[[ -e $DEV ]] || fail "the device went with the first of three mounts"
out=$(dev 'lookup a' attach "open $PPC_TEST_DIR/b/a" sum 'evict 0 - unmap drain' 'resident 0')
eq "$(field resident resident "$out")" 0 "evicted through a bind mount"
must umount "$PPC_TEST_DIR/b"
must umount "$PPC_TEST_DIR/i"
[[ ! -e $DEV ]] || fail "the device stayed"

# The mount point of BASE may go, be moved, or be remounted.
mkdir -p "$PPC_TEST_DIR/t" "$PPC_TEST_DIR/t2"
must mount -t tmpfs tmpfs "$PPC_TEST_DIR/t"
cp "$BASE/a" "$PPC_TEST_DIR/t/a"
must mount -t ppc "$PPC_TEST_DIR/t" "$MNT"
must mount -o remount,ro "$PPC_TEST_DIR/t"
eq "$(md5sum <"$MNT/a")" "$sum" "after the lower mount became read-only"
must mount --make-private / 2>/dev/null
must mount --bind "$PPC_TEST_DIR/t" "$PPC_TEST_DIR/t2"
must umount "$PPC_TEST_DIR/t"
must umount "$PPC_TEST_DIR/t2"
eq "$(md5sum <"$MNT/a")" "$sum" "after the lower mount went"
# Lazily unmounted under an open file: it reads on, the super block ends with it.
exec 5<"$MNT/a"
find_device "$MNT"
must umount -l "$MNT"
eq "$(md5sum <&5)" "$sum" "an open file after a lazy unmount"
exec 5<&-
eventually 5 test ! -e "$DEV" || fail "the device stayed after the last file"
exit 0
