#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: RWF_NOWAIT gives what is cached, says EAGAIN for the rest, loads nothing and tells no miss.
# Once unless --all
. "$(dirname "$0")/lib.sh"

make_file a 4M
mount_ppc
want=$(field read hash "$(ppcdev "open $BASE/a" 'read 0 256K')")
# Newer kernels start to load what such a read finds absent, and it may have come before they say so;
# without a consumer that is so here as well.
drop_caches
ppcdev "open $BASE/a" 'advise f random' 'read 0 4K 4K nowait' >/dev/null 2>&1
out=$(dev 'lookup a' 'sleep 300' 'resident 0')
modes=(attach 'attach managed beacon')
if [[ $(field resident resident "$out") == 0 ]]; then modes+=(''); fi
for mode in "${modes[@]}"; do
  drop_caches
  out=$(dev 'lookup a' "$mode" "open $MNT/a" 'advise f random' '!EAGAIN read 0 4K 4K nowait' '!EAGAIN read 1M 1M 1M nowait' \
    'resident 0' ${mode:+counts} 'read 0 256K' 'read 0 256K 256K nowait' '!EAGAIN read 3M 4K 4K nowait')
  eq "$(field resident resident "$out")" 0 "loaded by reads that must not wait, mode '$mode'"
  [[ -z $mode ]] || eq "$(field counts miss_read "$out")" 0 "misses told, mode '$mode'"
  eq "$(field read hash "$out" 2)" "$want" "cached content, mode '$mode'"
done
# RWF_DONTCACHE, known since 6.14: not here.
refuse "Operation not supported" python3 -c 'import os, sys
os.preadv(os.open(sys.argv[1], os.O_RDONLY), [bytearray(10)], 0, 0x80)' "$MNT/a"
# tmpfs has no such reads, and none are offered on top of it.
mkdir "$PPC_TEST_DIR/t" "$PPC_TEST_DIR/m"
must mount -t tmpfs tmpfs "$PPC_TEST_DIR/t"
head -c 64K /dev/urandom >"$PPC_TEST_DIR/t/a"
must mount -t ppc "$PPC_TEST_DIR/t" "$PPC_TEST_DIR/m"
want=$(ppcdev "open $PPC_TEST_DIR/t/a" 'read 0 4K 4K nowait' 2>&1)
eq "$(ppcdev "open $PPC_TEST_DIR/m/a" 'read 0 4K 4K nowait' 2>&1)" "$want" "as tmpfs itself"
umount "$PPC_TEST_DIR/m" "$PPC_TEST_DIR/t"
exit 0
