#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: names, attributes, links, xattrs, ACLs and statfs are those of the lower file system.
. "$(dirname "$0")/lib.sh"

mkdir -p "$BASE/many" "$BASE/deep/er/est"
for i in $(seq 1000); do : >"$BASE/many/file-$i"; done
make_file deep/er/est/data 12345
ln -s deep/er "$BASE/rel"
ln -s /nowhere "$BASE/dangling"
ln -s deep/er/est/data "$BASE/to-data"
long=$(printf 'x%.0s' $(seq 200))
ln -s "$long/$long" "$BASE/long"
ln "$BASE/deep/er/est/data" "$BASE/hard"
mknod "$BASE/null" c 1 3
mkfifo "$BASE/fifo"
chmod 4711 "$BASE/hard"
chown 7:8 "$BASE/many/file-1"
touch -d '2001-02-03 04:05:06.789' "$BASE/many/file-2"
setfattr -n user.note -v hello "$BASE/hard" || skip "no setfattr"
setfacl -m u:1234:r "$BASE/many/file-3" 2>/dev/null && acl=1
mount_ppc

# Names and types, recursively; everything of stat but the device.
eq "$(cd "$MNT" && find . -printf '%p %y %l\n' | sort | md5sum)" \
  "$(cd "$BASE" && find . -printf '%p %y %l\n' | sort | md5sum)" "names"
form='%p %i %n %m %U %G %s %b %T@ %C@\n'
eq "$(cd "$MNT" && find . -printf "$form" | sort | md5sum)" \
  "$(cd "$BASE" && find . -printf "$form" | sort | md5sum)" "attributes"
eq "$(stat -c '%t %T %o %B' "$MNT/null")" "$(stat -c '%t %T %o %B' "$BASE/null")" "device node"
[[ $(stat -c %d "$MNT") != "$(stat -c %d "$BASE")" ]] || fail "st_dev is not our own"
# shellcheck disable=SC2012  # the order matters
eq "$(cd "$MNT" && ls -f many | md5sum)" "$(cd "$BASE" && ls -f many | md5sum)" "order of readdir"
eq "$(readlink "$MNT/long")" "$long/$long" "long symbolic link"
eq "$(md5sum <"$MNT/rel/est/data")" "$(md5sum <"$BASE/hard")" "through links"
eq "$(getfattr --only-values -n user.note "$MNT/hard")" hello "xattr"
eq "$(cd "$MNT" && getfattr -d -m - hard)" "$(cd "$BASE" && getfattr -d -m - hard)" "xattr list"
refuse "No such attribute" getfattr -n user.none "$MNT/hard"
if [[ -n ${acl:-} ]]; then
  eq "$(cd "$MNT" && getfacl -n many/file-3 2>/dev/null)" \
    "$(cd "$BASE" && getfacl -n many/file-3 2>/dev/null)" ACL
fi
eq "$(stat -f -c '%b %f %c %d %s %l %T' "$MNT")" "$(stat -f -c '%b %f %c %d %s %l %T' "$BASE")" statfs
refuse "No such file" cat "$MNT/none"
refuse "Not a directory" cat "$MNT/hard/none"
refuse "Is a directory" cat "$MNT/many"
refuse "File name too long" cat "$MNT/$long$long"
must cat "$MNT/null"

# A directory read in pieces, rewound and sought.
python3 - "$MNT/many" "$BASE/many" <<'PY' || fail "seeking in a directory"
import os, sys
def names(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    first = os.listdir(fd)
    os.lseek(fd, 0, os.SEEK_SET)
    second = os.listdir(fd)
    os.close(fd)
    assert first == second and len(first) == 1000
    return first
assert names(sys.argv[1]) == names(sys.argv[2])
PY

# Permission is the caller's on the lower file.
chmod 700 "$BASE/deep"
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
refuse "Permission denied" as_nobody cat "$MNT/deep/er/est/data"
chmod 755 "$BASE/deep" && chmod 600 "$BASE/hard"
refuse "Permission denied" as_nobody cat "$MNT/hard"
chmod 644 "$BASE/hard"
must as_nobody cat "$MNT/hard"
