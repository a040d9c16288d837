# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: another tenant opens and reads a hundred thousand small files of the registered directory, again and again,
# by two processes: the victim's events are all there, in time for its load to go ahead of it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
FILES=100000
DISK=$WORK/disk IMAGE=$PPC_E2E_BUILD/test/small-files.$$.img
trap 'calm; umount -l "$DISK"; losetup -d "$LOOP"; rm -f "$IMAGE"; cleanup; sleep 0.2; rmdir "$OTHER" "$GROUP" 2>/dev/null' EXIT
mkdir "$DISK"
must mke2fs -q -t ext4 -N $((FILES * 5 / 4)) "$IMAGE" 900M
LOOP=$(losetup --find --show --direct-io=on "$IMAGE") || fail "no loop device"
echo 128 >"/sys/block/${LOOP##*/}/queue/read_ahead_kb"
must mount "$LOOP" "$DISK"
cat >"$WORK/files.py" <<'END'
import os, sys
verb, top, count, part = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
content = bytes(4096)
def name(number):
    return f"{top}/{number // 1000:03}/{number:06}"
if verb == "make":
    for number in range(count):
        if number % 1000 == 0:
            os.makedirs(os.path.dirname(name(number)))
        file = os.open(name(number), os.O_CREAT | os.O_WRONLY)
        os.write(file, content)
        os.close(file)
while verb == "read":
    for number in range(part, count, 2):
        file = os.open(name(number), os.O_RDONLY)
        os.read(file, 4096)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)  # it is missed again
        os.close(file)
    open(f"{top}/../read.{part}", "w").close()
END
must /usr/bin/python3 "$WORK/files.py" make "$DISK/all/small" "$FILES" 0
cp -r "$MODEL" "$DISK/all/model"
sync
reference_checksum >/dev/null
MODEL=$DISK/all/model disk=${LOOP##*/}
flood() {
  local part
  for part in 0 1; do
    as_other /usr/bin/python3 "$WORK/files.py" read "$MNT/small" "$FILES" "$part" &
  done
}
start_daemon
serve "$DISK/all"
register "$MNT" maio '{"at_ready": "keep"}'
VICTIM=$MNT/model
alone
strangers() { runner_field '["events"]["strangers"]'; }
before=$(strangers)
victim flood
has_read_all() { [[ -e $MNT/read.0 && -e $MNT/read.1 ]]; }
within 120 has_read_all || fail "the files are not all read, which proves nothing"
calm
echo "# counted: $(($(strangers) - before)) events of strangers, $(runner_field '["events"]["held_lost"]') given up in all, $(runner_field '["device"]["events_lost"]') lost"
unharmed flood
