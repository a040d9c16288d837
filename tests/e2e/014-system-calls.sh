# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a policy that asks the kernel for what no policy needs is refused it, in one ppcd as in another;
# where that cannot be, ppcd says so in one line and serves.
# natively by default
. "$(dirname "$0")/lib.sh"
reference_checksum >/dev/null
asks='{"do":"ask"}' refused="ppc_init returned -1" # EPERM
unfiltered="policies may use every system call"

start_daemon
serve
refuse 1 "$refused" reg_policy "$MNT" "$BAD/libppc_misbehave.so" "$asks"
# What is needed is there: the filter costs no function.
register "$MNT" readahead
drop_caches
eq "$(checksum_of "$MNT")" "$(reference_checksum)" "checksum"
ge "$(runner_field '["loader"]["loaded"]')" $((32 << 20)) "bytes loaded ahead"
! grep "$unfiltered" "$WORK/ppcd.log" || fail "it is not filtered"
must ppcctl rm_policy "$MNT"
stop_daemon

# Of one command alone.
run() { env -u PPC_SOCKET ppcctl run --required --id only "$@" "$MNT" -- echo ran; }
refuse 125 "$refused" run --policy "$BAD/libppc_misbehave.so" --config "$asks"

# serves LAUNCHER...: a ppcd that was started by it gives the policy what it asks for.
serves() {
  start_daemon "$@"
  must ppcctl reg_policy "$MNT" "$BAD/libppc_misbehave.so" "$asks"
  must ppcctl rm_policy "$MNT"
  stop_daemon
}
: >"$WORK/ppcd.log"
# shellcheck disable=SC2016  # for the inner shell
serves sh -c 'shift && exec ppcd --no-syscall-filter "$@"' sh
! grep "$unfiltered" "$WORK/ppcd.log" || fail "it warns of what was asked for"
serves python3 "$(dirname "$0")/denied.py" seccomp
eq "$(grep -c "$unfiltered" "$WORK/ppcd.log")" 1 "lines that say so"
