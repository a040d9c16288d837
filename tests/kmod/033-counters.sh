#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Once
# Description: every reason to drop an event, refuse an ioctl, or leave a page has its counter, and
# each can be made to move; sysfs and mountstats agree; each file is documented.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faultydisk.sh"

declare -A moved
# moves "COUNTER..." COMMAND...: each has grown after it; what the command says goes to $out.
moves() {
  local name names=$1
  local -A before
  shift
  for name in $names; do before[$name]=$(stat_of "$name") || fail "no counter $name"; done
  out=$("$@") || fail "'$*' failed"
  for name in $names; do
    (($(stat_of "$name") > before[$name])) || fail "$name did not move by '$*'"
    moved[$name]=1
  done
}
group=/sys/fs/cgroup/ppc-counters

make_file a 8M
# Too small for khugepaged, which makes a huge page of what is mapped and unmaps it for that.
make_file small 1M
mount_ppc queue=64
drop_caches
# Events and misses.
moves 'misses_read events_queued' dev attach "open $MNT/a" 'read 0 4K 4K'
# Before 5.15 the window of a fault is the lower file system's own and not counted.
window=window_bytes_loaded
if kernel_before 5.15; then window=; fi
moves "misses_fault $window" dev 'attach managed' "open $MNT/a" mmap 'touch 4M 1'
moves 'misses_read window_bytes_loaded' dev 'attach managed' "open $MNT/a" 'read 6M 4K 4K'
moves 'events_coalesced' dev 'attach trace' "open $MNT/a" 'sum 4K'
moves 'events_dropped events_dropped_detached' dev 'attach trace' "open $MNT/a" 'read 0 4K 4K' detach close
drop_caches
reads=()
for ((i = 0; i < 512; i += 2)); do reads+=("read $((i * 4))K 4K 4K"); done
moves 'events_dropped events_dropped_flood' dev attach "open $MNT/a" 'advise f random' "${reads[@]}"
# One task alone does not fill a ring.
drop_caches
moves 'events_dropped events_dropped_full' dev attach "open $MNT/a" 'advise f random' "${reads[@]/#/fork }"
drop_caches
moves 'wakeups wakeups_late' dev attach "open $MNT/a" mmap 'thread poll 9000 sleepy' 'sleep 200' 'touch 0 1' join drop \
  'thread poll 9000 sleepy' 'sleep 200' 'touch 512K 1' join
drop_caches
moves lease_expiries dev 'attach lease=100' "open $MNT/a" 'read 0 4K 4K' 'sleep 1000'
moves odirect_opens dev "open $MNT/a direct"

# Refusals.
moves refused_invalid dev '!EINVAL attach flags=0x100'
moves refused_unknown dev '!ENOTTY ioctl 99 8 3'
moves refused_fault dev '!EFAULT ioctl 1 88 3 null'
moves refused_stale dev 'id 999999' '!ESTALE load 0 4K'
moves refused_name dev '!ENOENT lookup none'
moves refused_busy dev attach "dev $DEV" '!EBUSY attach'
moves refused_detached dev '!ENOTCONN detach'
moves refused_handle dev 'lookup a' '!EBADF load 0 4K charge=77'
mkdir -p $group
charges=()
for ((i = 0; i < 1024; i++)); do charges+=("charge $group"); done
if ppcdev "dev $DEV" "charge $group" >/dev/null 2>&1; then
  moves refused_limit dev "${charges[@]}" "!ENOSPC charge $group"
  echo 0 >$group/memory.max
  drop_caches
  moves load_stopped_nomem dev 'lookup a' "charge $group" 'load 0 4M charged'
  # Only before 5.18.
  moved[refused_unsupported]=1
else
  moves refused_unsupported dev "!EOPNOTSUPP charge $group"
  moved[load_stopped_nomem]=1 moved[refused_limit]=1
fi
rmdir $group
# No memory for an ioctl: tests/attack/allocfail compares it with what was refused.
moved[refused_nomem]=1

# Loading and evicting.
drop_caches
moves loaded_bytes dev 'lookup a' 'load 0 4M wait'
moves load_resident_bytes dev 'lookup a' 'load 0 4M wait'
moves load_stopped_cancelled dev 'lookup a' 'cancel 3 8' 'load 0 4M slot=3 gen=7'
moves evict_left_mapped_bytes dev 'lookup small' "open $MNT/small" mmap 'touch 0 1M' 'evict 0 1M'
moves evict_left_locked_bytes dev 'lookup small' "open $MNT/small" mmap 'mlock 0 1M' 'evict 0 1M unmap'
moves evicted_bytes dev 'lookup small' 'load 0 1M wait' 'evict 0 1M drain'
dd if=/dev/zero of="$BASE/a" bs=1M count=1 conv=notrunc status=none
moves evict_left_dirty_bytes dev 'lookup a' 'evict 0 1M'
# Many steps over nothing, killed on the way.
truncate -s 15T "$BASE/sparse"
evicts=()
for ((i = 0; i < 100; i++)); do evicts+=('evict 0 15T'); done
ppcdev "dev $DEV" 'lookup sparse' "${evicts[@]}" >/dev/null &
pid=$!
sleep 1
kill -9 $pid
wait $pid
eq "$(stat_of evict_stopped_signal)" 1 evict_stopped_signal
moved[evict_stopped_signal]=1
rm "$BASE/sparse"
# A pipe holds references of the pages in it.
moves evict_left_busy_bytes python3 -c "
import os, subprocess
file, (reader, writer) = os.open('$MNT/a', os.O_RDONLY), os.pipe()
assert os.splice(file, writer, 65536, 4 << 20) > 0
subprocess.run(['ppcdev', 'dev $DEV', 'lookup a', 'evict 4M 64K drain'], check=True)"
# Where reading makes large folios, one page of it cannot go alone.
drop_caches
cat "$MNT/a" >/dev/null
out=$(dev 'lookup a' 'evict 4100K 4K')
if [[ $(field evict busy "$out") == 0 ]]; then
  [[ $(findmnt -no FSTYPE -T "$PPC_TEST_DIR") != xfs ]] || kernel_before 5.18 ||
    fail "no large folio on xfs: $out"
  moved[evict_left_straddling_bytes]=1
else
  moves evict_left_straddling_bytes dev 'lookup a' 'evict 4100K 4K'
fi
for name in loaded_bytes events_queued refused_invalid; do
  eq "$(awk -v mount="$MNT" -v name="$name:" '$1 == "device" {here = $5 == mount} here && $1 == name {print $2}' \
    /proc/self/mountstats)" "$(stat_of $name)" "$name in mountstats"
done
for name in "$SYS"/*; do
  name=${name##*/}
  grep -qE "^What:[[:space:]]+/sys/fs/ppc/<N>/$name\$" "$(dirname "$0")/../../docs/abi/sysfs-fs-ppc" ||
    fail "$name is not in docs/abi/sysfs-fs-ppc"
  case $name in dev | policy | state | open_files) continue ;; esac
  awk -v mount="$MNT" -v name="$name:" '$1 == "device" {here = $5 == mount} here && $1 == name {found = 1}
    END {exit !found}' /proc/self/mountstats || fail "$name is not in mountstats"
done
documented=$(sed -nE 's,^What:[[:space:]]+/sys/fs/ppc/<N>/(.+)$,\1,p' "$(dirname "$0")/../../docs/abi/sysfs-fs-ppc")
for name in $documented; do
  [[ -e $SYS/$name ]] || fail "docs/abi/sysfs-fs-ppc has $name, and the module has not"
done
eq "$(awk -v mount="$MNT" '$1 == "device" {here = $5 == mount; next} here {print $1}' /proc/self/mountstats)" \
  "minor:
$(grep -vxE 'dev|policy|state|open_files' <<<"$documented" | sed 's/$/:/')" "order of mountstats"
eq "$(stat_of events_dropped)" "$(($(stat_of events_dropped_full) + $(stat_of events_dropped_detached) + \
  $(stat_of events_dropped_flood)))" "all lost events"
names=("$SYS"/*)
names=("${names[@]##*/}")
must umount "$MNT"

# A file system that has nothing to read ahead from.
must mount -t tmpfs none "$BASE"
make_file a 1M
mount_ppc
moves load_stopped_unsupported dev 'lookup a' 'load 0 1M'
must umount "$MNT" "$BASE"

# A disk that hangs: what is on its way cannot be dropped, and who waits can be killed.
make_disk
make_file a 8M
make_file b 1M
mount_ppc
drop_caches
# A reader that goes while the disk is waited for: the access that ends then has no reader.  A
# fault through /proc/PID/mem is one that waits where it is; others are made anew.
cat >"$PPC_TEST_DIR/peek" <<'PY'
import ctypes, mmap, os, sys
memory = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 8 << 20, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert len(os.pread(os.open("/proc/self/mem", os.O_RDONLY), 1, address + (6 << 20))) == 1
open(sys.argv[2], "w")
PY
must "$DISK" hangs
moves 'events_dropped events_dropped_detached' dev 'attach trace' "sh python3 $PPC_TEST_DIR/peek $MNT/a $PPC_TEST_DIR/peeked &" \
  "sh until [ \$(cat $SYS/misses_fault) -gt 0 ]; do sleep 0.1; done" 'sleep 500' detach "sh $DISK works" \
  "sh until [ -e $PPC_TEST_DIR/peeked ]; do sleep 0.1; done"
drop_caches
must "$DISK" hangs
moves evict_left_reading_bytes dev 'lookup a' 'load 0 1M' 'evict 0 1M'
ppcdev "dev $DEV" 'lookup a' 'load 4M 1M wait' >/dev/null &
pid=$!
sleep 1
signals=$(stat_of load_stopped_signal)
kill -9 $pid
wait $pid
eq "$(stat_of load_stopped_signal)" $((signals + 1)) load_stopped_signal
moved[load_stopped_signal]=1
dd if=/dev/zero of="$BASE/b" bs=1M count=1 conv=notrunc status=none
sync "$BASE/b" &
writes_back() { dev 'lookup b' 'resident 0' 'evict 0 1M' >/dev/null && (($(stat_of evict_left_writeback_bytes) > 0)); }
within 20 writes_back || fail "evict_left_writeback_bytes did not move"
moved[evict_left_writeback_bytes]=1
must "$DISK" works
wait
drop_caches
must "$DISK" fails
moves load_failed_bytes dev 'lookup a' 'load 0 1M wait'
must "$DISK" works
# Mounted anew nothing of the directory is in memory.
must umount "$MNT" "$BASE"
must mount /dev/mapper/ppc-faulty "$BASE"
mount_ppc
must "$DISK" fails
moves refused_other dev '!EIO lookup a'
must "$DISK" works

for name in "${names[@]}"; do
  case $name in dev | policy | state | open_files) continue ;; esac
  [[ ${moved[$name]:-} ]] || fail "nothing here moves $name"
done
exit 0
