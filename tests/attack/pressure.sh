#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: readers in a memory cgroup that is too small, on a machine that runs out of memory again
# and again, with a consumer that loads and evicts: only right bytes.
. "$(dirname "$0")/../kmod/lib.sh"

for i in 0 1; do must ppc-attack make path="$BASE/a$i" bytes=64M; done
mount_ppc
group=/sys/fs/cgroup/pressure
mkdir -p $group
echo 32M >$group/memory.max
# Pages cached before are charged to the group that made the files.
drop_caches
ppc-attack pressure mnt="$MNT" group=$group "$@" || fail "pressure did harm"
# No task holds a page any more.
for i in 0 1; do
  out=$(dev "lookup a$i" 'evict 0 - unmap drain')
  eq "$(field evict dropped "$out")" "$(field evict asked "$out")" "dropped of a$i"
done
[[ $(awk '$1 == "max" {print $2}' $group/memory.events) -gt 0 ]] || fail "the cgroup's limit was never met"
must umount "$MNT"
rmdir $group
