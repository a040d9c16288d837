#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a confined program reads what its profile says of the mount's paths, and nothing else.
# Once
# shellcheck source=tests/kmod/lib.sh
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
must apparmor_parser -K -r "$PPC_TEST_DIR/profile"
trap 'status=$?; apparmor_parser -K -R "$PPC_TEST_DIR/profile" 2>/dev/null; (exit $status); clean_up' EXIT
for mode in '' 'attach managed beacon'; do
  ppcdev "dev $DEV" "$mode" 'sleep 4000' >/dev/null &
  "$PPC_TEST_DIR/confined" "$MNT/open/a" >"$PPC_TEST_DIR/out" || fail "a permitted file was refused"
  must cmp "$PPC_TEST_DIR/out" "$BASE/open/a"
  refuse "Permission denied" "$PPC_TEST_DIR/confined" "$MNT/closed/b"
  refuse "Permission denied" "$PPC_TEST_DIR/confined" "$BASE/open/a"
  kill $! && wait $! 2>/dev/null
done
exit 0
