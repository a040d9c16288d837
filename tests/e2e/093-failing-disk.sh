# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a disk of which 64 KiB cannot be read, then nothing at all: recorded and followed, a reader gets the right
# bytes or EIO where it gets it natively, and what the runner asks for in vain is bounded and told.
# needs observer
. "$(dirname "$0")/maio.sh"
for program in nbdkit nbdfuse losetup; do command -v $program >/dev/null || skip "$program is not installed"; done
BAD_PAGES=16 BAD_FIRST=3000 # of the second file
DISK=$WORK/disk
down() {
  [[ -z $DAEMON ]] || stop_daemon
  umount "$DISK/mnt"
  losetup --detach "$device"
  fusermount3 -u "$DISK/fuse"
  cleanup
}
# raise_disk: a copy of the model on a disk that fails there, and everywhere once $WORK/all exists.
raise_disk() {
  local bytes start
  mkdir -p "$DISK/mnt" "$DISK/fuse"
  bytes=$(($(du -cb "$MODEL" | awk 'END {print $1}') / 1000000 * 1000000 + (48 << 20)))
  must mke2fs -q -t ext4 -b 4096 -d "$MODEL" "$FAST/image" $((bytes >> 10))
  bytes=$(stat -c %s "$FAST/image")
  second=$(find "$MODEL" -name '*.safetensors' -printf '%f\n' | sort | sed -n 2p)
  start=$(($(debugfs -R "bmap /$second $BAD_FIRST" "$FAST/image" 2>/dev/null) * 4096))
  ((start > 0)) || fail "$second has no page $BAD_FIRST"
  printf '0x0 ?\n0x0 0x%x +\n0x%x 0x%x -\n0x%x 0x%x +\n' $start $start $((BAD_PAGES * 4096)) \
    $((start + BAD_PAGES * 4096)) $((bytes - start - BAD_PAGES * 4096)) >"$WORK/map"
  nbdkit --foreground --readonly --unix "$WORK/nbd" --filter=error --filter=rate --filter=ddrescue file "$FAST/image" \
    ddrescue-mapfile="$WORK/map" error-pread=EIO error-pread-rate=100% error-pread-file="$WORK/all" \
    rate=$((60 * 8 * 1000 * 1000)) burstiness=0.02 2>"$WORK/nbdkit.log" &
  within 10 test -S "$WORK/nbd" || fail "nbdkit: $(cat "$WORK/nbdkit.log")"
  nbdfuse --readonly --connections 8 "$DISK/fuse" --unix "$WORK/nbd" 2>/dev/null &
  within 10 test -e "$DISK/fuse/nbd" || fail "nbdfuse does not start"
  device=$(losetup --find --show --direct-io=on --read-only "$DISK/fuse/nbd") || fail "losetup"
  trap 'down; remove_groups "$GROUP"' EXIT
  echo 128 >"/sys/block/${device##*/}/queue/read_ahead_kb"
  must mount -o ro,noload "$device" "$DISK/mnt"
}
# Reads all files in order; says how many pages cannot be read, where the first is, and how many reads differ from the
# second directory's.
cat >"$WORK/read.py" <<'PY'
import errno, glob, os, sys
failed, wrong = [], 0
for number, name in enumerate(sorted(glob.glob(sys.argv[1] + "/*.safetensors"))):
    with open(name, "rb", 0) as file, open(os.path.join(sys.argv[2], os.path.basename(name)), "rb", 0) as good:
        at, end = 0, os.fstat(file.fileno()).st_size
        while at < end:
            try:
                got = os.pread(file.fileno(), 1 << 20, at)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                failed.append((number, at // 4096))
                at += 4096
                continue
            wrong += got != os.pread(good.fileno(), len(got), at)
            at += len(got)
print(f"wrong={wrong} failed={len(failed)} first={failed[:1]}")
PY
failed() { runner_field '["loader"]["failed"]'; }
# start NAME [COMMAND...]: a cold start; COMMAND once half of the model is there.  Sets pages, that the reader cannot read,
# and bytes, that the runner has asked for in vain.
start() {
  local name=$1 reader before said
  shift
  before=$(failed)
  drop_caches
  start_service svc-failing 1
  in_group /usr/bin/python3 "$WORK/read.py" "$MNT" "$MODEL" >"$WORK/said" &
  reader=$!
  (($# == 0)) || within 60 is_half "$reader" || fail "$name: the reader does not get on"
  "${@:-true}"
  wait "$reader" || fail "$name: the reader failed"
  # Nothing is tried for ever.
  ticks_pass 5
  bytes=$(failed)
  ticks_pass 10
  eq "$(failed)" "$bytes" "$name: bytes that could not be loaded, after the reader's end"
  bytes=$((bytes - before)) said=$(cat "$WORK/said")
  has "$(runner_field '["services"]')" "$failing failed (Input/output error)" "$name: guard"
  echo "# counted: $name: $said; bytes of the runner's loads that failed: $bytes"
  has "$said" "wrong=0 " "$name: reads of other bytes"
  pages=${said#*failed=} pages=${pages%% *}
  end_service svc-failing
}
is_half() {
  ! is_dead "$1" || fail "the reader ended before half was there"
  (($(resident_of "$MNT") > model_bytes / 2))
}
# A reader that has mapped the page.
map_bad_page() {
  in_group /usr/bin/python3 -c 'import mmap, sys
with open(sys.argv[1], "rb") as file:
    mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[int(sys.argv[2]) * 4096]' "$MNT/$second" $BAD_FIRST
}
raise_disk
serve "$DISK/mnt"
drop_caches
natively=$(/usr/bin/python3 "$WORK/read.py" "$MNT" "$MODEL") || fail "natively: $natively"
echo "# counted: natively: $natively"
natively=${natively#*failed=} natively=${natively%% *}
start_daemon
register "$MNT" maio
failing=$second
for name in recorded followed; do
  start $name
  ge "$pages" "$BAD_PAGES" "$name: pages that cannot be read"
  # The kernel's read-ahead fails by folios, which may be larger than what is loaded.
  le "$pages" "$natively" "$name: pages that cannot be read"
  ge "$bytes" $((BAD_PAGES * 4096)) "$name: bytes that could not be loaded"
  le "$bytes" $((16 << 20)) "$name: bytes that could not be loaded"
done
map_bad_page 2>/dev/null
eq $? $((128 + $(kill -l BUS))) "status of a reader that maps it"
failing=.safetensors # any of them
start all touch "$WORK/all"
ge "$pages" $((model_bytes / 4096 / 4)) "all: pages that cannot be read"
# Each piece is tried twice at most.
le "$bytes" $((2 * model_bytes)) "all: bytes that could not be loaded"
has "$(ppcctl logs)" "cannot be read; it is left to its readers" "log"
eq "$(state)" running "state"
