#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: each wrong argument of each ioctl is refused with its own errno.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 1M
mkdir "$BASE/dir"
ln -s a "$BASE/link"
ln -s dir "$BASE/dirlink"
long=$(printf 'x%.0s' $(seq 300))
mount_ppc
# Neither is the root, whose id is the one before that of the first file, a regular file.
root=$(($(field lookup id "$(dev 'lookup a')") - 1))
dev "id $root" '!EISDIR load 0 4K' '!EISDIR evict 0 4K' '!EISDIR resident 0' '!EISDIR filemode native' >/dev/null
dev '!EINVAL attach flags=0x100' '!EINVAL attach lease=99' '!EINVAL attach lease=600001' '!EINVAL attach window=3000' \
  '!EINVAL attach window=2K' '!EINVAL attach window=64M' '!EINVAL attach beacon=32K' '!EINVAL attach beacon=2G' \
  '!EINVAL attach beacon=100000' '!EINVAL attach reserved=1' '!ENOTCONN detach' \
  '!EINVAL attach label=0123456789012345678901234567890123456789' 'attach' 'detach' >/dev/null
dev '!ENOENT lookup none' '!EISDIR lookup dir' '!ELOOP lookup link' '!ELOOP lookup dirlink/x' '!EINVAL lookup ../a' \
  '!EINVAL lookup dir/../a' '!EINVAL lookup /a' '!EINVAL lookup dir//a' '!EINVAL lookup .' '!EINVAL lookup a/' \
  '!ENOTDIR lookup a/b' '!EINVAL lookup a flags=1' '!EINVAL lookup a bytes=0' '!ENAMETOOLONG lookup a bytes=1' \
  "!ENAMETOOLONG lookup $long" 'lookup a' >/dev/null
dev 'id 999999' '!ESTALE name' '!ESTALE load 0 4K' '!ESTALE evict 0 4K' '!ESTALE resident 0' '!ESTALE filemode native' \
  'id 0' '!ESTALE name' 'id 0xffffffffffffffff' '!ESTALE name' >/dev/null
dev 'lookup a' '!EINVAL load 0 4K flags=2' '!EINVAL load 0 0' '!EINVAL load 0x7fffffffffffffff 4K' \
  '!EINVAL load 4K 0xffffffffffffffff' '!EINVAL load 0 4K slot=64' '!EINVAL load 0 4K reserved=1' \
  '!EBADF load 0 4K charge=5' '!EINVAL evict 0 4K flags=8' '!EINVAL evict 0xffffffffffffffff 4K' \
  '!EINVAL resident 0 2T' '!EINVAL resident 0 1M bitmap=8' '!EINVAL cancel 64 1' \
  '!EINVAL cancel 0 0xffffffffffffffff' '!EINVAL filemode bad' '!EINVAL load 0 4K pad=1' '!EINVAL load 0 4K pad2=1' '!EINVAL evict 0 4K pad=1' \
  '!EINVAL evict 0 4K reserved=1' '!EINVAL cancel 0 1 pad=1' '!EINVAL filemode native pad=1' '!EINVAL lookup a reserved=1' \
  '!EINVAL charge /tmp flags=2' '!EINVAL charge /tmp pad=1' '!EINVAL name reserved=1' \
  "!$(can_charge && echo EBADF || echo EOPNOTSUPP) charge /tmp" '!ENOENT charge /none' >/dev/null
# Unknown numbers, sizes and directions; bad pointers.
dev '!ENOTTY ioctl 11 8 3' '!ENOTTY ioctl 255 0 0' '!ENOTTY ioctl 5 8 3' '!ENOTTY ioctl 0 104 1' '!ENOTTY ioctl 2 8 1' \
  '!EFAULT ioctl 1 88 3 null' '!EFAULT ioctl 5 112 3 null' >/dev/null
# Not for every user.
chmod 666 "$DEV"
refuse EPERM setpriv --reuid 65534 --regid 65534 --clear-groups ppcdev "dev $DEV"
