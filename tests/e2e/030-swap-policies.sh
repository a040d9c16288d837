# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: policies are swapped in the middle of a load; no byte changes.
# natively by default
. "$(dirname "$0")/lib.sh"
reference_checksum >/dev/null
start_with readahead
start_load "$MNT"
for policy in eager null maio readahead; do
  must ppcctl rm_policy "$MNT"
  eq "$(kernel_state)" native "kernel's state between policies"
  register "$MNT" "$policy"
  eq "$(status_field '["policy"]')" "$policy" "policy in the status"
  ! is_module || eq "$(cat "$(sys_of "$MNT")/policy")" "$policy" "attached policy"
done
finish_load
