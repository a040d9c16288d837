# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced after lib.sh: a disk of 64 MiB in memory, ext4 on it mounted on BASE, that can be told to
# fail or to hang.

export DM_DISABLE_UDEV=1
if ! { modprobe -a loop dm_mod && command -v dmsetup; } >/dev/null 2>&1; then skip "no device mapper"; fi
# DISK works|fails|hangs: from the next request on; what hangs goes on with the next word
# (held back by dm-delay: a suspended device fails read-ahead at once).
DISK=$PPC_TEST_DIR/disk

make_disk() {
  local image=/dev/shm/ppc-faulty
  truncate -s 64M $image
  LOOP=$(losetup --show -f $image) || fail "no loop device"
  # shellcheck disable=SC2154
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
  must mkfs.ext4 -q -b 4096 -N 64 -m 0 -O ^has_journal,^resize_inode /dev/mapper/ppc-faulty
  must mount /dev/mapper/ppc-faulty "$BASE"
}
release_disk() {
  "$DISK" works
  umount "$MNT"
  umount "$BASE"
  dmsetup remove ppc-faulty
  losetup -d "$LOOP"
  rm -f /dev/shm/ppc-faulty
}
