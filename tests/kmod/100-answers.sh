#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: what is asked of a path through the mount is answered as by the lower file system,
# and what changes something is refused.
. "$(dirname "$0")/lib.sh"

mkdir -p "$BASE/many"
(cd "$BASE/many" && seq -f 'a-file-with-a-rather-long-name-%06g' 5000 | xargs touch)
make_file a 1234567
make_file frag 300K
truncate -s 9M "$BASE/sparse"
for at in 1 3 4 8; do head -c 700000 /dev/urandom | dd of="$BASE/sparse" bs=1M seek=$at conv=notrunc status=none; done
fallocate -l 4M -n "$BASE/a" || fail fallocate
: >"$BASE/empty"
mkfifo "$BASE/fifo"
ln -s a "$BASE/rel"
ln -s "$MNT/a" "$BASE/abs"
chattr +d "$BASE/frag" || fail chattr
chattr -p 77 "$BASE/frag" 2>/dev/null
sync -f "$BASE"
mount_ppc

same() {
  local lower upper
  lower=$(ppc-answers "$1" "$BASE/$2" "${3:-}" 2>&1)
  upper=$(ppc-answers "$1" "$MNT/$2" "${3:-}" 2>&1)
  [[ $upper == "$lower" ]] || fail "$1 of $2: $(diff <(echo "$lower") <(echo "$upper") | head -4 | paste -sd' ')"
  (($(wc -l <<<"$lower") >= ${4:-1})) || fail "$1 of $2 says too little: $lower"
}
for file in a frag sparse empty many fifo rel .; do same statx $file '' 6; done
for file in a frag many; do same attributes $file '' 8; done
for file in a frag sparse empty; do
  same fiemap $file '' 2
  same seek $file '' 9
done
same directory many '' 4
same directory . '' 4
same locks a '' 11
same locks many
for mode in '' 'attach managed beacon'; do
  # cached, because RWF_NOWAIT reads no more than that
  cat "$BASE/a" >/dev/null
  beside "$mode"
  same source a "$PPC_TEST_DIR" 20
  alone "$mode"
done
eq "$(lsattr -dl "$MNT/frag" | awk '{$1 = ""; print}')" "$(lsattr -dl "$BASE/frag" | awk '{$1 = ""; print}')" lsattr
has "$(ppc-answers attributes "$MNT/frag")" "GETFLAGS ok" "flags of frag"
[[ $(stat -c %w "$MNT/a") == "$(stat -c %w "$BASE/a")" && $(stat -c %w "$MNT/a") != - ]] || fail "birth time"
eq "$(ppc-answers mountid "$MNT/a")" "$(findmnt -nro ID "$MNT")" "mount id"
# An absolute link leads back into the mount, a relative one stays.
for link in rel abs; do must cmp "$MNT/$link" "$BASE/a"; done
eq "$(readlink -f "$MNT/rel") $(readlink -f "$MNT/abs")" "$MNT/a $MNT/a" "where links lead"
# As between any two file systems: by most kernels the caller is left to copy by itself.
mkdir "$PPC_TEST_DIR/t"
must mount -t tmpfs tmpfs "$PPC_TEST_DIR/t"
cp "$BASE/a" "$PPC_TEST_DIR/t/a"
want=$(ppc-answers copyrange "$PPC_TEST_DIR/t/a" "$PPC_TEST_DIR/range")
umount "$PPC_TEST_DIR/t"
eq "$(ppc-answers copyrange "$MNT/a" "$PPC_TEST_DIR/range")" "$want" copy_file_range
has "50000 ok, -1 EXDEV" "$want" "copy_file_range between two others"
refuse "Invalid cross-device link" cp --reflink=always "$MNT/a" "$PPC_TEST_DIR/clone"
# Locks of this mount are not those of the lower file system, and hold among those who come by it.
must flock "$BASE/a" flock -n "$MNT/a" true
must python3 - "$BASE/a" "$MNT/a" <<'PY'
import fcntl, subprocess, sys
other = "import fcntl, sys; fcntl.lockf(open(sys.argv[1]), fcntl.LOCK_SH | fcntl.LOCK_NB)"
below = open(sys.argv[1], "r+")
fcntl.lockf(below, fcntl.LOCK_EX | fcntl.LOCK_NB)
assert subprocess.run([sys.executable, "-c", other, sys.argv[1]], stderr=subprocess.DEVNULL).returncode
assert not subprocess.run([sys.executable, "-c", other, sys.argv[2]]).returncode
PY
flock "$MNT/a" flock -n "$MNT/a" true && fail "two exclusive locks on one file of the mount"
# A lease would not be broken by a change below.
eq "$(ppc-answers leases "$MNT/a" | head -1)" "read lease EINVAL" lease
has "$(ppc-answers leases "$BASE/a")" "read lease ok" "lease on the lower file"

eq "$(ppc-answers ioctls "$MNT/a" | paste -sd,)" \
  "SETFLAGS EROFS,FSSETXATTR EROFS,SETVERSION ENOTTY,SETFSLABEL ENOTTY,FITRIM ENOTTY,FIBMAP EINVAL,ENABLE_VERITY ENOTTY,unknown ENOTTY" \
  "refused ioctls"
refuse "Read-only file system" chattr +i "$MNT/frag"
