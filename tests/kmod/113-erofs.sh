#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a ppc mount over erofs.
# Once
# shellcheck source=tests/kmod/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/kmod/lower.sh
. "$(dirname "$0")/lower.sh"

{ modprobe erofs && command -v mkfs.erofs; } >/dev/null 2>&1 || skip "no erofs"
trap 'status=$?; umount "$MNT" "$BASE" 2>/dev/null; (exit $status); clean_up' EXIT
make_tree "$PPC_TEST_DIR/tree"
must mkfs.erofs -zlz4 "$PPC_TEST_DIR/image" "$PPC_TEST_DIR/tree"
must mount -o loop "$PPC_TEST_DIR/image" "$BASE"
mount_ppc
check_lower "$BASE"
must cmp "$MNT/a" "$PPC_TEST_DIR/tree/a"
must umount "$MNT"
must umount "$BASE"
exit 0
