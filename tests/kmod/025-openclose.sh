#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: OPEN and CLOSE are sent on demand; CLOSE comes when the last mapping is gone.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 1000000
mount_ppc odirect=pass
out=$(dev 'attach openclose' "open $MNT/a" close events)
eq "$(field event kind "$out" 1) $(field event kind "$out" 2)" "open close" kinds
eq "$(field event len "$out" 1)" 1003520 "length of OPEN"
eq "$(field event open "$out" 1)" "$(field event open "$out" 2)" "open id"
out=$(dev 'attach openclose' "open $MNT/a" mmap close counts munmap counts)
eq "$(field counts close "$out" 1)$(field counts close "$out" 2)" 01 "CLOSE with a mapping left"
out=$(dev 'attach openclose' "open $MNT/a direct" events)
eq "$(field event flags "$out")" direct "flag of an O_DIRECT open"
out=$(dev attach "open $MNT/a" close counts)
eq "$(field counts all "$out")" 0 "events when not asked for"
out=$(dev "open $MNT/a" info mmap close info munmap info)
eq "$(field info open "$out" 1)$(field info open "$out" 2)$(field info open "$out" 3)" 110 "open files"
