#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Once unless --all
# Description: readahead(2), posix_fadvise and madvise act on the lower file, and mincore and cachestat
# tell the truth about it.
. "$(dirname "$0")/lib.sh"

make_file a 2M
pages=$((2 * MIB / PAGE))
mount_ppc
case $(uname -r) in
  [1-5].* | 6.[0-4].*) stat_of_cache() { echo "cachestat ENOSYS 0"; } ;;
  *) stat_of_cache() { echo "cachestat ok $1"; } ;;
esac
cached() {
  eq "$(ppc-answers cached "$MNT/a")" "mincore ok $1
$(stat_of_cache "$1")" "$2"
}
for mode in '' 'attach managed'; do
  drop_caches
  cached 0 "nothing cached"
  dev "$mode" "open $MNT/a" 'advise f willneed 0 64K' 'sleep 300' >/dev/null
  ge "$(dev 'lookup a' "$mode" 'resident 0' | sed -n 's/.* resident=\([0-9]*\).*/\1/p')" 65536 "after WILLNEED"
  must python3 -c 'import ctypes, os, sys
offset = ctypes.c_long(512 << 10)
assert ctypes.CDLL(None).readahead(os.open(sys.argv[1], os.O_RDONLY), offset, ctypes.c_size_t(65536)) == 0' "$MNT/a"
  out=$(dev 'sleep 300' 'lookup a' 'resident 512K 64K')
  eq "$(field resident resident "$out")" 65536 "after readahead(2)"
  out=$(dev 'lookup a' "$mode" "open $MNT/a" mmap 'advise m willneed 1M 64K' 'sleep 300' 'resident 1M 64K')
  eq "$(field resident resident "$out")" 65536 "after MADV_WILLNEED"
  dev "$mode" "open $MNT/a" 'advise f dontneed' >/dev/null
  cached 0 "after DONTNEED"
  dev "$mode" "open $MNT/a" sum >/dev/null
  cached $pages "after reading it"
  eq "$(ppc-answers cached "$BASE/a")" "$(ppc-answers cached "$MNT/a")" "as seen below"
done
# RANDOM: a page is a page.
for path in "$BASE/a" "$MNT/a"; do
  drop_caches
  out=$(dev 'lookup a' "open $path" 'advise f random' 'read 1M 4K' 'resident 0')
  eq "$(field resident resident "$out")" 4096 "random read of $path"
done
# SEQUENTIAL: the read-around of a fault is twice as large, also after a policy has come and gone.
drop_caches
native=$(dev 'lookup a' "open $MNT/a" 'advise f sequential' mmap 'touch 1M 1' 'sleep 300' 'resident 0')
drop_caches
out=$(dev 'lookup a' "open $MNT/a" 'attach managed' 'advise f sequential' detach mmap 'touch 1M 1' 'sleep 300' 'resident 0')
eq "$(field resident resident "$out")" "$(field resident resident "$native")" "read-around after a policy"
drop_caches
out=$(dev 'lookup a' "open $MNT/a" mmap 'touch 1M 1' 'sleep 300' 'resident 0')
ge "$(field resident resident "$native")" $((2 * $(field resident resident "$out"))) "read-around of SEQUENTIAL"
