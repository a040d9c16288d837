#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a BASE that follows no links is followed none through; splice() of a file that reads directly
# leaves nothing in the page cache.
# Once unless --all
. "$(dirname "$0")/lib.sh"

make_file a 1M
ln -s a "$BASE/link"
must mount --bind "$BASE" "$BASE"
trap 'status=$?; umount "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
must mount -o remount,bind,nosymfollow "$BASE"
mount_ppc
refuse "Too many levels of symbolic links" cat "$MNT/link"
eq "$(readlink "$MNT/link")" a "what the link says"
must cmp "$MNT/a" "$BASE/a"
must umount "$MNT"
must umount "$BASE"

mount_ppc odirect=pass
must cmp "$MNT/link" "$BASE/a"
want=$(field read hash "$(ppcdev "open $BASE/a" 'splice 0 1M')")
drop_caches
out=$(dev 'lookup a' "open $MNT/a direct" 'splice 0 1M' 'resident 0')
eq "$(field read hash "$out")" "$want" "content"
eq "$(field resident resident "$out")" 0 "page cache after a direct splice"
