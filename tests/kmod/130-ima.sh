#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: IMA appraises what runs from the mount by its content below, at each time anew; rules find
# a file there by the mount's type and by the lower file system's UUID.
# Only --ima
. "$(dirname "$0")/lib.sh"

command -v evmctl >/dev/null || fail "no evmctl; install ima-evm-utils"
mount_ppc
# judged UID RUN...: a program of that owner, with and without its digest, and changed.
judged() {
  local uid=$1 app=app.$1
  cp /bin/true "$BASE/$app"
  chown "$uid" "$BASE/$app"
  refuse "Permission denied" "$MNT/$app"
  must evmctl ima_hash -a sha256 "$BASE/$app"
  must "$MNT/$app"
  must "$MNT/$app"
  printf x >>"$BASE/$app"
  refuse "Permission denied" "$MNT/$app"
  must evmctl ima_hash -a sha256 "$BASE/$app"
  must "$MNT/$app"
  # In place, mapped meanwhile through the mount, and of the same size.
  python3 - "$BASE/$app" <<'PY'
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
os.pwrite(fd, b"y", os.fstat(fd).st_size - 1)
PY
  refuse "Permission denied" "$MNT/$app"
  setfattr -x security.ima "$BASE/$app"
  refuse "Permission denied" "$MNT/$app"
}
judged 3001
judged 3002
# Replaced by another file.
cp /bin/true "$BASE/new" && chown 3001 "$BASE/new"
must evmctl ima_hash -a sha256 "$BASE/new"
must "$MNT/new"
cp /bin/false "$BASE/newer" && chown 3001 "$BASE/newer"
mv "$BASE/newer" "$BASE/new"
refuse "Permission denied" "$MNT/new"
# Others are not appraised.
cp /bin/true "$BASE/free"
must "$MNT/free"
# What is read is measured, again after a change.  A name of this run: the kernel lists the same one with
# the same content only once, whichever file system it was on.
told=told.$$
echo one >"$BASE/$told" && chown 3003 "$BASE/$told"
measured() { grep -c " $MNT/$told *\$" /sys/kernel/security/ima/ascii_runtime_measurements; }
cat "$MNT/$told" >/dev/null
eq "$(measured)" 1 "measurements of a file"
cat "$MNT/$told" >/dev/null
eq "$(measured)" 1 "measurements of a file read twice"
echo two >"$BASE/$told"
cat "$MNT/$told" >/dev/null
eq "$(measured)" 2 "measurements of a file that has changed"
