# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced after lib.sh: a disk of 64 MiB in memory, ext4 (or FAULTY_FS=xfs) on it mounted on BASE, that can be
# told to fail or to hang, or to fail in a few sectors.
# shellcheck disable=SC2154,SC2034  # of lib.sh, for the tests

# DISK works|fails|hangs: from the next request on; what hangs goes on with the next word
# (held back by dm-delay: a suspended device fails read-ahead at once).
DISK=$PPC_TEST_DIR/disk

# disk_on DEVICE: the file system, mounted.
disk_on() {
  if [[ ${FAULTY_FS:-ext4} == xfs ]]; then
    # so small only for who says that it is for a test
    TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1 must mkfs.xfs -q -f "$1"
  else
    must mkfs.ext4 -q -b 4096 -N 64 -m 0 -O ^has_journal,^resize_inode "$1"
  fi
  must mount "$1" "$BASE"
}

make_disk() {
  local image=/dev/shm/ppc-faulty
  export DM_DISABLE_UDEV=1
  if ! { modprobe -a loop dm_mod && command -v dmsetup; } >/dev/null 2>&1; then skip "no device mapper"; fi
  truncate -s 64M $image
  LOOP=$(losetup --show -f $image) || fail "no loop device"
  trap 'status=$?; release_disk 2>/dev/null; (exit $status); clean_up' EXIT
  must dmsetup create ppc-faulty --table "0 131072 linear $LOOP 0"
  cat >"$DISK" <<SCRIPT
#!/bin/sh
set -e
dmsetup suspend --noflush --nolockfs ppc-faulty
case \$1 in
  works) dmsetup load ppc-faulty --table "0 131072 linear $LOOP 0" ;;
  fails) dmsetup load ppc-faulty --table "0 131072 error" ;;
  hangs) dmsetup load ppc-faulty --table "0 131072 delay $LOOP 0 600000" ;;
esac
dmsetup resume ppc-faulty
SCRIPT
  chmod +x "$DISK"
  disk_on /dev/mapper/ppc-faulty
}
release_disk() {
  "$DISK" works
  umount "$MNT"
  umount "$BASE"
  dmsetup remove ppc-faulty
  losetup -d "$LOOP"
  rm -f /dev/shm/ppc-faulty
}

# Another one, filled with the file a; of it the pages at BAD, 8 KiB, have bad sectors after
# `bad_sectors 2` and none after `bad_sectors 0`.
make_bad_disk() {
  local disk at
  { modprobe sd_mod && modprobe scsi_debug dev_size_mb=64; } 2>/dev/null || skip "no scsi_debug"
  find_disk() { disk=$(compgen -G "/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*"); }
  trap 'status=$?; release_bad_disk 2>/dev/null; (exit $status); clean_up' EXIT
  within 10 find_disk || skip "no disk by scsi_debug"
  disk_on "/dev/${disk##*/}"
  head -c 62M /dev/urandom >"$BASE/a" 2>/dev/null # or as much as there is room for
  sync
  # It fails sectors 4660 to 4669: pages 582 and 583 of the disk.
  at=$(filefrag -v "$BASE/a" | sed 's/[.:]/ /g' | awk '$1 ~ /^[0-9]+$/ && 582 >= $4 && 582 <= $5 {print $2 + 582 - $4}')
  [[ -n $at ]] || skip "the file does not cover the bad sectors"
  BAD=$((at * 4096))
}
bad_sectors() { echo "$1" >/sys/bus/pseudo/drivers/scsi_debug/opts; }
release_bad_disk() {
  bad_sectors 0
  umount "$MNT" "$BASE"
  rmmod scsi_debug
}
