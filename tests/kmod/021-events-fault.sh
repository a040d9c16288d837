#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: faults on absent pages send MISS_FAULT, marked when they are not the user's own.
# Once unless --all
. "$(dirname "$0")/lib.sh"

make_file a 4M
mount_ppc
drop_caches
out=$(dev attach "open $MNT/a" mmap 'advise m random' 'touch 0 4M step=1M' events 'touch 0 4M step=1M' counts)
eq "$(field counts miss_fault "$out" 1)" 4 "faults on four places"
eq "$(field event kind "$out" 2) $(field event off "$out" 2) $(field event len "$out" 2)" \
  "miss_fault $MIB 4096" "second fault"
eq "$(field event flags "$out" 1)" - flags
eq "$(field counts all "$out" 2)" 0 "events of mapped pages"

drop_caches
out=$(dev attach "open $MNT/a" 'mmap write' 'advise m random' 'touch 0 1M step=1M write' events)
eq "$(field event flags "$out")" write "write fault on a private mapping"

# populate and mlock are not consumption
drop_caches
out=$(dev attach "open $MNT/a" 'mmap populate' events)
ge "$(field counts miss_fault "$out")" 1 "misses of MAP_POPULATE"
eq "$(field counts not_user "$out")" "$(field counts all "$out")" "marked events of MAP_POPULATE"
drop_caches
out=$(dev attach "open $MNT/a" mmap 'mlock 0 1M' events)
ge "$(field counts not_user "$out")" 1 "marked events of mlock"

# write() from the mapping is consumption though the kernel touches the page
drop_caches
out=$(dev attach "sh python3 -c 'import mmap,os,sys
f = os.open(\"$MNT/a\", os.O_RDONLY); m = mmap.mmap(f, 0, prot=mmap.PROT_READ)
os.write(os.open(\"/dev/shm/ppc-out\", os.O_CREAT | os.O_WRONLY), memoryview(m)[:65536])'" counts)
rm -f /dev/shm/ppc-out
ge "$(field counts miss_fault "$out")" 1 "misses of write() from a mapping"
eq "$(field counts not_user "$out")" 0 "marked events of write() from a mapping"
