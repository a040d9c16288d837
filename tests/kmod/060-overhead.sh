#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: what the module adds to each operation, in instructions, is within its limits.
# Only --icount
# Once unless --all
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/overhead.sh"

# limit MODE OP MOST
limit() { le "$(count "$1" "$2")" "$3" "extra instructions of $2, $1"; }
# Without a consumer the call is handed on.
limit native read1m 50
limit native read4k 50
limit native copy1m 50
# A consumer that asks for nothing.
limit attached read1m 800
limit attached read4k 250
limit attached copy1m 50
# One event, from the miss to the ring: who, when, whether to wake; finding out is in hit4k.
limit attached event 300
# It manages read-ahead and wants positions: each MiB is a quarter of a PROGRESS event.
limit managed read1m 900
limit managed read4k 350
# Where faults map whole folios, each fault-around looks up that of the beacon.
if kernel_before 6.18; then limit managed copy1m 1500; else limit managed copy1m 1700; fi
# a second dentry and inode; of SELinux the label of the second one, as well
stat=400 cold_stat=4500
if [[ -e /sys/fs/selinux/enforce ]]; then stat=600 cold_stat=10000; fi
for mode in native attached managed; do
  limit $mode stat $stat
  # a second struct file, ours around it, and both undone
  limit $mode open_close 4000
  limit $mode cold_stat $cold_stat
done
exit 0
