# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a model that is deleted below gives its space back, policy or not.
# natively by default
. "$(dirname "$0")/lib.sh"
start_daemon
mkdir -p "$FAST/base"
serve "$FAST/base"
register "$MNT" maio
sync
free_before=$(stat -f -c %a "$FAST")
mkmodel --model qwen2.5-7b --scale 256 --quiet --out "$FAST/base/model" >/dev/null || fail mkmodel
sync
must ppcctl service start --id svc-gone "$MNT"
checksum_of "$MNT/model" >/dev/null || fail "load"
le "$(stat -f -c %a "$FAST")" $((free_before - 10000)) "free blocks with the model"
rm -rf "$FAST/base/model"
is_free() { (($(stat -f -c %a "$FAST") >= free_before - 100)); }
within 20 is_free || fail "$(stat -f -c %a "$FAST") blocks free after 20 s, were $free_before"
[[ ! -e $MNT/model ]] || fail "the model is still seen"
eq "$(state)" running "the policy"
