#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a read below that fails once is made once more by the lower file system, never by us;
# an error ends the fault in SIGBUS as below, and is gone with its cause.
# Once
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/faultydisk.sh"

make_disk
make_file a 8M
want=$(ppcdev "open $BASE/a" mmap msum 'read 0 8M')
sum=$(field msum hash "$want")
mount_ppc
for how in '' attach 'attach managed' 'attach managed beacon' 'attach trace'; do
  attach=("dev $DEV" "$how")
  [[ -n $how ]] || attach=()
  # A disk that fails: EIO by read, SIGBUS by fault (which ends the child); well again: the bytes.
  # The same file, mapping and process all along.
  drop_caches
  out=$(ppcdev "${attach[@]}" "open $MNT/a" mmap "sh $DISK fails" \
    '!EIO read 1M 4K 4K' '!EPROTO fork touch 1M 1' '!EPROTO fork touch 3M 1' '!EIO read 1M 4K 4K' \
    "sh $DISK works" \
    'read 1M 4K 4K' 'touch 3M 1' 'fork touch 1M 1' msum 'read 0 8M') || fail "attach '$how': $out"
  eq "$(field msum hash "$out")" "$sum" "bytes by fault after the error, '$how'"
  eq "$(field read hash "$out" 2)" "$(field read hash "$want")" "bytes by read after the error, '$how'"
done
must umount "$MNT"
release_disk
trap clean_up EXIT

# Bad sectors fail a large request as a whole; the pages around them come at the second try, which
# is the lower file system's own: one page, for the reader of that page.
make_bad_disk
near=$((BAD + 3 * 4096))
want=$(field msum hash "$(ppcdev "open $BASE/a" mmap "msum $near 32K")")
mount_ppc
# As many requests as below: no second try of our own.
requests=()
for path in "$BASE/a" "$MNT/a"; do
  drop_caches
  bad_sectors 2
  before=$(disk_stat 1)
  out=$(ppcdev "open $path" mmap "!EPROTO fork touch $BAD 1") || fail "a bad sector of $path: $out"
  requests+=($(($(disk_stat 1) - before)))
  bad_sectors 0
done
ge "${requests[0]}" 1 "requests for a bad sector"
eq "${requests[1]}" "${requests[0]}" "requests for a bad sector, and those below"
for how in attach 'attach managed'; do
  drop_caches
  bad_sectors 2
  out=$(dev "$how" "open $MNT/a" mmap "fork touch $near 1" "!EPROTO fork touch $BAD 1" "msum $near 32K" counts) ||
    fail "$how: a page beside the bad sectors: $out"
  eq "$(field msum hash "$out")" "$want" "bytes beside the bad sectors, $how"
  bad_sectors 0
  eq "$(field msum hash "$(ppcdev "open $MNT/a" mmap "msum $BAD 8K")")" \
    "$(field msum hash "$(ppcdev "open $BASE/a" mmap "msum $BAD 8K")")" "the bad sectors, well again, $how"
done
exit 0
