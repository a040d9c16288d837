# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a ppc mount in a ppc mount, both registered: what is read there is told to the inner one alone, and to
# the outer one once the inner one is unmounted.
# needs module
. "$(dirname "$0")/lib.sh"
trap 'umount -q "$MNT/inner"; cleanup' EXIT
start_daemon
base=$FAST/outer
mkdir -p "$base/inner"
for file in "$base/a" "$base/inner/b"; do dd if=/dev/zero of="$file" bs=64K count=4 status=none; done
sync
mount_ppc "$base" "$MNT"
mount_ppc "$base/inner" "$MNT/inner"
register "$MNT" kvtier
register "$MNT/inner" kvtier
told_alone "$MNT/inner" "$MNT" "$MNT/inner/b"
told_alone "$MNT" "$MNT/inner" "$MNT/a"
must ppcctl rm_policy "$MNT/inner"
must umount "$MNT/inner"
(($(missed "$MNT" "$MNT/inner/b") > 0)) || fail "without the inner mount $MNT is not told of what lay there"
