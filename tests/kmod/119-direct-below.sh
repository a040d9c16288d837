#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a FUSE server that keeps its files out of the page cache: reads through the mount are whole, and
# not each of them is taken for a miss.
# Once
. "$(dirname "$0")/lib.sh"

modprobe fuse 2>/dev/null || grep -qw fuse /proc/filesystems || fail "no FUSE"
python3 "$(dirname "$0")/one_file_fuse.py" "$BASE" 8 >"$PPC_TEST_DIR/server" 2>&1 &
trap 'status=$?; umount "$MNT" 2>/dev/null; umount "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
within "$(seconds 60)" mountpoint -q "$BASE" || fail "no server: $(cat "$PPC_TEST_DIR/server")"
mount_ppc

# 2048 pages, none of which stays: the first few are told, as on any file.
out=$(dev 'attach managed beacon' "open $MNT/a" sum 'read 0 8M 4K' events)
eq "$(sha256sum <"$MNT/a")" "$(sha256sum <"$BASE/a")" "what is read"
eq "$(grep -c 'kind=miss_read' <<<"$out")" "$(stat_of misses_read)" "misses told and counted"
le "$(stat_of misses_read)" 16 "misses of 4096 reads past the page cache: $(tail -n 5 <<<"$out")"
ge "$(stat_of misses_read)" 1 "misses before it was known"
# A window is not loaded for who gets nothing from it.
le "$(stat_of window_bytes_loaded)" $((2 * MIB)) "bytes loaded around misses"
must umount "$MNT"
must umount "$BASE"
