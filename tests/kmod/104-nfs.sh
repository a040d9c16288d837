#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a ppc mount exported by the kernel's NFS server, and a ppc mount over an NFS mount.
# Once
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lower.sh"

{ modprobe nfsd && modprobe nfsv4; } 2>/dev/null || skip "no NFS in this kernel"
nfs=$PPC_TEST_DIR/nfs top=$PPC_TEST_DIR/top outer=$PPC_TEST_DIR/outer
mkdir -p "$nfs" "$top" "$outer"
ip link set lo up
mount -t nfsd nfsd /proc/fs/nfsd 2>/dev/null
[[ -e /proc/fs/nfsd/threads ]] || skip "no nfsd file system"
release() {
  umount -q "$outer"
  umount "$top" "$nfs"
  echo 0 >/proc/fs/nfsd/threads
  for cache in auth.unix.ip nfsd.export nfsd.fh; do date +%s >"/proc/net/rpc/$cache/flush"; done
  # the server closes what it has cached
  sleep 1
  umount /proc/fs/nfsd
}
trap 'status=$?; release 2>/dev/null; (exit $status); clean_up' EXIT

# export_tree DIR [rw]: the only export, root of the NFSv4 tree.  No mountd: its answers are given beforehand.
export_tree() {
  local end=$(($(date +%s) + 86400)) cache flags=$((0x2 | 0x400 | 0x2000))
  if [[ ${2:-} != rw ]]; then flags=$((flags | 0x1)); fi
  for cache in auth.unix.ip nfsd.export nfsd.fh; do
    [[ -e /proc/net/rpc/$cache/channel ]] || skip "no RPC cache $cache"
  done
  echo "nfsd 127.0.0.1 $end loop" >/proc/net/rpc/auth.unix.ip/channel
  # read-only unless told, any port, no subtree check, fsid 0
  echo "loop $1 $end $flags 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
  printf 'loop 1 \\x00000000 %s %s\n' "$end" "$1" >/proc/net/rpc/nfsd.fh/channel
}
mount_nfs() { timeout 60 mount -i -t nfs4 -o vers=4.2,actimeo=1,addr=127.0.0.1,clientaddr=127.0.0.1 127.0.0.1:/ "$nfs"; }

make_tree "$BASE"
mount_ppc
# Opens wait for clients with something to reclaim: 90 s by default, 10 s at least.
echo 10 >/proc/fs/nfsd/nfsv4gracetime
# Version 4 needs no port mapper; 5.10 has 2 still.
echo "-2 -3 +4 +4.1 +4.2" >/proc/fs/nfsd/versions
echo "tcp 2049" >/proc/fs/nfsd/portlist || skip "no NFS socket"
export_tree "$MNT"
echo 2 >/proc/fs/nfsd/threads
must mount_nfs
must diff -r --no-dereference "$BASE" "$nfs"
# Handles outlive the server's caches, also of names.
exec 5<"$nfs/a"
umount "$nfs" 2>/dev/null
echo 2 >/proc/sys/vm/drop_caches
must cmp - "$BASE/a" <&5
exec 5<&-
must diff -r --no-dereference "$BASE" "$nfs"
# Events are those of the server's threads; what the client has cached is not asked again.
echo new >"$BASE/sub/new"
within 70 cmp -s "$nfs/sub/new" "$BASE/sub/new" || fail "a new file is not seen by the client"
refuse "Read-only file system" touch "$nfs/new"

# And on top of the client.
must mount -t ppc "$nfs" "$top"
PPC_TOP_LOWER=$nfs
(MNT=$top && find_device "$top" && check_lower "$PPC_TOP_LOWER") || exit 1
eq "$(setpriv --reuid 65534 --regid 65534 --clear-groups cat "$top/sub/new")" new "as another user"
chmod 600 "$BASE/sub/new"
refused_soon() { ! setpriv --reuid 65534 --regid 65534 --clear-groups cat "$top/sub/new" >/dev/null 2>&1; }
within 70 refused_soon || fail "a mode changed on the server is not seen through two mounts"

# And on top of that: NFS is asked by its own file, and as the caller.
must mount -t ppc "$top" "$outer"
want=$(field read hash "$(ppcdev "open $BASE/a" sum)")
out=$(find_device "$outer" && dev 'attach managed' 'lookup a' 'evict 0 - unmap drain' "open $outer/a" sum) || fail "managed reads through two"
eq "$(field read hash "$out")" "$want" "a managed read through two"
! setpriv --reuid 65534 --regid 65534 --clear-groups cat "$outer/sub/new" >/dev/null 2>&1 ||
  fail "opened through two with the mounter's rights"
must umount "$outer"
must umount "$top"
must umount "$nfs"

# Removed by the client that carries the mount: it keeps the file under another name until ours is gone.
echo 0 >/proc/fs/nfsd/threads
for cache in auth.unix.ip nfsd.export nfsd.fh; do date +%s >"/proc/net/rpc/$cache/flush"; done
sleep 1
export_tree "$BASE" rw
# newer servers have closed it with their last thread
echo "tcp 2049" >/proc/fs/nfsd/portlist 2>/dev/null
echo 2 >/proc/fs/nfsd/threads
must mount_nfs
must mount -t ppc "$nfs" "$top"
must mount -t ppc "$top" "$outer"
echo old >"$nfs/sub/old"
cat "$outer/sub/new" "$top/sub/old" >/dev/null
# A mount on a name goes with it.
must mount --bind "$BASE/a" "$top/sub/old"
must rm "$nfs/sub/new" "$nfs/sub/old"
leftovers() { find "$BASE/sub" -name '.nfs*'; }
gone() { [[ -z $(leftovers) ]]; }
within 10 gone || fail "a removed file stays: $(leftovers)"
must umount "$outer"
must umount "$top"
must umount "$nfs"
