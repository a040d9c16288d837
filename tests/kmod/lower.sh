# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced after lib.sh by the tests of one kind of lower file system each.
# shellcheck disable=SC2154  # of lib.sh

modprobe loop 2>/dev/null
TREE=$PPC_TEST_DIR/tree IMAGE=$PPC_TEST_DIR/image # of check_image

# make_tree DIR: some of everything.
make_tree() {
  local names=400
  # To open one over NFS takes half a second there.
  [[ $(uname -r) != *-ppcdebug ]] || names=20
  mkdir -p "$1/sub/deep" "$1/many"
  head -c 3M /dev/urandom >"$1/a"
  head -c 70000 /dev/zero >"$1/zeroes"
  head -c 5000 /dev/urandom >"$1/sub/deep/small"
  : >"$1/empty"
  ln -s sub/deep/small "$1/link"
  ln "$1/a" "$1/hard" 2>/dev/null
  cp /bin/true "$1/prog"
  (cd "$1/many" && seq -f 'name-%04g' "$names" | xargs touch)
  setfattr -n user.note -v hello "$1/a" 2>/dev/null
  sync
}

# statx_of PATH: what it answers.  The NFS client of 5.10 does not vouch for the access time of a mount
# without such, and our private mount is one.
statx_of() {
  if kernel_before 6.1; then
    ppc-answers statx "$1" | sed 's/mask 7[df]f/mask 7.f/'
  else
    ppc-answers statx "$1"
  fi
}
# check_lower LOWER [noload]: BASE is LOWER, mounted at MNT; reads, maps, metadata, loading, evicting.
check_lower() {
  local lower=$1 file question out want
  must diff -r --no-dereference "$lower" "$MNT"
  for file in a sub/deep/small many link . zeroes; do
    eq "$(statx_of "$MNT/$file")" "$(statx_of "$lower/$file")" "statx of $file"
  done
  for question in attributes fiemap seek handle; do
    eq "$(ppc-answers $question "$MNT/a")" "$(ppc-answers $question "$lower/a")" "$question"
  done
  eq "$(ppc-answers directory "$MNT/many")" "$(ppc-answers directory "$lower/many")" "a directory"
  eq "$(cd "$MNT" && getfattr -d -m - a)" "$(cd "$lower" && getfattr -d -m - a)" "extended attributes"
  must "$MNT/prog"
  refuse "Read-only file system" touch "$MNT/a"
  eq "$(stat -f -c '%T %b %s' "$MNT")" "$(stat -f -c '%T %b %s' "$lower")" statfs
  want=$(field read hash "$(ppcdev "open $lower/a" sum)")
  for mode in '' 'attach managed beacon' 'attach trace openclose'; do
    ppcdev "open $lower/a" 'advise f dontneed'
    out=$(dev "$mode" "open $MNT/a" sum mmap msum 'mmap write' 'touch 0 64K write' munmap 'splice 0 3M')
    eq "$(field read hash "$out" 1)" "$want" "read, mode '$mode'"
    eq "$(field msum hash "$out" 1)" "$want" "mapped, mode '$mode'"
    eq "$(field read hash "$out" 2)" "$want" "splice, mode '$mode'"
  done
  if [[ ${2:-} != noload ]]; then
    out=$(dev 'lookup a' attach 'evict 0 - unmap drain' 'resident 0' 'load 0 - wait' 'resident 0' "open $MNT/a" sum)
    eq "$(field resident resident "$out" 1)" 0 "evicted"
    eq "$(field resident resident "$out" 2)" $((3 * MIB)) "loaded"
    eq "$(field read hash "$out")" "$want" "content when loaded"
  fi
}

# check_image FS COMMAND...: a file system that COMMAND makes of TREE in IMAGE, read-only by nature.
check_image() {
  local fs=$1
  shift
  { modprobe "$fs" && command -v "$1"; } >/dev/null 2>&1 || skip "no $fs"
  trap 'status=$?; umount "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
  make_tree "$TREE"
  must "$@"
  must mount -o loop "$IMAGE" "$BASE"
  mount_ppc
  check_lower "$BASE"
  must cmp "$MNT/a" "$TREE/a"
  must umount "$MNT"
  must umount "$BASE"
}
