#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: labels of the lower files show through and decide about a confined program: what it reads, maps,
# runs, sends and lists; so do the mounter's rights below, and a label that is changed there.
# Only --selinux
. "$(dirname "$0")/lib.sh"

eq "$(cat /sys/fs/selinux/enforce)" 1 "enforcing"
label() { chcon "system_u:object_r:$1" "$BASE/$2" || fail "no label $1 for $2"; }
label_of() { stat -c %C "$1"; }
as() { runcon "system_u:system_r:$1" "${@:2}"; }
# uses FILE WHAT...: what a confined program may do with it, one word for each WHAT: ok or the error.
uses() {
  as reader_t /usr/bin/python3 - "$MNT/$1" "${@:2}" <<'PY' || fail "the confined program failed"
import ctypes, errno, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
READ, EXEC, PRIVATE, SIZE = mmap.PROT_READ, mmap.PROT_EXEC, mmap.MAP_PRIVATE, 65536
assert open("/proc/self/attr/current").read().rstrip("\0\n") == "system_u:system_r:reader_t"

def mapped(fd, protection):
    address = libc.mmap(None, SIZE, protection, PRIVATE, fd, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    return address

def read(fd):
    assert len(os.pread(fd, SIZE, 0)) == SIZE

def send(fd):
    reader, writer = os.pipe()
    assert os.sendfile(writer, fd, 0, 4096) == 4096

def splice(fd):
    reader, writer = os.pipe()
    assert os.splice(fd, writer, 4096, 0) == 4096

def execmap(fd):
    assert ctypes.string_at(mapped(fd, READ | EXEC), SIZE) == os.pread(fd, SIZE, 0)

def protect(fd):
    if libc.mprotect(mapped(fd, READ), SIZE, READ | EXEC):
        raise OSError(ctypes.get_errno(), "mprotect")

calls = {"read": read, "send": send, "splice": splice, "map": lambda fd: mapped(fd, READ), "execmap": execmap,
         "protect": protect}
words = []
for what in sys.argv[2:]:
    try:
        fd = os.open(sys.argv[1], os.O_RDONLY)
        calls[what](fd)
        words.append("ok")
    except OSError as error:
        words.append(errno.errorcode[error.errno])
print(*words)
PY
}
# uses_of FILE LINES: "WHAT ANSWER" for each.
uses_of() {
  local file=$1 what=() want=()
  shift
  while (($#)); do what+=("$1") want+=("$2") && shift 2; done
  eq "$(uses "$file" "${what[@]}")" "${want[*]}" "$file, ${what[*]}"
}

mkdir -p "$BASE/dir"
for file in open data closed below dir/open; do make_file $file 128K; done
cp /usr/bin/cat "$BASE/prog"
for file in open data closed below; do label "${file}_t" $file; done
label open_t dir
label open_t dir/open
label prog_exec_t prog
mkdir -p "$MNT"
must as mounter_t mount -t ppc "$BASE" "$MNT"
find_device "$MNT"

# 1. Labels are those of the lower files.
for file in open data closed below prog . dir dir/open; do
  eq "$(label_of "$MNT/$file")" "$(label_of "$BASE/$file")" "label of $file"
done
has "$(grep " $MNT ppc " /proc/self/mounts)" seclabel "options of the mount"
eq "$(label_of "$MNT/closed")" system_u:object_r:closed_t "a label"

for mode in '' 'attach managed beacon'; do
  beside "$mode"
  # 2. They decide about who comes.
  uses_of open read ok send ok splice ok map ok execmap ok
  uses_of data read ok map ok execmap EACCES protect EACCES
  uses_of closed read EACCES map EACCES
  refuse "Permission denied" as reader_t cat "$MNT/closed"
  eq "$(as reader_t ls "$MNT/dir")" open "a list of a directory"
  refuse "Permission denied" as reader_t "$MNT/prog" /dev/null
  # What is changed later asks for the lower file by the descriptor of who opened it, before 6.12 as the caller.
  if kernel_before 6.12; then uses_of open protect EACCES; else uses_of open protect ok; fi
  # 3. The mounter may not run it below: from then on no task may here, in kernels that ask.
  uses_of below read ok map ok
  if kernel_before 6.12; then uses_of below execmap ok; else uses_of below execmap EACCES protect EACCES; fi
  # 4. A program enters its domain.
  eq "$("$MNT/prog" /proc/self/attr/current | tr -d '\0')" system_u:system_r:prog_t "domain of a program"
  alone "$mode"
done

# 5. A label that is changed below is the label here, for open files too.
eq "$(uses closed read)" EACCES "before the change"
sleep 0.1 # the clock of changes ticks more slowly
label open_t closed
uses_of closed read ok execmap ok
eq "$(label_of "$MNT/closed")" system_u:object_r:open_t "a label that has changed"
sleep 0.1
label closed_t closed
uses_of closed read EACCES
eq "$(label_of "$MNT/closed")" system_u:object_r:closed_t "a label that has changed back"
sleep 0.1
label data_t open
uses_of open read ok execmap EACCES
must umount "$MNT"

# 6. A file that is first met by its handle has the label of the lower one, not the default.  Of a whole file system,
# where a file's handle leads to no name.
modprobe loop
root=$PPC_TEST_DIR/root
mkdir "$root"
truncate -s 16M "$PPC_TEST_DIR/image"
must mkfs.ext4 -q "$PPC_TEST_DIR/image"
must mount -o loop "$PPC_TEST_DIR/image" "$root"
trap 'status=$?; umount "$MNT" "$root" 2>/dev/null; (exit $status); clean_up' EXIT
cp "$BASE/closed" "$root/closed"
must chcon "$(label_of "$BASE")" "$root"
must chcon system_u:object_r:closed_t "$root/closed"
must as mounter_t mount -t ppc "$root" "$MNT"
by_handle=$(python3 - "$MNT" "$(ppc-answers handle "$root/closed")" <<'PY'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
kind, handle = sys.argv[2].split()[0], bytes.fromhex(sys.argv[2].split()[1])
fd = libc.open_by_handle_at(os.open(sys.argv[1], os.O_RDONLY), struct.pack("Ii", len(handle), int(kind)) + handle, os.O_RDONLY)
print(os.getxattr(fd, "security.selinux").rstrip(b"\0").decode() if fd >= 0 else os.strerror(ctypes.get_errno()))
PY
)
eq "$by_handle" system_u:object_r:closed_t "label of a file met by its handle"
uses_of closed read EACCES
must umount "$MNT"
must umount "$root"

# 7. One label for all opens nothing: the lower files keep theirs.
must mount -t ppc -o context=system_u:object_r:open_t "$BASE" "$MNT"
eq "$(label_of "$MNT/closed")" system_u:object_r:open_t "label by context="
uses_of below read ok execmap ok
uses_of closed read EACCES
must umount "$MNT"
