#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: pages land on the node of the loading thread's memory policy, and spill, never fail.
# Once
. "$(dirname "$0")/lib.sh"

[[ -d /sys/devices/system/node/node1 ]] || skip "one NUMA node"
make_file a 16M
mount_ppc
for node in 0 1; do
  drop_caches
  out=$(dev 'lookup a' "bind $node" 'load 0 - wait' 'resident 0')
  eq "$(field resident "node$node" "$out")" $((16 * MIB)) "on node $node"
done
# By the CPU, with the default policy.
for node in 0 1; do
  cpu=$(sed 's/[-,].*//' /sys/devices/system/node/node$node/cpulist)
  drop_caches
  out=$(taskset -c "$cpu" ppcdev "dev $DEV" 'lookup a' 'load 0 - wait' 'resident 0') || fail taskset
  ge "$(field resident "node$node" "$out")" $((15 * MIB)) "on the node of CPU $cpu"
done
# More than the preferred node has: the rest lands on the other one.
kib=$(awk '$3 == "MemTotal:" {print $4}' /sys/devices/system/node/node1/meminfo)
truncate -s $((kib + 32768))K "$BASE/sparse"
out=$(dev 'lookup sparse' 'prefer 1' 'load 0 - wait' 'resident 0' 'evict 0 - drain')
eq "$(field load failed "$out") $(field load stop "$out")" "0 1" "a full node, to the end of the file"
ge "$(field resident node0 "$out")" $((32 * MIB)) "on the other node"
ge "$(field resident node1 "$out")" $((kib * 512)) "on the preferred node"
