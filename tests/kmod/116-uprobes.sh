#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a probe on a file of the mount hits in what runs from the mount.
# Once
. "$(dirname "$0")/lib.sh"

tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs tracefs $tracing || fail "no tracefs"
[[ -e $tracing/uprobe_events ]] || skip "a kernel without uprobes"
cp /bin/true "$BASE/app"
mount_ppc
# Where the entry point is in the file.
entry=$(python3 - "$BASE/app" <<'PY'
import struct, sys
data = open(sys.argv[1], "rb").read()
entry, headers = struct.unpack_from("<QQ", data, 24)
size, count = struct.unpack_from("<HH", data, 54)
for i in range(count):
    kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, headers + i * size)
    if kind == 1 and address <= entry < address + length:
        print(hex(entry - address + offset))
PY
)
[[ -n $entry ]] || fail "no entry point in /bin/true"
trap 'status=$?; echo 0 >$tracing/events/ppctest/enable; echo >$tracing/uprobe_events; (exit $status); clean_up' EXIT
hits() { grep -c 'ppctest/app\|app: (' $tracing/trace; }
echo "p:ppctest/app $MNT/app:$entry" >$tracing/uprobe_events || fail "no probe on a file of the mount"
echo >$tracing/trace
echo 1 >$tracing/events/ppctest/enable || fail "the probe cannot be switched on"
must "$MNT/app"
must "$MNT/app"
eq "$(hits)" 2 "hits in what runs from the mount"
# It is the one inode: the same by the lower path.
must "$BASE/app"
eq "$(hits)" 3 "hits by the lower path"
