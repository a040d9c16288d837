#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: each wrong mount is refused with one clear message.
# Once
. "$(dirname "$0")/lib.sh"

mkdir -p "$MNT"
echo x >"$BASE/file"

# refused SAYING BASE [OPTIONS]: the kernel log says why.
refused() {
  local mark="ppc-test-mark-$RANDOM-$RANDOM"
  echo "$mark" >/dev/kmsg
  mount -t ppc ${3:+-o "$3"} "$2" "$MNT" 2>/dev/null && fail "mount of $2 ($3) succeeded"
  has "$(dmesg | sed "1,/$mark/d")" "$1" "kernel log after mounting '$2' with '${3:-}'"
}

refused "base '$BASE/nothing' does not exist" "$BASE/nothing"
refused "base '$BASE/file' is not a directory" "$BASE/file"
refused "unknown mount option 'colour'" "$BASE" colour=red
refused "unknown mount option 'size'" "$BASE" window=1M,size=3
refused "window=3M: want a power of two" "$BASE" window=3M
refused "window=1: want" "$BASE" window=1
refused "window=64M: want" "$BASE" window=64M
refused "window=1Mx: want" "$BASE" window=1Mx
refused "beacon=4K: want" "$BASE" beacon=4K
refused "beacon=2G: want" "$BASE" beacon=2G
refused "queue=63: want" "$BASE" queue=63
refused "queue=100000: want" "$BASE" queue=100000
refused "odirect" "$BASE" odirect=maybe
# The test machine's root is an overlay.
if [[ $(stat -f -c %T /etc) == overlayfs ]]; then
  refused "base '/etc' is on overlayfs" /etc
fi
# A mount that may not be cloned.
mkdir -p "$BASE/u"
mount -t tmpfs tmpfs "$BASE/u" && mount --make-unbindable "$BASE/u"
refused "unbindable" "$BASE/u"
umount "$BASE/u"
# Three levels: the kernel allows two.
mkdir -p "$PPC_TEST_DIR/one" "$PPC_TEST_DIR/two"
must mount -t ppc "$BASE" "$PPC_TEST_DIR/one"
must mount -t ppc "$PPC_TEST_DIR/one" "$PPC_TEST_DIR/two"
eq "$(cat "$PPC_TEST_DIR/two/file")" x "file through two levels"
refused "stacked too deep" "$PPC_TEST_DIR/two"
umount "$PPC_TEST_DIR/two" "$PPC_TEST_DIR/one"
refused "no base directory: mount -t ppc BASE MOUNTPOINT" ''
ls /dev/ppc* >/dev/null 2>&1 && fail "a failed mount left its device"
exit 0
