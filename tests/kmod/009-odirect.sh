#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: O_DIRECT is passed, served from the cache or refused, as odirect= says.
# Once unless --all
. "$(dirname "$0")/lib.sh"

make_file a 4M
want=$(field read hash "$(ppcdev "open $BASE/a" sum)")
ppcdev "open $BASE/a direct" 'read 0 64K' >/dev/null 2>&1 || skip "no O_DIRECT on this file system"

mount_ppc odirect=auto
drop_caches
out=$(dev 'lookup a' "open $MNT/a direct" sum 'resident 0' attach sum 'resident 0' detach)
eq "$(field read hash "$out" 1)" "$want" "direct content"
eq "$(field resident resident "$out" 1)" 0 "auto, nobody attached: cache stays empty"
eq "$(field read hash "$out" 2)" "$want" "buffered content"
eq "$(field resident resident "$out" 2)" $((4 * MIB)) "auto, attached: served from the cache"
eq "$(stat_of odirect_opens)" 1 "counted opens"
dev "open $MNT/a direct" '!EINVAL read 100 100' >/dev/null
must mount -o remount,odirect=buffered "$MNT"
drop_caches
out=$(dev 'lookup a' "open $MNT/a direct" sum 'resident 0' 'read 100 100')
eq "$(field resident resident "$out")" $((4 * MIB)) "buffered: served from the cache"
must mount -o remount,odirect=pass "$MNT"
drop_caches
out=$(dev 'lookup a' 'attach openclose' "open $MNT/a direct" sum 'resident 0' counts events)
eq "$(field resident resident "$out")" 0 "pass: cache stays empty though attached"
eq "$(field counts miss_read "$out")" 0 "a direct read is no miss"
must mount -o remount,odirect=deny "$MNT"
dev "!EINVAL open $MNT/a direct" "open $MNT/a" sum >/dev/null
python3 - "$MNT/a" <<'PY' || fail "O_DIRECT by fcntl although denied"
import errno, fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
try:
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_DIRECT)
    os.read(fd, 4096)
except OSError as error:
    sys.exit(0 if error.errno == errno.EINVAL else 1)
sys.exit(1)
PY
exit 0
