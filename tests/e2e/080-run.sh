# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: ppcctl run records a service once and uses what it learnt the next time.
# natively by default
. "$(dirname "$0")/lib.sh"
reference_checksum >/dev/null
start_with maio
load="loadmodel --workers 2 --tp 2 $MNT | grep -o '\"checksum\":\"[0-9a-f]*\"' | head -n 1"
run() { ppcctl run --param model=m --param tp=2 --xpu 0,1 --workers 2 "$MNT" -- bash -c "$load"; }
drop_caches
eq "$(run)" "$(reference_checksum)" "checksum of the recording run"
id=$(ppcctl service-id --param tp=2 --param model=m)
has "$(ppcctl template list)" "$id  complete" "templates"
drop_caches
must ppcctl service start --param model=m --param tp=2 --xpu 0,1 --workers 2 "$MNT"
eq "$(mode_of "$id")" use "mode of the second start"
# The whole model comes without anybody reading it.
all_there() { (($(resident_of "$MNT") > 100 << 20)); }
within 60 all_there || fail "prefetched only $(resident_of "$MNT"): $(ppcctl status)"
must ppcctl is-active "$MNT" --param model=m --param tp=2 >/dev/null
has "$(ppcctl top --interval 0.2 --count 1 "$MNT")" "$id  started  use" "what top shows"
has "$(ppcctl plan --param model=m --param tp=2 "$MNT")" "follows the template" "what plan says"
must ppcctl service start --id svc-key --param api_key=hush "$MNT"
must ppcctl support-bundle --output "$WORK/bundle.tar.zst"
eq "$(stat -c %a "$WORK/bundle.tar.zst")" 600 "mode of the bundle"
bundle=$(tar --zstd -xOf "$WORK/bundle.tar.zst") || fail "the bundle cannot be read"
for word in "$id" "\"directory\": \"$MNT\"" ppc_up_seconds "$id.ppct" "\"api_key\": \"(left out)\"" "adopted\|runs (pid"; do
  grep -q "$word" <<<"$bundle" || fail "'$word' is not in the bundle"
done
[[ $bundle != *hush* ]] || fail "a key is in the bundle"
refuse 1 "File exists" ppcctl support-bundle --output "$WORK/bundle.tar.zst"
must ppcctl service stop --id svc-key "$MNT"
must ppcctl service stop --param model=m --param tp=2 "$MNT"
must ppcctl wait "$MNT" --id "$id" --for "done" --timeout 10 >/dev/null
ppcctl is-active "$MNT" --id "$id" >/dev/null && fail "a stopped service is active"
eq "$(run)" "$(reference_checksum)" "checksum of a run with a template"
ppcctl run --id svc-two "$MNT" -- bash -c 'exit 5'
eq "$?" 5 "exit status of a command"
ppcctl run --required --id svc-two /proc -- true 2>/dev/null && fail "--required ran without a policy"
stop_daemon
eq "$(ppcctl run --id svc-two "$MNT" -- echo ran 2>/dev/null)" ran "a command without ppcd"
