#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: LOAD makes large folios of sizes that the kernel has, where the file system has any; truncating the
# lower file into one leaves the right bytes, and one bad sector in it takes no other page with it than below.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faultydisk.sh"

[[ -e /proc/kpageflags ]] || skip "this kernel does not show folios"
# folios FILE [FROM TO]: the pages of each folio of it, or between these pages, in order; of a mapping that touches
# those pages.
folios() {
  python3 - "$@" <<'PY'
import mmap, os, struct, sys
PAGE, HEAD, TAIL = 4096, 1 << 15, 1 << 16
size = os.path.getsize(sys.argv[1])
fd = os.open(sys.argv[1], os.O_RDONLY)
area = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
area.madvise(mmap.MADV_RANDOM)
pages = range(*map(int, sys.argv[2:4])) if sys.argv[2:] else range((size + PAGE - 1) // PAGE)
sum(area[i * PAGE] for i in pages)
with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
    start = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(sys.argv[1]))
found = []
with open("/proc/self/pagemap", "rb") as pagemap, open("/proc/kpageflags", "rb") as flags:
    for i in pages:
        pagemap.seek((start // PAGE + i) * 8)
        frame = struct.unpack("Q", pagemap.read(8))[0] & ((1 << 55) - 1)
        flags.seek(frame * 8)
        if struct.unpack("Q", flags.read(8))[0] & TAIL and found:
            found[-1] += 1
        else:
            found.append(1)
print(*found)
PY
}

# xfs has large folios since 5.18, ext4 since 6.16.
since=6.16 large=true
if [[ $(stat -f -c %T "$PPC_TEST_DIR") == xfs ]]; then since=5.18; fi
if kernel_before $since; then large=false; fi
mount_ppc
for pages in 10 7 3 515; do
  make_file "f$pages" $((pages * 4))K
  drop_caches
  out=$(dev "lookup f$pages" 'load 0 - wait' 'resident 0')
  eq "$(field resident resident "$out")" $((pages * 4096)) "loaded of $pages pages"
  sizes=$(folios "$BASE/f$pages")
  echo "# $pages pages: $sizes"
  if $large; then
    ((pages != 10)) || eq "${sizes%% *}" 8 "the first folio of ten pages"
  else
    [[ " $sizes" != *" "[!1]* ]] || fail "a large folio on a file system that has none: $sizes"
  fi
  if kernel_before 6.9; then lacks " $sizes " " 2 " "folios of $pages pages, of which two make none before 6.9"; fi
  # Into the last folio, then into each that is left.
  for ((keep = pages - 1; keep > 0; keep -= 1 + keep / 4)); do
    want=$(head -c $((keep * 4096)) "$BASE/f$pages" | sha256sum)
    truncate -s $((keep * 4096)) "$BASE/f$pages"
    eq "$(sha256sum <"$MNT/f$pages")" "$want" "$keep of $pages pages"
  done
done
# The window that a fault has loaded at once, in its middle too.
make_file window 8M
drop_caches
dev 'attach managed' "open $MNT/window" mmap 'touch 4M 4K' >/dev/null
window=$(($(stat_of window_bytes_loaded) / 4096))
sizes=$(folios "$BASE/window" 1024 $((1024 + window)))
echo "# a window of $window pages from page 1024: $sizes"
# Before 5.15 it is the lower file system's read-around, which is not counted.
kernel_before 5.15 || ge "$window" 16 "pages of the window"
if $large; then eq "$sizes" "$window" "folios of a window of $window pages"; fi
must umount "$MNT"

# The file system below reads a folio as a whole.  Alone it makes small ones where pages are asked for one by one,
# of four pages at most (read-around of faults before 6.16).
FAULTY_FS=$(stat -f -c %T "$PPC_TEST_DIR")
make_bad_disk
mount_ppc odirect=pass
beside=$((BAD / 16384 * 16384 - 4096))
drop_caches
bad_sectors 2
ppcdev "open $BASE/a" mmap "fork touch $beside 1" "!EPROTO fork touch $BAD 1" || fail "the bad sectors take more with them below"
bad_sectors 0
want=$(ppcdev "open $BASE/a" mmap "msum $beside 4K" "read $beside 4K 4K" "splice $beside 4K")
# What is not waited for stays as it failed.
load="lookup a|load $((BAD / 65536 * 65536)) 64K"
for how in "attach managed" "attach managed|$load wait" "attach managed|$load|sleep 500"; do
  IFS='|' read -ra first <<<"$how"
  for way in "msum|mmap|fork touch $beside 1|!EPROTO fork touch $BAD 1|msum $beside 4K" \
    "read|advise f random|read $beside 4K 4K|!EIO read $BAD 4K 4K" "splice|advise f random|splice $beside 4K"; do
    verb=${way%%|*}
    IFS='|' read -ra commands <<<"${way#*|}"
    drop_caches
    bad_sectors 2
    out=$(dev "${first[@]}" "open $MNT/a" "${commands[@]}") || fail "$how, $way: beside the bad sectors: $out"
    bad_sectors 0
    eq "$(field "$verb" hash "$out")" "$(field "$verb" hash "$want")" "$how, $verb: bytes beside the bad sectors"
  done
done
# Many who meet the same failed folio, each for another page.
for ((round = 0; round < 5; round++)); do
  drop_caches
  bad_sectors 2
  dev "${first[@]}" >/dev/null
  python3 - "$MNT/a" "$beside" <<'PY' || fail "of several readers beside the bad sectors one got an error"
import os, sys, threading
fd, at, bad = os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2]), []
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
together = threading.Barrier(6)
def read(offset):
    together.wait()
    try:
        os.pread(fd, 4096, offset)
    except OSError as error:
        bad.append(error)
readers = [threading.Thread(target=read, args=(at - i * 4096,)) for i in range(6)]
for reader in readers: reader.start()
for reader in readers: reader.join()
sys.exit(bool(bad))
PY
  bad_sectors 0
done
release_bad_disk

# A direct read that fails has moved on in its buffer: it is not made again, whatever failed in the cache.
make_disk
make_file a 4M
mount_ppc odirect=pass
drop_caches
dev 'attach managed' 'lookup a' "open $MNT/a direct" "sh $DISK fails" 'load 0 64K' 'sleep 500' '!EIO read 4K 4K 4K' \
  "sh $DISK works" >/dev/null
exit 0
