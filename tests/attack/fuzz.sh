#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a million calls on the device, shaped and wild, while files are used and the consumer
# page is written over: only documented answers, only right bytes.
. "$(dirname "$0")/../kmod/lib.sh"

mkdir -p "$BASE/dir"
ln -s a0 "$BASE/link"
for i in 0 1 2 3 4 5 6 7; do
  must ppc-attack make path="$BASE/a$i" bytes=2M
done
must ppc-attack make path="$BASE/dir/a20" bytes=2M seed=20
mount_ppc queue=512
ppc-attack fuzz mnt="$MNT" "$@" || fail "the fuzzer found something"
for file in "$BASE"/a?; do
  cmp "$file" "$MNT/${file##*/}" || fail "content after it"
done
must umount "$MNT"
