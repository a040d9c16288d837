#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: loads are charged to a cgroup of the first version's memory hierarchy.
# Once
# Only --cgroup1
. "$(dirname "$0")/lib.sh"

v1=$PPC_TEST_DIR/cgroup1
mkdir -p "$v1"
echo -memory >/sys/fs/cgroup/cgroup.subtree_control || fail "cannot free the memory controller"
if ! mount -t cgroup -o memory cgroup1 "$v1"; then
  # 6.11 made it a choice, and Debian's 6.12 is without.
  kernel_before 6.11 && fail "the first version's memory controller cannot be mounted"
  echo +memory >/sys/fs/cgroup/cgroup.subtree_control
  skip "a kernel without the memory controller of cgroup v1"
fi
trap 'umount "$v1"; clean_up' EXIT
make_file a 8M
mount_ppc
mkdir "$v1/payer" "$v1/reader"
cache_of() { awk '$1 == "cache" {print $2}' "$v1/$1/memory.stat"; }
caps=$(field info caps "$(dev info)")
if ((!(caps & 1))); then
  dev "!EOPNOTSUPP charge $v1/payer" >/dev/null
else
  drop_caches
  dev 'lookup a' "charge $v1/payer" 'load 0 4M wait charged' >/dev/null
  eq "$(cache_of payer)" $((4 * MIB)) "page cache of the chosen cgroup"
fi
# What a process inside loads is charged there on every kernel, demand windows too.
drop_caches
dev 'lookup a' "sh echo \$PPID >$v1/reader/tasks" 'load 0 4M wait' "sh echo \$PPID >$v1/tasks" >/dev/null
ge "$(cache_of reader)" $((4 * MIB)) "page cache of the loading process's cgroup"
drop_caches
echo 0 >"$v1/reader/memory.force_empty"
dev 'attach managed' "sh echo \$\$ >$v1/reader/tasks; exec ppcdev 'open $MNT/a' mmap 'touch 0 1'" >/dev/null
ge "$(cache_of reader)" $MIB "demand window charged to the reader"
drop_caches
rmdir "$v1/payer" "$v1/reader"
exit 0
