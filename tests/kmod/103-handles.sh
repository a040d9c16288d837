#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Once unless --all
# Description: file handles are those of the lower file system, lead to the same file with cold caches,
# go stale with it, and never lead out of BASE.
. "$(dirname "$0")/lib.sh"

handle() { ppc-answers handle "$1"; }
behind() { ppc-answers openhandle "$1" "$2" | head -1; }
cold() { echo 2 >/proc/sys/vm/drop_caches; }

# The whole of a file system: a disk of its own, so that BASE is its root.
modprobe loop 2>/dev/null
root=$PPC_TEST_DIR/root
mkdir -p "$root" "$PPC_TEST_DIR/m"
fs=$(findmnt -no FSTYPE -T "$PPC_TEST_DIR")
truncate -s 320M "$PPC_TEST_DIR/image"
case $fs in
  ext4) mkfs.ext4 -q "$PPC_TEST_DIR/image" ;;
  xfs) mkfs.xfs -q "$PPC_TEST_DIR/image" ;;
  *) skip "no way to make a $fs" ;;
esac
must mount -o loop "$PPC_TEST_DIR/image" "$root"
mkdir -p "$root/d/e" "$root/other"
echo content >"$root/d/e/file"
must mount -t ppc "$root" "$PPC_TEST_DIR/m"
m=$PPC_TEST_DIR/m
for name in d/e/file d/e .; do
  eq "$(handle "$m/$name")" "$(handle "$root/$name")" "handle of $name"
done
file=$(handle "$m/d/e/file") dir=$(handle "$m/d/e")
want_file=$(behind "$root" "$file") want_dir=$(behind "$root" "$dir")
has "$want_file" "bytes 8" "the file by its handle"
for _ in 1 2; do
  eq "$(behind "$m" "$file")" "$want_file" "file"
  eq "$(behind "$m" "$dir")" "$want_dir" "directory"
  eq "$(ppc-answers openhandle "$m" "$dir" | tail -1)" "path $m/d/e" "path of the directory"
  cold
done
eq "$(behind "$m" "$(handle "$m/.")")" "$(behind "$root" "$(handle "$root/.")")" "the root"
# A nameless file gets its name by a look-up, and both are one file.
cold
must cmp <(ppc-answers openhandle "$m" "$file" | head -1) <(ppc-answers openhandle "$m" "$(handle "$m/d/e/file")" | head -1)
eq "$(cat "$m/d/e/file")" content "by name after by handle"
mv "$root/d/e/file" "$root/other/renamed"
eq "$(behind "$m" "$file")" "$want_file" "after a rename below"
cold
eq "$(behind "$m" "$file")" "$want_file" "after a rename below, cold"
rm "$root/other/renamed"
eq "$(behind "$m" "$file")" ESTALE "a deleted file"
rm -r "$root/d"
eq "$(behind "$m" "$dir")" ESTALE "a deleted directory"
eq "$(behind "$m" "1 0000000000000000")" ESTALE "nonsense"
# Load and evict what is open by handle only.
head -c 2M /dev/urandom >"$root/big" && sync -f "$root"
big=$(handle "$m/big")
cold
has "$(behind "$m" "$big")" "bytes 65536" "a file opened cold"
must umount "$m"

# A part of it: what lies outside stays outside.
mkdir -p "$root/base/in" "$root/base/in2"
echo inside >"$root/base/in/file" && echo secret >"$root/secret"
must mount -t ppc "$root/base" "$m"
inside=$(handle "$m/in/file")
has "$(behind "$m" "$inside")" "bytes 7" "a file inside"
cold
has "$(behind "$m" "$inside")" "bytes 7" "a file inside, cold"
eq "$(behind "$m" "$(handle "$m/in")")" "$(behind "$root" "$(handle "$root/base/in")")" "a directory inside"
for _ in 1 2; do
  eq "$(behind "$m" "$(handle "$root/secret")")" ESTALE "a file outside"
  eq "$(behind "$m" "$(handle "$root/other")")" ESTALE "a directory outside"
  eq "$(behind "$m" "$(handle "$root")")" ESTALE "the parent of BASE"
  cold
done
mv "$root/base/in/file" "$root/base/in2/file"
cold
eq "$(behind "$m" "$inside")" ESTALE "renamed into another directory"
has "$(behind "$m" "$(handle "$m/in2/file")")" "bytes 7" "its handle there"
mv "$root/base/in2/file" "$root/file"
cold
eq "$(behind "$m" "$inside")" ESTALE "moved out of BASE"
# Directories whose names fit into the buffer of a path, and one level more.
python3 - "$root/base" "$m" >"$PPC_TEST_DIR/deep" <<'PY' || fail "deep directories"
import os, subprocess, sys
name = "d" * 250
os.chdir(sys.argv[1])
for _ in range(17):
    os.mkdir(name)
    os.chdir(name)
os.chdir(sys.argv[2])
for level in range(1, 18):
    os.chdir(name)
    if level in (16, 17):
        print(subprocess.run(["ppc-answers", "handle", "."], capture_output=True, text=True).stdout.strip())
PY
mapfile -t deep <"$PPC_TEST_DIR/deep"
cold
eq "$(behind "$m" "${deep[0]}")" "$(behind "$root" "${deep[0]}")" "a directory 4016 bytes of path down"
eq "$(behind "$m" "${deep[1]}")" ESTALE "a directory 4267 bytes of path down"
must umount "$m"
must umount "$root"

must mount -t ppc /sys/fs "$m"
eq "$(handle "$m")" "$(handle /sys/fs)" "a lower file system of another kind"
must umount "$m"
# ramfs has no handles, so there are none over it.
must mount -t ramfs ramfs "$root"
must mount -t ppc "$root" "$m"
eq "$(handle "$m")" EOPNOTSUPP "over what has no handles"
must umount "$m" "$root"
# An unprivileged caller may not open by handle at all.
mount_ppc
echo x >"$BASE/x"
refuse EPERM sh -c "setpriv --reuid 65534 --regid 65534 --clear-groups ppc-answers openhandle $MNT '$(handle "$MNT/x")'; false"
