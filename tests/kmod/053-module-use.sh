#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: the module cannot go while a mount or a mapping is there; many mounts come and go.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 1M
mount_ppc
refuse "in use" rmmod ppc
must umount "$MNT"
for i in $(seq 20); do
  mount_ppc
  ppcdev "dev $DEV" attach "open $MNT/a" 'read 0 64K' mmap 'touch 0 1M' >/dev/null || fail "round $i"
  must umount "$MNT"
done
# Eight at a time.
for i in $(seq 8); do
  mkdir -p "$PPC_TEST_DIR/m$i" && must mount -t ppc "$BASE" "$PPC_TEST_DIR/m$i"
done
eq "$(grep -c '^ppc:' /proc/mounts)" 8 mounts
eq "$(find /sys/fs/ppc -mindepth 1 -maxdepth 1 | wc -l)" 8 "in sysfs"
for i in $(seq 8); do must umount "$PPC_TEST_DIR/m$i"; done
exit 0
