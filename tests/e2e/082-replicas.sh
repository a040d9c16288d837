# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: two starts of one service at a time are two services that follow one template: the model is read
# once, the end of one is not that of the other, and the log tells what each has done.
# natively by default
. "$(dirname "$0")/maio.sh"
reference_checksum >/dev/null
start_with maio
load="loadmodel --workers 2 --tp 2 $MNT | grep -o '\"checksum\":\"[0-9a-f]*\"' | head -n 1"
run() { ppcctl run --param model=m --param tp=2 --workers 2 "$MNT" -- bash -c "$load; ${1:-true}"; }
id=$(ppcctl service-id --param tp=2 --param model=m)
drop_caches
eq "$(run)" "$(reference_checksum)" "checksum of the recording run"
is_stored() { ppcctl template list | grep -q "$id"; }  # which the end of the command does not wait for
within 20 is_stored || fail "no template was recorded: $(ppcctl status "$MNT")"

drop_caches
before=$(sectors)
run "until [[ -e $WORK/go ]]; do sleep 0.1; done" >"$WORK/first" &
first=$!
active() { ppcctl is-active "$MNT" --id "$1" >/dev/null; }
within 20 active "$id" || fail "the first has not started: $(ppcctl status)"
run "sleep 1" >"$WORK/second" 2>"$WORK/second.err" &
second=$!
within 20 active "$id.2" || fail "no replica: $(cat "$WORK/second.err"; ppcctl status)"
eq "$(mode_of "$id.2")" use "mode of the second"
wait "$second" || fail "the second ended with $?"
active "$id" || fail "the first has ended with the second"
active "$id.2" && fail "the second has not ended"
touch "$WORK/go"
wait "$first" || fail "the first ended with $?"
for who in first second; do eq "$(cat "$WORK/$who")" "$(reference_checksum)" "checksum of the $who"; done
has "$(cat "$WORK/second.err")" "its replica $id.2" "what the second says"
le $((($(sectors) - before) * 512)) $((model_bytes * 105 / 100)) "bytes from the disk for both"
has "$(ppcctl logs "$MNT" --id "$id.2")" "service $id.2: use (template found" "what is logged of the second"
eq "$(ppcctl template list | grep -c "$id")" 1 "templates of the service"
