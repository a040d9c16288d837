# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by every test of this folder.  A test gets a directory on a disk in $PPC_TEST_DIR,
# exits 0 passed, 1 failed, 77 skipped, and leaves nothing behind.
# shellcheck disable=SC2034  # variables for the tests
set -uo pipefail

BASE=$PPC_TEST_DIR/base
MNT=${PPC_TEST_MNT:-/mnt/ppc-test}
DEV='' SYS=''
PAGE=$(getconf PAGESIZE)
MIB=1048576

# shellcheck source=tests/lib/check.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/check.sh"
# refuse TEXT COMMAND...: it fails and says TEXT.
refuse() {
  local out want=$1
  shift
  out=$(LC_ALL=C "$@" 2>&1) && fail "'$*' succeeded"
  has "$out" "$want" "message of '$*'"
}

# dev COMMAND...: runs ppcdev on this mount's device; fails the test when it fails, also out of a
# $(...), which fail() alone would only end.
dev() { ppcdev "dev $DEV" "$@" || { : >"$PPC_TEST_DIR/dev-failed" && fail "ppcdev failed"; }; }
# beside ATTACH: such a reader in the background, attached when this returns; "" none.  alone ends it.
beside() {
  [[ -n $1 ]] || return 0
  ppcdev "dev $DEV" "$1 lease=600000" 'sleep 600000' >/dev/null &
  READER=$!
  within 20 grep -q attached "$SYS/state" || fail "no reader attached"
}
alone() {
  [[ -n $1 ]] || return 0
  grep -q attached "$SYS/state" || fail "the reader did not last"
  kill "$READER" && wait "$READER" 2>/dev/null
  within 20 grep -q native "$SYS/state" || fail "the reader stays"
}
# field VERB NAME TEXT [N]: NAME=VALUE of the Nth (first) line of TEXT that starts with VERB.
field() {
  local line nth=${4:-1}
  while IFS= read -r line; do
    if [[ $line != "$1 "* ]] || ((--nth != 0)); then continue; fi
    [[ " $line " =~ \ $2=([^\ ]*)\  ]] && printf '%s\n' "${BASH_REMATCH[1]}"
    return
  done <<<"$3"
}
# Whether LOAD can charge another cgroup than the loader's own (5.18 and newer).
can_charge() { (($(field info caps "$(dev info)") & 1)); }
# kernel_before RELEASE
kernel_before() { [[ $(printf '%s\n' "$1" "$(uname -r)" | sort -V | head -n 1) != "$1" ]]; }
stat_of() { cat "$SYS/$1"; }

# find_device MNT: sets DEV and SYS by the device number of the mount.
find_device() {
  local number dir
  number=$(mountpoint -d "$1") || fail "$1 is no mount point"
  for dir in /sys/fs/ppc/*/; do
    if [[ $(cat "$dir/dev") == "$number" ]]; then
      SYS=${dir%/}
      DEV=/dev/ppc${SYS##*/}
      return
    fi
  done
  fail "no device for mount $1 ($number)"
}

# mount_ppc [OPTIONS]: BASE on MNT.
mount_ppc() {
  mkdir -p "$BASE" "$MNT"
  must mount -t ppc ${1:+-o "$1"} "$BASE" "$MNT"
  find_device "$MNT"
}

# make_file NAME SIZE: pseudo-random bytes below BASE, on disk.
make_file() {
  mkdir -p "$(dirname "$BASE/$1")"
  head -c "$2" /dev/urandom >"$BASE/$1" || fail "no space for $1"
  sync "$BASE/$1"
}
# The files below BASE leave the page cache.  Not all of the machine's does: programs of a test
# machine come over a slow root file system.
drop_caches() {
  local file commands=()
  sync -f "$BASE"
  for file in "$BASE"/*; do
    if [[ -f $file && -s $file ]]; then commands+=("open $file" 'advise f dontneed'); fi
  done
  must ppcdev "${commands[@]}"
}

# disk_field N: field of the block device below BASE (1 reads, 3 sectors read).
disk_stat() {
  local number
  number=$(stat -c %d "$BASE")
  awk -v f="$1" '{print $f}' "/sys/dev/block/$((number >> 8)):$((number & 255))/stat"
}
# seconds N: a promise of N seconds is one of stock kernels; the debug kernel is many times slower.
seconds() { if [[ $(uname -r) == *-ppcdebug ]]; then echo $((6 * $1)); else echo "$1"; fi; }

clean_up() {
  local status=$? pid
  for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done
  wait 2>/dev/null
  if [[ $status == 0 && -e $PPC_TEST_DIR/dev-failed ]]; then
    echo "FAIL: ppcdev failed where nobody looked"
    status=1
  fi
  while mountpoint -q "$MNT"; do umount "$MNT" || umount -l "$MNT" || break; done
  rm -rf "$PPC_TEST_DIR"
  rmdir "$MNT" 2>/dev/null
  exit "$status"
}
trap clean_up EXIT
mkdir -p "$BASE"
