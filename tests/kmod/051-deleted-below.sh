#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: rm below frees the space within 5 s though the mount has cached the names; files that
# are open stay until closed.
# Once unless --all
. "$(dirname "$0")/lib.sh"

free_kib() { df --output=avail -k "$BASE" | tail -1; }
mount_ppc
mkdir -p "$BASE/model/sub"
make_file model/one 32M
make_file model/sub/two 32M
ln -s sub/two "$BASE/model/link"
cat "$MNT/model/one" "$MNT/model/link" >/dev/null
ls -lR "$MNT" >/dev/null
before=$(free_kib)
rm -r "$BASE/model"
freed() { (($(free_kib) - before >= $1)); }
within "$(seconds 5)" freed 65000 || fail "only $(($(free_kib) - before)) KiB of 65536 were freed within 5 s"

# Renamed over.
make_file big 32M
make_file other 1K
cat "$MNT/big" >/dev/null
before=$(free_kib)
mv "$BASE/other" "$BASE/big"
within "$(seconds 5)" freed 32000 || fail "a replaced file's space is held"
eq "$(wc -c <"$MNT/big")" 1024 "the new file"

# One of several names: the file keeps what is left, also the one it is told by.
make_file names/a 4K
ln "$BASE/names/a" "$BASE/names/b"
out=$(dev "open $MNT/names/b" 'lookup names/b' "sh stat $MNT/names/a >/dev/null; rm $BASE/names/a" name)
eq "$(field name name "$out")" names/b "name of an open file that lost another name"

# Open files, closed later; a mapping counts as open.
make_file held 32M
before=$(free_kib)
out=$(dev "open $MNT/held" mmap close "sh rm $BASE/held" 'sleep 4500' msum munmap)
eq "$(field msum bytes "$out")" $((32 * MIB)) "a mapped deleted file"
within "$(seconds 5)" freed 32000 || fail "a closed deleted file's space is held"
exit 0
