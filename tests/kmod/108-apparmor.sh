#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a confined program reads what its profile says of the mount's paths, and nothing else; what
# it has opened it may list, send and protect, although the lower paths are not its own.
# Once
# Not --selinux
. "$(dirname "$0")/lib.sh"

command -v apparmor_parser >/dev/null || skip "no apparmor_parser"
mountpoint -q /sys/kernel/security || mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
[[ $(cat /sys/module/apparmor/parameters/enabled 2>/dev/null) == Y ]] || skip "AppArmor is off"
mkdir -p "$BASE/open" "$BASE/closed"
make_file open/a 1M
make_file closed/b 1M
mount_ppc
# A program of its own, on a real file system.
cp /bin/cat "$PPC_TEST_DIR/confined"
cat >"$PPC_TEST_DIR/profile" <<P
profile ppc-test $PPC_TEST_DIR/confined {
  file rm,
  deny $MNT/closed/** r,
  deny $BASE/** r,
}
P
sed -i "s|file rm,|$PPC_TEST_DIR/confined rm,\n  /{,usr/}lib/** rm,\n  /etc/ld.so.* r,\n  $MNT/open/** r,|" "$PPC_TEST_DIR/profile"
cp "$(realpath /usr/bin/python3)" "$PPC_TEST_DIR/confined-python"
cat >>"$PPC_TEST_DIR/profile" <<P
profile ppc-test-python $PPC_TEST_DIR/confined-python {
  /** rm,
  deny $BASE/** r,
}
P
must apparmor_parser -K -r "$PPC_TEST_DIR/profile"
trap 'status=$?; apparmor_parser -K -R "$PPC_TEST_DIR/profile" 2>/dev/null; (exit $status); clean_up' EXIT
for mode in '' 'attach managed beacon'; do
  beside "$mode"
  "$PPC_TEST_DIR/confined" "$MNT/open/a" >"$PPC_TEST_DIR/out" || fail "a permitted file was refused"
  must cmp "$PPC_TEST_DIR/out" "$BASE/open/a"
  refuse "Permission denied" "$PPC_TEST_DIR/confined" "$MNT/closed/b"
  refuse "Permission denied" "$PPC_TEST_DIR/confined" "$BASE/open/a"
  "$PPC_TEST_DIR/confined-python" - "$MNT/open" <<'PY' || fail "what a confined program does with open files"
import ctypes, mmap, os, sys
assert open("/proc/self/attr/current").read().startswith("ppc-test-python")
assert os.listdir(sys.argv[1]) == ["a"]
fd = os.open(sys.argv[1] + "/a", os.O_RDONLY)
reader, writer = os.pipe()
assert os.sendfile(writer, fd, 0, 4096) == 4096
memory = mmap.mmap(fd, 65536, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for protection in (0, 1, 1 | 4):
    assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(address), 65536, protection) == 0, protection
assert os.pread(fd, 4096, 0) == memory[:4096]
PY
  alone "$mode"
done
exit 0
