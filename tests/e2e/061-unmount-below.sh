# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: the file system below a registered directory: idle it can be unmounted at once, and the
# registration ends; while it is loaded it may be busy until rm_policy, after which it is free.
# needs observer
. "$(dirname "$0")/lib.sh"
disk=$WORK/disk
mkdir -p "$disk"
truncate -s 200M "$FAST/disk.img"
must mke2fs -q -t ext4 -d "$MODEL" "$FAST/disk.img"
trap 'cleanup; umount "$disk" 2>/dev/null; rm -f "$FAST/disk.img"' EXIT
modprobe -q loop || : # built in, or loaded
mount_disk() { must mount -o loop,ro,noload "$FAST/disk.img" "$disk"; }
start_daemon
mount_disk
register "$disk" eager
runner=$(runner_pid)
cat "$disk"/*.safetensors >/dev/null
# What was loaded is closed half a second later.
unmounted() { umount "$disk" 2>/dev/null; }
within 3 unmounted || fail "busy although nothing loads: $(ls -l "/proc/$runner/fd")"
forgotten() { [[ -z $(ppcctl list) ]] && is_dead "$runner"; }
within 10 forgotten || fail "still registered: $(ppcctl list)"

mount_disk
register "$disk" eager
for file in "$disk"/*.safetensors; do head -c 4096 "$file" >/dev/null; done
if unmounted; then mount_disk; fi # not busy is fine as well
# Where it was not busy, the registration went with the first mount.
ppcctl rm_policy "$disk" >/dev/null 2>&1
begun=$(date +%s%N)
within 5 unmounted || fail "busy after rm_policy"
echo "# unmounted $((($(date +%s%N) - begun) / 1000000)) ms after rm_policy"
