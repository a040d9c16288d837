#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: user namespaces, id maps, mounts inside BASE, bind mounts, remounts and lazy unmounts.
# Once
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

# Id-mapped: BASE from 6.3 on, the mount itself from 6.12 on; as the lower mount would be, id-mapped alike.
cat >"$PPC_TEST_DIR/idmap.py" <<'PY'
# idmap.py SOURCE TARGET: a clone of SOURCE at TARGET in which 0 to 1999 are 5000 to 6999; prints the errno.
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
ready, done = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    libc.unshare(0x10000000)
    os.write(ready[1], b"x")
    os.read(done[0], 1)
    os._exit(0)
os.read(ready[0], 1)
open(f"/proc/{pid}/uid_map", "w").write("0 5000 2000")
open(f"/proc/{pid}/gid_map", "w").write("0 5000 2000")
ns = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
tree = libc.syscall(428, -100, sys.argv[1].encode(), 1 | 0x80000)
attr = (ctypes.c_uint64 * 4)(0x00100000, 0, 0, ns)
ret = libc.syscall(442, tree, b"", 0x1000, attr, 32)
print("ok" if ret == 0 else errno.errorcode[ctypes.get_errno()])
if ret == 0:
    assert libc.syscall(429, tree, b"", -100, sys.argv[2].encode(), 4) == 0
os.write(done[1], b"x")
os.waitpid(pid, 0)
PY
idmap() { python3 "$PPC_TEST_DIR/idmap.py" "$1" "$2"; }
as() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}" 2>&1; }
mkdir -p "$BASE/closed" "$BASE/of-nobody" "$PPC_TEST_DIR/l" "$PPC_TEST_DIR/m"
echo secret >"$BASE/closed/secret"
chmod 700 "$BASE/closed" && chmod 600 "$BASE/closed/secret"
chown 3000 "$BASE/of-nobody"
cp /usr/bin/id "$BASE/set-id"
chown 3:4 "$BASE/set-id" && chmod 6755 "$BASE/set-id"
echo acl >"$BASE/acl" && chmod 600 "$BASE/acl" && must setfacl -m u:7:r,g:3000:r "$BASE/acl"
names=(. a private private/own closed closed/secret of-nobody set-id acl)
# ids_of DIR: owners, modes, ACLs, and what each of some users may do.
ids_of() {
  local user name
  cd "$1" || return
  stat -c '%n %u:%g %a' "${names[@]}"
  getfacl -n "${names[@]}"
  for user in 0 7 1000 5000 5007 6000; do
    for name in private/own closed/secret acl; do echo "$user $name: $(as $user cat $name)"; done
    echo "$user set-id: $(as $user ./set-id)"
  done
}
same_ids() { eq "$(ids_of "$1")" "$(ids_of "$2")" "ids in $1 as in $2"; }
# What is looked up anew is looked up by who comes first.
fresh() { echo 2 >/proc/sys/vm/drop_caches; }
refused=EINVAL maps=0
if kernel_before 5.12; then refused=ENOSYS; elif ! kernel_before 6.3; then maps=1; fi
if kernel_before 6.12; then
  eq "$(idmap "$MNT" "$PPC_TEST_DIR/i")" $refused "id-mapping a ppc mount"
else
  eq "$(idmap "$BASE" "$PPC_TEST_DIR/l")" ok "id-mapping the lower mount"
  eq "$(idmap "$MNT" "$PPC_TEST_DIR/i")" ok "id-mapping a ppc mount"
  fresh
  eq "$(as 5000 cat "$PPC_TEST_DIR/i/closed/secret")" secret "the mapped owner"
  has "$(as 5000 cat "$MNT/closed/secret")" "Permission denied" "the mapped owner by the plain mount"
  same_ids "$PPC_TEST_DIR/i" "$PPC_TEST_DIR/l"
  same_ids "$MNT" "$BASE"
  # Over it another one, whose BASE is id-mapped, and which cannot be mapped once more.
  must mount -t ppc "$PPC_TEST_DIR/i" "$PPC_TEST_DIR/m"
  same_ids "$PPC_TEST_DIR/m" "$PPC_TEST_DIR/l"
  eq "$(idmap "$PPC_TEST_DIR/m" "$PPC_TEST_DIR/b")" EINVAL "id-mapping a mount of an id-mapped BASE"
  must umount "$PPC_TEST_DIR/m"
  must umount "$PPC_TEST_DIR/i"
  must umount "$PPC_TEST_DIR/l"
fi
if [[ $refused != ENOSYS ]]; then
  eq "$(idmap "$PPC_TEST_DIR" "$PPC_TEST_DIR/i")" ok "id-mapping the lower mount"
  mark="ppc-test-mark-$RANDOM"
  echo "$mark" >/dev/kmsg
  if ((maps)); then
    must mount -t ppc "$PPC_TEST_DIR/i/base" "$PPC_TEST_DIR/b"
    same_ids "$PPC_TEST_DIR/b" "$PPC_TEST_DIR/i/base"
    # Another one comes and goes.
    must mount -t ppc "$PPC_TEST_DIR/i/base" "$PPC_TEST_DIR/m"
    must umount "$PPC_TEST_DIR/m"
    same_ids "$PPC_TEST_DIR/b" "$PPC_TEST_DIR/i/base"
    # Below it now is of the very id that was seen here.
    chown 5003 "$BASE/set-id" && chmod 6755 "$BASE/set-id"
    same_ids "$PPC_TEST_DIR/b" "$PPC_TEST_DIR/i/base"
    out=$(find_device "$PPC_TEST_DIR/b" &&
      dev 'lookup closed/secret' attach 'evict 0 - unmap drain' 'load 0 - wait' 'resident 0') || exit 1
    eq "$(field resident resident "$out")" "$PAGE" "loaded below an id-mapped BASE"
    must umount "$PPC_TEST_DIR/b"
  else
    mount -t ppc "$PPC_TEST_DIR/i/base" "$PPC_TEST_DIR/b" 2>/dev/null && fail "an id-mapped base was accepted"
    has "$(dmesg | sed "1,/$mark/d")" "is on an id-mapped mount, which needs Linux 6.3" "kernel log"
  fi
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
within 5 test ! -e "$DEV" || fail "the device stayed after the last file"
exit 0
