# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: each policy that cannot be used gets one clear error, and harms nothing else.
# natively by default
. "$(dirname "$0")/lib.sh"
start_daemon
serve
serve "$(second_base)" MNT2
register "$MNT2" readahead
bystander=$(runner_pid)
mkdir -p "$WORK/policies"
chmod 755 "$WORK"

echo "not a library" >"$WORK/policies/libppc_text.so"
refuse 1 "libppc_text.so" reg_policy "$MNT" "$WORK/policies/libppc_text.so"
# Cut off within what is loaded: its header promises pages that are not there.
head -c 8000 "$BAD/libppc_misbehave.so" >"$WORK/policies/libppc_cut.so"
refuse 1 "libppc_cut.so" reg_policy "$MNT" "$WORK/policies/libppc_cut.so"
refuse 1 "register_policy" reg_policy "$MNT" "$BAD/libppc_no_register.so"
refuse 1 "999" reg_policy "$MNT" "$BAD/libppc_other_abi.so"
cp "$BAD/libppc_misbehave.so" "$WORK/policies/libppc_open.so"
chmod o+w "$WORK/policies/libppc_open.so"
refuse 1 "writable" reg_policy "$MNT" "$WORK/policies/libppc_open.so"
chmod 755 "$WORK/policies/libppc_open.so"
chown 1234 "$WORK/policies/libppc_open.so"
refuse 1 "root" reg_policy "$MNT" "$WORK/policies/libppc_open.so"
refuse 1 "ppc_init" reg_policy "$MNT" "$BAD/libppc_misbehave.so" '{"do":"refuse"}'
refuse 1 "thrown in ppc_init" reg_policy "$MNT" "$BAD/libppc_misbehave.so" \
  '{"do":"throw-init"}'
refuse 1 "no_such" reg_policy "$MNT" no_such
refuse 1 "/no/such.so" reg_policy "$MNT" /no/such.so

must ppcctl list
# A mount without a policy is listed, a plain directory is not.
eq "$(state)" "$(is_module && echo native)" "state after all refusals"
! is_module || eq "$(kernel_state)" native "kernel's state after all refusals"
eq "$(pgrep -c -P "$DAEMON" -x ppc-runner)" 1 "runners after all refusals"
eq "$(state "$MNT2")" running "the other mount"
eq "$(runner_pid)" "$bystander" "the other mount's runner"
register "$MNT" readahead
eq "$(state)" running "a good registration afterwards"
