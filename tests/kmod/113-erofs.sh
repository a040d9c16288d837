#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a ppc mount over erofs.
# Once
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lower.sh"

check_image erofs mkfs.erofs -zlz4 "$IMAGE" "$TREE"
exit 0
