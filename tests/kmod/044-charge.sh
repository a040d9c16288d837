#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: loaded pages are charged to the cgroup of the handle, not to the loader's.
# Once
. "$(dirname "$0")/lib.sh"

[[ -e /sys/fs/cgroup/cgroup.controllers ]] || skip "no cgroup2"
make_file a 8M
mount_ppc
group=/sys/fs/cgroup/ppc-charge
mkdir -p $group $group-loader
file_of() { awk '$1 == "file" {print $2}' "$1/memory.stat"; }
# A demand window is charged to the task that faults or reads, not to the consumer.
for access in "mmap 'touch 0 1'" "'read 0 4K 4K'"; do
  drop_caches
  mkdir -p $group-reader
  dev 'attach managed' "sh echo \$\$ >$group-reader/cgroup.procs; exec ppcdev 'open $MNT/a' $access" >/dev/null
  # these counters are exact to some pages a CPU
  ge "$(file_of $group-reader)" $((MIB * 3 / 4)) "demand window charged to the reader, $access"
  rmdir $group-reader
done
if ! can_charge; then
  # The task that loads pays: a loader inside the cgroup.
  drop_caches
  dev "sh echo \$PPID >$group/cgroup.procs" 'lookup a' "!EOPNOTSUPP charge $group-loader" '!EBADF load 0 4K charge=1' \
    'load 0 4M wait' >/dev/null
  ge "$(file_of $group)" $((3 * MIB)) "page cache of the loader's cgroup"
  eq "$(file_of $group-loader)" 0 "page cache of another cgroup"
  rmdir $group $group-loader
  exit 0
fi
drop_caches
out=$(dev "sh echo \$PPID >$group-loader/cgroup.procs" 'lookup a' "charge $group" 'load 0 4M wait charged' \
  'load 4M 1M wait')
eq "$(file_of $group)" $((4 * MIB)) "page cache of the chosen cgroup"
# its own program may be read again, too
ge "$(file_of $group-loader)" $MIB "page cache of the loader's cgroup"
le "$(file_of $group-loader)" $((2 * MIB)) "page cache of the loader's cgroup"
# A limit too small for it: the numbers stay true, and the loader is not killed.
echo $((2 * MIB)) >$group/memory.max
drop_caches
out=$(dev 'lookup a' "charge $group" 'load 0 - wait charged' 'resident 0')
le "$(file_of $group)" $((2 * MIB)) "page cache under the limit"
eq $(($(field load loaded "$out") + $(field load failed "$out"))) "$(field load submitted "$out")" "loaded and failed"
le "$(field resident resident "$out")" $((2 * MIB)) "resident under the limit"
echo max >$group/memory.max
# A sub-cgroup without a controller of its own charges the one above.
mkdir -p $group/sub
drop_caches
dev 'lookup a' "charge $group/sub" 'load 0 4M wait charged' >/dev/null
eq "$(file_of $group)" $((4 * MIB)) "charged to the ancestor"
rmdir $group/sub
# A handle given back: not for new loads; its number may be given again.
drop_caches
dev 'lookup a' "charge $group" 'charge release' '!EBADF load 0 4K charged' '!EBADF charge release' \
  "charge $group" 'load 0 4M wait charged' '!EBADF charge release 77' >/dev/null
eq "$(file_of $group)" $((4 * MIB)) "charged by the second handle"
# A thousand services one after the other: handles do not run out.
commands=()
for _ in $(seq 1100); do commands+=("charge $group" 'charge release'); done
dev "${commands[@]}" >/dev/null
# Many handles, a handle of another descriptor, a removed cgroup.
dev 'lookup a' "charge $group" "dev $DEV" 'lookup a' '!EBADF load 0 4K charge=1' >/dev/null
commands=()
for _ in $(seq 1024); do commands+=("charge $group"); done
dev "${commands[@]}" "!ENOSPC charge $group" >/dev/null
drop_caches
dev 'lookup a' "charge $group" "sh rmdir $group" '!EBADF load 0 4M wait charged' 'load 0 4M wait' >"$PPC_TEST_DIR/out"
eq "$(field load loaded "$(cat "$PPC_TEST_DIR/out")")" $((4 * MIB)) "loaded for the caller's own cgroup"
# One that is removed between being opened and being named.
mkdir $group-gone
dev "!ENOENT charge $group-gone removed" >/dev/null
rmdir $group-loader
exit 0
