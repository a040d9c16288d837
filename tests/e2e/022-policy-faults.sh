# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: hooks that throw, return nonsense, hang or crash cost the policy, never the load.
# natively by default
. "$(dirname "$0")/lib.sh"
reference_checksum >/dev/null
start_daemon
serve
give_up() {
  miss
  state_is failed
}
# The load goes on while one policy after the other fails under it.
start_load "$MNT"
for fault in throw nonsense hang crash; do
  # An exception is slow the first time, in an emulated machine.
  limit=5000
  [[ $fault == hang ]] && limit=300
  register "$MNT" "$BAD/libppc_misbehave.so" \
    "{\"do\":\"$fault\",\"runtime\":{\"hook_timeout_ms\":$limit}}"
  within 60 give_up || fail "$fault: the policy stays: $(ppcctl status "$MNT")"
  eq "$(kernel_state)" native "kernel's state after $fault"
  error=$(status_field '["last_error"]')
  echo "# $fault: $error"
  [[ -n $error ]] || fail "$fault: status does not say why"
done
finish_load
register "$MNT" readahead
eq "$(state)" running "a good registration afterwards"
