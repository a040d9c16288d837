#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: LOAD makes large folios of sizes that the kernel has, and truncating the lower file into one leaves
# the right bytes.
# shellcheck source=tests/kmod/lib.sh
. "$(dirname "$0")/lib.sh"

[[ -e /proc/kpageflags ]] || skip "this kernel does not show folios"
# folios FILE: the pages of each folio of it, in order; of a mapping that touches them all.
folios() {
  python3 - "$1" <<'PY'
import mmap, os, struct, sys
PAGE, HEAD, TAIL = 4096, 1 << 15, 1 << 16
size = os.path.getsize(sys.argv[1])
fd = os.open(sys.argv[1], os.O_RDONLY)
area = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
pages = (size + PAGE - 1) // PAGE
sum(area[i * PAGE] for i in range(pages))
with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
    start = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(sys.argv[1]))
found = []
with open("/proc/self/pagemap", "rb") as pagemap, open("/proc/kpageflags", "rb") as flags:
    for i in range(pages):
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

mount_ppc
for pages in 10 7 3 515; do
  make_file "f$pages" $((pages * 4))K
  drop_caches
  out=$(dev "lookup f$pages" 'load 0 - wait' 'resident 0')
  eq "$(field resident resident "$out")" $((pages * 4096)) "loaded of $pages pages"
  sizes=$(folios "$BASE/f$pages")
  echo "# $pages pages: $sizes"
  [[ $pages != 10 || $sizes == "8 "* ]] || skip "no large folios here: $sizes"
  if kernel_before 6.9; then lacks " $sizes " " 2 " "folios of $pages pages, of which two make none before 6.9"; fi
  # Into the last folio, then into each that is left.
  for ((keep = pages - 1; keep > 0; keep -= 1 + keep / 4)); do
    want=$(head -c $((keep * 4096)) "$BASE/f$pages" | sha256sum)
    truncate -s $((keep * 4096)) "$BASE/f$pages"
    eq "$(sha256sum <"$MNT/f$pages")" "$want" "$keep of $pages pages"
  done
done
exit 0
