#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: options are shown as given, escapes included; remount changes them, never to rw.
# Once
. "$(dirname "$0")/lib.sh"

mount_ppc
shown=$(grep " $MNT " /proc/mounts)
has "${shown/,seclabel,/,}" "ro,relatime,odirect=auto,queue=65536,window=1048576,beacon=4194304"
refuse "write-protected" mount -o remount,rw "$MNT"
has "$(dmesg | tail -n 5)" "this file system is read-only; write below $BASE" "kernel log after remount,rw"
refuse "Read-only file system" touch "$MNT/x"
must mount -o remount,ro,window=2M,beacon=8M,odirect=deny "$MNT"
has "$(grep " $MNT " /proc/mounts)" "odirect=deny,queue=65536,window=2097152,beacon=8388608"
line=$(dev info attach info)
eq "$(field info window "$line" 1) $(field info beacon "$line" 1)" "1048576 4194304" "in force until a reader attaches"
eq "$(field info window "$line" 2) $(field info beacon "$line" 2)" "2097152 8388608" "of the next reader"
must umount "$MNT"

mount_ppc odirect=pass,queue=128,window=64K,beacon=64K
has "$(grep " $MNT " /proc/mounts)" "odirect=pass,queue=128,window=65536,beacon=65536"
line=$(dev info)
eq "$(field info window "$line")" 65536 window
eq "$(field info beacon "$line")" 65536 beacon
eq "$(field info version "$line")" 1 version
eq "$(field info dev "$line")" "$(mountpoint -d "$MNT")" "st_dev in info"
has "$(cat /proc/self/mountstats)" "events_dropped:" mountstats
for name in dev policy state events_queued events_dropped events_coalesced misses_read misses_fault \
  wakeups lease_expiries loaded_bytes evicted_bytes window_bytes_loaded odirect_opens open_files; do
  [[ -r $SYS/$name ]] || fail "no $SYS/$name"
  eq "$(wc -l <"$SYS/$name")" 1 "lines of $name"
done
eq "$(stat -c %a "$DEV")" 600 "mode of the device"
must umount "$MNT"
[[ ! -e $DEV && ! -e $SYS ]] || fail "device or sysfs left after unmount"

# A base with blanks, a tab and a backslash; found by a relative path.
odd="$PPC_TEST_DIR/a b	c\\d"
mkdir -p "$odd"
(cd "$PPC_TEST_DIR" && mount -t ppc "./a b	c\\d" "$MNT") || fail "odd base"
shown=$(grep '^ppc:' /proc/mounts)
has "$shown" 'a\040b\011c\134d' "escaped source"
must umount "$MNT"

# What the lower mount forbids stays forbidden.
mkdir -p "$PPC_TEST_DIR/strict"
must mount --bind "$BASE" "$PPC_TEST_DIR/strict"
must mount -o remount,bind,nosuid,nodev,noexec "$PPC_TEST_DIR/strict"
cp /bin/true "$BASE/true" && chmod 4755 "$BASE/true"
mknod "$BASE/null" c 1 3
must mount -t ppc "$PPC_TEST_DIR/strict" "$MNT"
refuse "Permission denied" "$MNT/true"
refuse "Permission denied" cat "$MNT/null"
must umount "$MNT" && must umount "$PPC_TEST_DIR/strict"
must mount -t ppc "$BASE" "$MNT"
must "$MNT/true"
must cat "$MNT/null"
must umount "$MNT"

# Set-id bits and file capabilities of a nosuid lower mount have no effect.
must mount --bind "$BASE" "$PPC_TEST_DIR/strict"
must mount -o remount,bind,nosuid "$PPC_TEST_DIR/strict"
cp /usr/bin/id "$BASE/id" && chown 65534 "$BASE/id" && chmod 4755 "$BASE/id"
must mount -t ppc -o allow_suid "$PPC_TEST_DIR/strict" "$MNT"
cp /usr/bin/grep "$BASE/grep"
# version 2, effective; CAP_NET_RAW permitted
python3 -c 'import os, struct, sys
os.setxattr(sys.argv[1], "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))' \
  "$BASE/grep" || fail "file capabilities"
effective() { setpriv --reuid 65534 --regid 65534 --clear-groups "$MNT/grep" CapEff: /proc/self/status | cut -f 2; }
eq "$("$MNT/id" -u)" 0 "uid through a nosuid lower mount"
eq "$(effective)" 0000000000000000 "capabilities through a nosuid lower mount"
must umount "$MNT" && must umount "$PPC_TEST_DIR/strict"
must mount -t ppc -o allow_suid "$BASE" "$MNT"
eq "$("$MNT/id" -u)" 65534 "uid through a plain lower mount"
eq "$(effective)" 0000000000002000 "capabilities through a plain lower mount"

# A chown takes the set-id bit along, also for who executes the program meanwhile.
python3 - "$BASE/id" "$MNT/id" <<'PY' || fail "executed as the new owner"
import os, subprocess, sys, time
base, mnt = sys.argv[1:]
end = time.monotonic() + 10
if os.fork() == 0:
    while time.monotonic() < end:
        os.chown(base, 65534, 65534)
        os.chmod(base, 0o4755)
        os.chown(base, 1234, 65534)
    os._exit(0)
if os.fork() == 0:
    while time.monotonic() < end:
        os.stat(mnt)
    os._exit(0)
seen = set()
while time.monotonic() < end:
    seen.add(subprocess.run([mnt, "-u"], capture_output=True, text=True).stdout.strip())
print("ran as", seen)
assert not seen & {"1234", ""}, seen
PY
exit 0
