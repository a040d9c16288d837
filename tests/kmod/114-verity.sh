#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a lower file with fs-verity tells its digest through the mount, and what was changed behind
# its back is EIO here, too.
# Once
. "$(dirname "$0")/lib.sh"

modprobe loop 2>/dev/null
image=$PPC_TEST_DIR/image
truncate -s 32M "$image"
mkfs.ext4 -q -b 4096 -O verity "$image" || skip "mkfs.ext4 knows no verity"
mount -o loop "$image" "$BASE" || skip "ext4 without fs-verity"
trap 'status=$?; umount "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
make_file a 1M
make_file plain 4K
python3 - "$BASE/a" <<'PY' || skip "a kernel without fs-verity"
import fcntl, os, struct, sys
enable = struct.pack("<4IQ2IQ88x", 1, 1, 4096, 0, 0, 0, 0, 0)
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x40806685, enable)
PY
mount_ppc
for file in a plain; do
  eq "$(ppc-answers attributes "$MNT/$file")" "$(ppc-answers attributes "$BASE/$file")" "attributes of $file"
done
has "$(ppc-answers attributes "$MNT/a")" "MEASURE_VERITY ok" digest
has "$(ppc-answers attributes "$MNT/plain")" "MEASURE_VERITY ENODATA" "no digest"
kernel_before 5.12 || has "$(ppc-answers attributes "$MNT/a")" "READ_VERITY_METADATA ok" descriptor
must cmp "$MNT/a" "$BASE/a"

block=$(filefrag -v "$BASE/a" | awk '$1 == "0:" {print $4 + 0}')
must umount "$MNT"
must umount "$BASE"
# A block of zeros: one byte alone may be there already.  Not below a loop device that has yet to go.
detached() { [[ -z $(losetup -j "$image") ]]; }
within "$(seconds 10)" detached || fail "the loop device stays: $(losetup -j "$image")"
dd if=/dev/zero of="$image" bs=4096 seek="$block" count=1 conv=notrunc,fsync status=none
must mount -o loop "$image" "$BASE"
mount_ppc
for mode in '' 'attach managed'; do
  dev "$mode" "open $MNT/a" '!EIO read 0 4K' 'read 512K 4K' >/dev/null
done
must umount "$MNT"
must umount "$BASE"
