# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: hooks that throw, return nonsense, hang or crash cost the policy, never the load.
. "$(dirname "$0")/lib.sh"
reference_checksum >/dev/null
start_daemon
mount_ppc
for fault in throw nonsense hang crash; do
  # An exception is slow the first time, in an emulated machine.
  limit=5000
  [[ $fault == hang ]] && limit=300
  register "$MNT" "$BAD/libppc_misbehave.so" \
    "{\"do\":\"$fault\",\"runtime\":{\"hook_timeout_ms\":$limit}}"
  drop_caches
  # A crash is counted only while it repeats, so there must be misses until it gives up.
  checksum_of "$MNT" >"$WORK/loaded" &
  load=$!
  give_up() {
    dd if="$(find "$MNT" -name '*.safetensors' | sort | tail -n 1)" of=/dev/null bs=64K count=1 \
      status=none
    echo 1 >/proc/sys/vm/drop_caches
    state_is failed
  }
  within 60 give_up || fail "$fault: the policy stays: $(ppcctl status "$MNT")"
  wait "$load" || fail "$fault: the load failed"
  eq "$(cat "$WORK/loaded")" "$(reference_checksum)" "checksum after $fault"
  eq "$(kernel_state)" native "kernel's state after $fault"
  echo "# $fault: $(status_field '["last_error"]')"
  [[ -n $(status_field '["last_error"]') ]] || fail "$fault: status does not say why"
done
register "$MNT" readahead
eq "$(state)" running "a good registration afterwards"
