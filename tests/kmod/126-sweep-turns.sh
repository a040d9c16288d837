#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: many inodes are swept in short turns, and what is deleted below is let go of all the same.
# Once
. "$(dirname "$0")/lib.sh"

files=20000
trace=/sys/kernel/tracing
mountpoint -q $trace || mount -t tracefs none $trace || fail "no tracefs"
trap 'status=$?; echo 0 >$trace/events/workqueue/enable; umount "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
must mount -t tmpfs none "$BASE"
(cd "$BASE" && seq -f 'name-%05g' $files | xargs touch)
mount_ppc
find "$MNT" -type f -size -1 | wc -l | grep -qx $files || fail "not all files are there"
inodes() { df --output=iused "$BASE" | tail -1 | tr -d ' '; }
ge "$(inodes)" $files "inodes"
echo >$trace/trace
echo 1 >$trace/events/workqueue/workqueue_execute_start/enable
# beside a look now and then, or the mount would rest
started=$SECONDS
for ((i = 0; i < 8; i++)); do
  stat "$MNT/name-00001" >/dev/null
  sleep 1
done
echo 0 >$trace/events/workqueue/enable
turns=$(grep -c 'function ppc_sweep_work' $trace/trace)
# a sweep every two seconds, were each done at once
ge "$turns" $((2 * (SECONDS - started))) "turns of the sweep in $((SECONDS - started)) s"
find "$BASE" -type f -delete
swept() { (($(inodes) < 100)); }
within "$(seconds 60)" swept || fail "$(inodes) inodes are held"
must umount "$MNT"
must umount "$BASE"
