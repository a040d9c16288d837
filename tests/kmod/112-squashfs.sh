#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: a ppc mount over squashfs.
# Once
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lower.sh"

check_image squashfs mksquashfs "$TREE" "$IMAGE" -quiet -no-progress
exit 0
