# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: two directories with different policies, loaded at once; with the module two mounts of one base.
. "$(dirname "$0")/lib.sh"
reference_checksum >/dev/null
start_daemon
serve
serve "$(second_base)" MNT2
register "$MNT" eager
register "$MNT2" readahead
drop_caches
checksum_of "$MNT" >"$WORK/one" &
one=$!
checksum_of "$MNT2" --mode read >"$WORK/two" || fail "the second load failed"
wait "$one" || fail "the first load failed"
eq "$(cat "$WORK/one")" "$(reference_checksum)" "checksum of the first"
eq "$(cat "$WORK/two")" "$(reference_checksum)" "checksum of the second"
eq "$(state "$MNT")" running "first"
eq "$(state "$MNT2")" running "second"
must ppcctl rm_policy "$MNT"
eq "$(state "$MNT2")" running "second, after the first is gone"
