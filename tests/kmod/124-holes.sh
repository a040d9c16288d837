#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a read over many absent pages far apart tells of the first 63 of them, then of the rest at once.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 4M
want=$(sha256sum <"$BASE/a")
mount_ppc
drop_caches
python3 -c 'import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
for page in range(0, (4 << 20) // os.sysconf("SC_PAGESIZE"), 2): os.pread(file, 1, page * os.sysconf("SC_PAGESIZE"))' "$BASE/a"
out=$(dev attach "open $MNT/a" 'advise f random' 'read 0 4M 4M' events)
eq "$(stat_of misses_read)" 64 "misses of one read"
last=$(grep 'kind=miss_read' <<<"$out" | tail -1)
eq "$(field event off "$last")" $((127 * PAGE)) "where the last miss begins"
eq "$(field event len "$last")" $((4 * MIB - 127 * PAGE)) "what the last miss covers"
eq "$(sha256sum <"$MNT/a")" "$want" "what is read"
must umount "$MNT"
