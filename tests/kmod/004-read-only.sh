#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: every mutating call gives EROFS.
# Once
. "$(dirname "$0")/lib.sh"

echo text >"$BASE/file"
mkdir "$BASE/dir" "$BASE/empty"
ln -s file "$BASE/link"
mount_ppc
cd "$MNT" || fail cd
ro="Read-only file system"
refuse "$ro" touch new
refuse "$ro" touch file
refuse "$ro" sh -c 'echo x >file'
refuse "$ro" sh -c 'echo x >>file'
refuse "$ro" sh -c 'echo x >new'
refuse "$ro" truncate -s 1 file
refuse "$ro" mkdir new
refuse "$ro" rmdir empty
refuse "$ro" rm -f file
refuse "$ro" rm -f link
refuse "$ro" mv file other
refuse "$ro" mv file dir/file
refuse "$ro" ln file hard
refuse "$ro" ln -s file soft
refuse "$ro" mknod pipe p
refuse "$ro" mknod null c 1 3
refuse "$ro" chmod 600 file
refuse "$ro" chmod 700 dir
refuse "$ro" chown 1 file
refuse "$ro" chown -h 1 link
refuse "$ro" setfattr -n user.a -v b file
refuse "$ro" setfattr -x user.a file
refuse "$ro" fallocate -l 100 file
refuse "$ro" dd if=/dev/zero of=file bs=1 count=1 conv=notrunc
ppcdev '!EROFS open file rdwr' '!EROFS open new creat' '!EROFS open file rdwr direct' || fail open
refuse "$ro" python3 -c 'import os; os.utime("file", (1, 1))'
refuse "$ro" python3 -c 'import os; os.truncate("file", 0)'
refuse "$ro" python3 -c 'import os; os.open(".", os.O_TMPFILE | os.O_RDWR)'
python3 -c 'import os; raise SystemExit(os.access("file", os.W_OK))' || fail "access(W_OK) succeeded"
cd / || fail cd
eq "$(cat "$BASE/file")" text "lower content"
