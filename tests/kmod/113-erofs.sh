#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a ppc mount over erofs.
# Once
# shellcheck source=tests/kmod/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/kmod/lower.sh
. "$(dirname "$0")/lower.sh"

check_image erofs mkfs.erofs -zlz4 "$IMAGE" "$TREE"
exit 0
