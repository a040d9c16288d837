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
within 20 unmounted || fail "busy although nothing loads: $(find "/proc/$runner/fd" -lname "$disk/*" -printf '%l ')"
forgotten_too() { [[ -z $(ppcctl list) ]]; }
forgotten() { forgotten_too && is_dead "$runner"; }
within 10 forgotten || fail "still registered: $(ppcctl list)"

# While it is loaded it is busy, unless the load has ended before umount looks.
busy=0
for try in {1..20}; do
  mount_disk
  register "$disk" eager
  drop_caches
  for file in "$disk"/*.safetensors; do head -c 4096 "$file" >/dev/null; done
  if unmounted; then
    within 20 forgotten_too || fail "still registered: $(ppcctl list)"
    continue
  fi
  busy=1
  must ppcctl rm_policy "$disk"
  within 20 unmounted || fail "busy after rm_policy"
  break
done
echo "# counted: busy=$busy tries=$try"
eq "$busy" 1 "times that it was busy"
