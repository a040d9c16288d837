# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: malformed config, a second policy, unknown words: one clear error each.
# natively by default
. "$(dirname "$0")/lib.sh"
start_daemon
serve
refuse 2 "config" reg_policy "$MNT" maio '{"distance":'
refuse 2 "config" reg_policy "$MNT" maio '[1,2]'
refuse 1 "distance" reg_policy "$MNT" maio '{"distance":"seven"}'
refuse 1 "distant" reg_policy "$MNT" maio '{"distant":"64M"}'
refuse 1 "lease_ms" reg_policy "$MNT" maio '{"runtime":{"lease_ms":"soon"}}'
refuse 1 "neither a name nor an absolute path" reg_policy "$MNT" dir/maio
refuse 1 "ppc mount" ppcctl reg_policy /run maio --backend kmod
refuse 1 "nothing to load" ppcctl reg_policy /proc maio
refuse 2 "no backend 'ebpf'" ppcctl reg_policy "$MNT" maio --backend ebpf
refuse 2 "did you mean 'status'" ppcctl statsu
refuse 2 "did you mean '--backend'" ppcctl reg_policy "$MNT" maio --bakcend observer
refuse 125 "needs a command" ppcctl run "$MNT"
if is_module; then
  refuse 1 "backend kmod" ppcctl reg_policy "$MNT" maio --backend observer
  mkdir -p "$FAST/base/sub"
  mount_ppc "$FAST/base" "$MNT2"
  refuse 1 "inside" ppcctl reg_policy "$MNT2/sub" maio
fi

register "$MNT" maio '{"distance":"64M"}'
runner=$(runner_pid)
refuse 1 "'maio'" reg_policy "$MNT" readahead
refuse 1 "64M" reg_policy "$MNT" maio '{"distance":"32M"}'
must reg_policy "$MNT" maio '{"distance":"64M"}'
refuse 1 "service ID" ppcctl service start "$MNT" --id ../../x
refuse 1 "not started" ppcctl service ready "$MNT" --id never
refuse 1 "cgroup" ppcctl service start "$MNT" --id svc-one --cgroup /no/such

eq "$(state)" running "the registered policy"
eq "$(runner_pid)" "$runner" "its runner"
eq "$(checksum_of "$MNT")" "$(reference_checksum)" "checksum"
