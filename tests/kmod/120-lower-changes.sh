#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Once unless --all
# Description: changes below that 006 leaves out: attributes, kinds, sizes under a mapping, whole trees.
. "$(dirname "$0")/lib.sh"

mount_ppc
make_file a 1M
cat "$MNT/a" >/dev/null
setfattr -n user.k -v one "$BASE/a" && eq "$(getfattr --only-values -n user.k "$MNT/a")" one "a new attribute"
setfattr -n user.k -v two "$BASE/a" && eq "$(getfattr --only-values -n user.k "$MNT/a")" two "a changed attribute"
setfattr -x user.k "$BASE/a" && refuse "No such attribute" getfattr -n user.k "$MNT/a"
if command -v setfacl >/dev/null; then
  as_user() { setpriv --reuid 4711 --regid 4711 --clear-groups "$@"; }
  chmod 600 "$BASE/a"
  refuse "Permission denied" as_user cat "$MNT/a"
  must setfacl -m u:4711:r "$BASE/a"
  must as_user cmp "$MNT/a" "$BASE/a"
  has "$(getfacl -pn "$MNT/a")" "user:4711:r--" "ACL"
  must setfacl -b "$BASE/a"
  refuse "Permission denied" as_user cat "$MNT/a"
  chmod 644 "$BASE/a"
fi
chown 12:34 "$BASE/a" && eq "$(stat -c %u:%g "$MNT/a")" 12:34 owner
touch -d 2002-02-02 "$BASE/a" && eq "$(stat -c %y "$MNT/a")" "$(stat -c %y "$BASE/a")" time
ln "$BASE/a" "$BASE/hard" && eq "$(stat -c %h "$MNT/a")" 2 links
chattr +A "$BASE/a" && has "$(lsattr "$MNT/a")" A "inode flags"

# One kind becomes another under the same name.
rm "$BASE/hard" && mkdir "$BASE/hard" && echo x >"$BASE/hard/x" && eq "$(cat "$MNT/hard/x")" x "a directory for a file"
rm -r "$BASE/hard" && ln -s a "$BASE/hard" && eq "$(readlink "$MNT/hard")" a "a link for a directory"
rm "$BASE/hard" && mkfifo "$BASE/hard" && eq "$(stat -c %F "$MNT/hard")" fifo "a fifo for a link"
rm "$BASE/hard" && echo file >"$BASE/hard" && eq "$(cat "$MNT/hard")" file "a file for a fifo"
mkdir "$BASE/e" && eq "$(ls "$MNT/e")" '' "an empty directory"
mkdir "$BASE/f" && echo 1 >"$BASE/f/1" && must mv -T "$BASE/f" "$BASE/e"
eq "$(cat "$MNT/e/1")" 1 "a directory renamed over another"

# A program that runs from the mount can be written below, or not where the kernel looks at mappings.
must cp "$(type -P sleep)" "$BASE/program"
"$MNT/program" 60 &
runs() { [[ $(readlink "/proc/$!/exe") == "$MNT/program" ]]; }
within 20 runs || fail "the program does not run"
if kernel_before 5.15; then
  refuse "Text file busy" dd if=/dev/null of="$BASE/program" conv=notrunc
else
  must dd if=/dev/null of="$BASE/program" conv=notrunc status=none
fi
refuse "Read-only file system" dd if=/dev/null of="$MNT/program" conv=notrunc
kill $!
wait $! 2>/dev/null

# Under a working directory.
mkdir -p "$BASE/w/in" && echo 1 >"$BASE/w/in/1"
(cd "$MNT/w/in" && mv "$BASE/w" "$BASE/w2" && cat 1 >/dev/null && ls >/dev/null) || fail "a moved working directory"
(cd "$MNT/w2/in" && rm -r "$BASE/w2" && ! cat 1 2>/dev/null && [[ -z $(ls) ]]) || fail "a deleted working directory"

# A whole tree away and back while it is walked.
mkdir -p "$BASE/t"
for i in $(seq 50); do mkdir -p "$BASE/t/$i/$i" && echo "$i" >"$BASE/t/$i/$i/f"; done
(for _ in $(seq 20); do mv "$BASE/t" "$BASE/t-away" && mv "$BASE/t-away" "$BASE/t"; done) &
while kill -0 $! 2>/dev/null; do find "$MNT" >/dev/null 2>&1; done
wait $!
eq "$(cd "$MNT" && find t -type f -exec cat {} + | sort -n | md5sum)" "$(seq 50 | md5sum)" "after a walk and renames"
eq "$(cd "$MNT" && find . | sort | md5sum)" "$(cd "$BASE" && find . | sort | md5sum)" names

# Sizes under a mapping: what is cut off is SIGBUS, what grows can be read.
for mode in '' 'attach managed beacon'; do
  make_file s 1M
  want=$(field read hash "$(ppcdev "open $BASE/s" 'read 0 64K')")
  out=$(dev "$mode" "open $MNT/s" mmap 'touch 0 1M' "sh truncate -s 64K $BASE/s" 'msum 0 64K' 'read 0 1M')
  eq "$(field msum hash "$out") $(field read hash "$out") $(field read bytes "$out")" "$want $want 65536" "what is left"
  ppcdev "dev $DEV" "$mode" "open $MNT/s" mmap "sh truncate -s 4K $BASE/s" 'touch 32K 4K' >/dev/null 2>&1
  eq $? 135 "status after touching what was cut off"
  out=$(dev "$mode" "open $MNT/s" 'read 0 1M' "sh head -c 1M /dev/urandom >>$BASE/s" 'read 0 2M')
  eq "$(field read bytes "$out" 2)" $((MIB + 4096)) "appended, mode '$mode'"
  # holes, pieces taken out, and bytes that bypass or map the cache below
  make_file s 1M
  cp "$BASE/s" "$PPC_TEST_DIR/s"
  must fallocate -p -o 64K -l 64K "$PPC_TEST_DIR/s"
  want=$(field read hash "$(ppcdev "open $PPC_TEST_DIR/s" sum)")
  out=$(dev "$mode" "open $MNT/s" mmap 'touch 0 1M' "sh fallocate -p -o 64K -l 64K $BASE/s" msum)
  eq "$(field msum hash "$out")" "$want" "a hole under a mapping, mode '$mode'"
  must fallocate -c -o 128K -l 64K "$PPC_TEST_DIR/s"
  must fallocate -c -o 128K -l 64K "$BASE/s"
  eq "$(stat -c %s "$MNT/s")" $((MIB - 65536)) "size after a collapse"
  must cmp "$MNT/s" "$PPC_TEST_DIR/s"
  for file in "$BASE/s" "$PPC_TEST_DIR/s"; do
    head -c 64K /dev/zero | tr '\0' x | dd of="$file" bs=64K seek=4 oflag=direct iflag=fullblock conv=notrunc status=none || fail "direct write"
    python3 -c 'import mmap, sys
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
    memory[400000:400005] = b"below"' "$file" || fail "a write through a mapping"
  done
  must cmp "$MNT/s" "$PPC_TEST_DIR/s"
  make_file s2 8K
  want="$(md5sum <"$BASE/s2") $(md5sum <"$BASE/s")"
  python3 -c 'import ctypes, sys
libc, here = ctypes.CDLL(None, use_errno=True), -100
names = [name.encode() for name in sys.argv[1:]]
sys.exit(libc.renameat2(here, names[0], here, names[1], 2))' "$BASE/s" "$BASE/s2" || fail RENAME_EXCHANGE
  eq "$(md5sum <"$MNT/s") $(md5sum <"$MNT/s2")" "$want" "after RENAME_EXCHANGE"
  make_file s 1M
  # rewritten in place: the cache is one
  printf X | dd of="$BASE/s" bs=1 seek=4096 conv=notrunc status=none
  eq "$(dd if="$MNT/s" bs=1 skip=4096 count=1 status=none)" X "overwritten, mode '$mode'"
done
exit 0
