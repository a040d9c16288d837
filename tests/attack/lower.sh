#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a disk below that fails, fails now and then, is slow, and is taken away: right bytes or the
# lower file system's errno, by read, by mapping and by LOAD; unmounting works all the time.
# usage: lower.sh [rounds=N]; the disk is /dev/disk1, unformatted
. "$(dirname "$0")/../kmod/lib.sh"

rounds=6
for word; do [[ $word == rounds=* ]] && rounds=${word#*=}; done
export DM_DISABLE_UDEV=1
disk=$(readlink -f /dev/disk1)
[[ -b $disk ]] || skip "there is no /dev/disk1"
command -v dmsetup >/dev/null || skip "there is no dmsetup"
modprobe -a dm-mod dm-flakey dm-delay sd_mod 2>/dev/null
sectors=$(blockdev --getsz "$disk")
lower=$BASE

# Whatever happens, nothing may stay.
tidy() {
  local status=$?
  [[ -e /proc/self/fd/9 ]] && exec 9>&-
  table linear 2>/dev/null
  while mountpoint -q "$MNT"; do umount "$MNT" 2>/dev/null || umount -l "$MNT" || break; done
  while mountpoint -q "$lower"; do umount "$lower" 2>/dev/null || umount -l "$lower" || break; done
  dmsetup remove attack 2>/dev/null
  (exit "$status")
  clean_up
}
trap tidy EXIT

# table NAME: what the disk below does from now on.
table() {
  case $1 in
    linear) set -- "0 $sectors linear $disk 0" ;;
    error) set -- "0 $sectors error" ;;
    flakey) set -- "0 $sectors flakey $disk 0 1 1" ;;
    delay) set -- "0 $sectors delay $disk 0 $2" ;;
  esac
  dmsetup suspend --noflush --nolockfs attack && dmsetup load attack --table "$1" && dmsetup resume attack
}
# numbers NAME TEXT: the count in the line of `ppc-attack verify`.
number() { field verify "$1" "$2"; }
verify() { ppc-attack verify "$@" || { : >"$PPC_TEST_DIR/dev-failed" && fail "wrong bytes: $*"; }; }
cold() {
  sync -f "$lower"
  echo 1 >/proc/sys/vm/drop_caches
}

one_file_system() {
  local fs=$1 round out path total_errors=0 total_right=0
  dmsetup create attack --table "0 $sectors linear $disk 0" || fail "no device mapper"
  local mapped
  mapped=/dev/dm-$(dmsetup info -c --noheadings -o minor attack)
  local force=-F
  [[ $fs == xfs ]] && force=-f
  must mkfs."$fs" -q $force "$mapped"
  mkdir -p "$lower"
  must mount "$mapped" "$lower"
  for i in 0 1 2; do must ppc-attack make path="$lower/a$i" bytes=6M; done
  # A journal that cannot be written would shut the file system down.
  must mount -o remount,ro "$lower"
  mount_ppc
  # Names and extents must be known, or the file system itself would fail.
  verify path="$MNT/a0" && verify path="$MNT/a1" && verify path="$MNT/a2"
  out=$(dev 'lookup a0')
  local id
  id=$(field lookup id "$out")

  # --- it fails: each call gives EIO or SIGBUS as the lower one does
  for ((round = 0; round < rounds; round++)); do
    exec 9<"$MNT/a0" # keeps the names in the cache
    cold
    table error
    for path in "$lower/a0" "$MNT/a0"; do
      # EIO, and for the mapping SIGBUS
      ppcdev "open $path" '!EIO read 0 64K 64K' >/dev/null || fail "$fs: $path: no EIO"
      # The file is in no cache, so nothing of it can be right.
      out=$(verify path="$path")
      eq "$(number right "$out")" 0 "$fs: pieces read from a dead disk ($path)"
      # 96 pieces by read, 96 by mapping.
      eq "$(number errors "$out")" 192 "$fs: errors ($path)"
      total_errors=$((total_errors + $(number errors "$out")))
    done
    out=$(dev 'attach managed beacon trace' "id $id" 'load 0 4M wait' 'load 0 4M' 'resident 0' 'evict 0 - unmap')
    eq "$(field load loaded "$out")" 0 "$fs: loaded from a dead disk"
    ge "$(field load failed "$out")" 1048576 "$fs: failed bytes"
    eq "$(field resident resident "$out")" 0 "$fs: resident"
    # With a policy attached the same.
    out=$(dev 'attach managed beacon' "sh ppc-attack verify path=$MNT/a0")
    eq "$(field verify right "$out")" 0 "$fs: pieces read, attached"
    table linear
    exec 9>&-
    verify path="$MNT/a0" >/dev/null
    out=$(verify path="$MNT/a0")
    eq "$(number errors "$out")" 0 "$fs: errors when the disk is well again"
    total_right=$((total_right + $(number right "$out")))
  done
  echo "$fs error rounds=$rounds errors=$total_errors right=$total_right"

  # --- it fails every other second, under readers, a loader and an evictor
  table flakey
  ppcdev "dev $DEV" 'attach managed beacon' "id $id" \
    "sh for i in \$(seq 40); do ppcdev 'dev $DEV' 'id $id' 'load 0 - wait' 'evict 0 - unmap' >/dev/null 2>&1; done" >/dev/null 2>&1 &
  for i in 0 1 2; do
    verify path="$MNT/a$i" rounds=12 pause_ms=300 advise >"$PPC_TEST_DIR/flakey$i" 2>&1 &
  done
  wait
  table linear
  out=$(cat "$PPC_TEST_DIR"/flakey?)
  echo "$fs flakey: $(tr '\n' ' ' <<<"$out")"
  lacks "$out" FAIL "$fs: bytes while the disk is flakey"
  [[ $(grep -c '^verify' <<<"$out") == 3 ]] || fail "$fs: a reader died"
  out=$(verify path="$MNT/a1")
  eq "$(number errors "$out")" 0 "$fs: errors after flakey"

  # --- it is slow: killing works, cancelling works, unmounting does not wait
  for ((round = 0; round < rounds; round++)); do
    cold
    table delay 150
    ppcdev "dev $DEV" "id $id" 'load 0 - wait' >/dev/null 2>&1 & local loader=$!
    ppc-attack verify path="$MNT/a1" piece=4K >/dev/null 2>&1 & local reader=$!
    sleep 0.$((RANDOM % 9 + 1))
    case $((round % 3)) in
      0) kill -9 $loader $reader ;;
      1) kill -9 $reader && must umount -l "$MNT" ;;
      2) kill $loader ;;
    esac
    wait $reader
    wait $loader
    table linear
    mountpoint -q "$MNT" || mount_ppc
    out=$(verify path="$MNT/a1")
    eq "$(number errors "$out")" 0 "$fs: errors after slowness"
    id=$(field lookup id "$(dev 'lookup a0')")
  done
  echo "$fs delay rounds=$rounds"
  must umount "$MNT"
  must umount "$lower"
  must dmsetup remove attack
}

# A disk that goes away for good.
removal() {
  local node opts out
  rmmod scsi_debug 2>/dev/null
  modprobe scsi_debug dev_size_mb=32 2>/dev/null || skip "no scsi_debug, so no disk was removed; the rest passed"
  find_disk() { node=$(compgen -G "/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*"); }
  within 10 find_disk || fail "no disk by scsi_debug"
  opts=${node%/block/*}
  node=/dev/${node##*/}
  must mkfs.ext4 -q -O ^has_journal "$node"
  must mount "$node" "$lower"
  must ppc-attack make path="$lower/a0" bytes=8M
  must ppc-attack make path="$lower/a1" bytes=8M
  mount_ppc
  verify path="$MNT/a0" >/dev/null
  out=$(dev 'lookup a1')
  cold
  ppc-attack verify path="$MNT/a1" rounds=200 pause_ms=10 advise >"$PPC_TEST_DIR/gone" 2>&1 & local reader=$!
  ppcdev "dev $DEV" 'attach managed beacon trace' "id $(field lookup id "$out")" 'load 0 - wait' 'sleep 3000' \
    'load 0 - wait' 'evict 0 - unmap' >/dev/null 2>&1 & local loader=$!
  sleep 1
  echo 1 >"$opts/delete"
  wait $reader
  wait $loader
  out=$(cat "$PPC_TEST_DIR/gone")
  echo "removal: $out"
  lacks "$out" FAIL "bytes of a removed disk"
  ge "$(number errors "$out")" 100 "errors after the removal"
  must umount "$MNT"
  must umount "$lower"
  rmmod scsi_debug
}

one_file_system ext4
one_file_system xfs
removal
exit 0
