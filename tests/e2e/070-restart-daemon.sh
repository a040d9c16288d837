# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: ppcd is killed and started again in the middle of a load.
. "$(dirname "$0")/lib.sh"
reference_checksum >/dev/null
start_with maio
must ppcctl service start --id svc-one --xpu 0,1 "$MNT"
start_load "$MNT"
is_native() { within 20 kernel_state_is native || fail "kernel's state is $(kernel_state)"; }
restart_daemon is_native
eq "$(status_field '["services"][0]["service_id"]')" svc-one "service"
finish_load
must ppcctl service ready --id svc-one "$MNT"
must ppcctl service stop --id svc-one "$MNT"
stop_daemon
eq "$(kernel_state)" native "kernel's state without ppcd"
