#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: mounting, unmounting and unloading against opening, faulting, loading, evicting and
# changes of the files below.
. "$(dirname "$0")/../kmod/lib.sh"

mkdir -p "$MNT"
for i in 0 1 2; do must ppc-attack make path="$BASE/a$i" bytes=2M; done
must ppc-attack make path="$BASE/t" bytes=1M seed=3
ppc-attack races base="$BASE" mnt="$MNT" module="$(modinfo -n ppc)" "$@" || fail "a race was lost"
modprobe ppc
