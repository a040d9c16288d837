#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: erofs of an image that is a file of the mount, without a loop device: it would ask the file's mapping
# for folios by itself.  It refuses the files of stacked file systems, or finds the right bytes; of FUSE and tmpfs,
# whose own files it would ask with ours, it never gets any.  By a loop device all is as below.
# Once
. "$(dirname "$0")/lib.sh"

modprobe -a erofs loop || fail "no erofs or no loop devices"
tree=$PPC_TEST_DIR/tree image=$PPC_TEST_DIR/image at=$PPC_TEST_DIR/at
trap 'status=$?; umount "$at" "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
mkdir -p "$tree/dir" "$at" "$BASE"
head -c 3M /dev/urandom >"$tree/dir/a"
head -c 70000 /dev/zero >"$tree/zeroes"
ln -s dir/a "$tree/link"
# Compressed, too: erofs reads that in a way of its own.
must mkfs.erofs "$image" "$tree"
must mkfs.erofs -zlz4 "$image.lz4" "$tree"
same="diff -r --no-dereference $tree $at && umount $at"
# mount(8) would make a loop device.
cat >"$PPC_TEST_DIR/mount.py" <<'PY'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(sys.argv[1].encode(), sys.argv[2].encode(), b"erofs", 1, None):
    sys.exit(os.strerror(ctypes.get_errno()))
PY
direct=(python3 "$PPC_TEST_DIR/mount.py")
if kernel_before 6.12; then
  # Without a file.
  refuse "Block device required" "${direct[@]}" "$image" "$at"
  exit 0
fi
must "${direct[@]}" "$image" "$at"
must umount "$at"

for from in "$image" "$image.lz4"; do
  cp "$from" "$BASE/a"
  sync "$BASE/a"
  mount_ppc
  for mode in '' 'attach managed beacon' 'attach trace openclose'; do
    name="${from##*/}, mode '$mode'"
    drop_caches
    said=$(dev "$mode" "sh ! ${direct[*]} $MNT/a $at 2>$PPC_TEST_DIR/refusal || { $same; }" 2>&1) || fail "$name: $said"
    [[ ! -s $PPC_TEST_DIR/refusal ]] || eq "$(cat "$PPC_TEST_DIR/refusal")" "Block device required" "$name"
    drop_caches
    said=$(dev "$mode" "sh mount -t erofs -o ro,loop $MNT/a $at && $same" 2>&1) || fail "$name, by a loop device: $said"
  done
  must umount "$MNT"
done

# refused WHOSE: and a read of the file is as before.
refused() {
  mount_ppc
  refuse "" "${direct[@]}" "$MNT/a" "$at"
  must cmp "$MNT/a" "$image"
  must umount "$MNT" "$BASE"
}
must mount -t tmpfs none "$BASE"
cp "$image" "$BASE/a"
refused tmpfs
modprobe fuse 2>/dev/null || grep -qw fuse /proc/filesystems || fail "no FUSE"
python3 "$(dirname "$0")/one_file_fuse.py" "$BASE" "$image" >"$PPC_TEST_DIR/server" 2>&1 &
within "$(seconds 60)" mountpoint -q "$BASE" || fail "no server: $(cat "$PPC_TEST_DIR/server")"
refused FUSE
exit 0
