#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a ppc mount over tmpfs.
# Once
# shellcheck source=tests/kmod/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/kmod/lower.sh
. "$(dirname "$0")/lower.sh"

must mount -t tmpfs tmpfs "$BASE"
trap 'status=$?; umount "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
make_tree "$BASE"
mount_ppc
check_lower "$BASE" noload
out=$(dev "lookup a" attach "evict 0 - unmap drain")
eq "$(field evict dropped "$out")" 0 "evicted of what has no other place"
must cmp "$MNT/a" "$BASE/a"
# What is in memory beside our inode is not for telling; nor may anybody take our file for a memfd.
eq "$(ppc-answers seals "$BASE/a")" "seals ok 1" "seals of the lower file"
eq "$(ppc-answers seals "$MNT/a")" "seals EINVAL 0" "seals"
must umount "$MNT"
must umount "$BASE"
exit 0
