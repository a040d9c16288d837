#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: each allocation of each operation fails once: success or ENOMEM, right bytes, nothing
# leaked.
. "$(dirname "$0")/../kmod/lib.sh"

[[ -e /proc/self/fail-nth ]] || skip "this kernel has no fault injection"
mkdir -p "$MNT" "$BASE/many"
must ppc-attack make path="$BASE/a0" bytes=1M
setfattr -n user.test -v value "$BASE/a0" 2>/dev/null
ln -s a0 "$BASE/link"
for i in $(seq 400); do : >"$BASE/many/f$i" && : >"$BASE/many/g$i" && : >"$BASE/many/h$i"; done
# What the kernel says of its own objects when they cannot be made.
echo "ppc-vm: expect-begin kobject_add_internal failed for .*error: -12|event_define_fields" >/dev/kmsg
ppc-attack failnth base="$BASE" mnt="$MNT" module="$(modinfo -n ppc)" "$@"
status=$?
echo "ppc-vm: expect-end" >/dev/kmsg
((status == 0)) || fail "an allocation failed badly"
modprobe ppc
