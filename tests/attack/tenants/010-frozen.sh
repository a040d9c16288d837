# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a tenant of the same directory is stopped in the middle of its load: its processes by a signal, then its
# container by the freezer.  Its queued loads and its readers that stand still take nothing from the victim.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
FREEZER=/sys/fs/cgroup/freezer
if [[ -d $FREEZER ]]; then FROZEN=$FREEZER/ppc-tenant.$$; else FROZEN=$OTHER; fi
freeze() {
  if [[ -d $FREEZER ]]; then
    if [[ $1 == 1 ]]; then echo FROZEN; else echo THAWED; fi >"$FROZEN/freezer.state"
  else
    echo "$1" >"$FROZEN/cgroup.freeze"
  fi
}
THEIRS=$PPC_E2E_SLOW/large
of_others() { resident_of "$THEIRS"; }
calm() {
  freeze 0 2>/dev/null
  end_of_group "$OTHER"
  ppcctl service stop --id svc-other "$MNT" >/dev/null 2>&1
  if [[ -d $FREEZER ]]; then rmdir "$FROZEN" 2>/dev/null; fi
}
start_daemon
serve "$PPC_E2E_SLOW"
register "$MNT" maio '{"at_ready": "keep"}'
VICTIM=$MNT/model
# load_theirs MBPS: as the other tenant, in its container.
load_theirs() {
  if [[ -d $FREEZER ]]; then mkdir -p "$FROZEN"; fi
  must ppcctl service start --id svc-other --cgroup "$OTHER" --workers 2 --xpu 0,1 "$MNT"
  # shellcheck disable=SC2016  # for the inner shell
  as_other bash -c '[[ $0 == "$1" ]] || echo $$ >"$0/cgroup.procs"; exec "${@:2}"' "$FROZEN" "$OTHER" \
    loadmodel --workers 2 --device-mbps "$1" "$MNT/large" >/dev/null
}
load_theirs 0 || fail "the other tenant does not load"
must ppcctl service ready --id svc-other "$MNT"
must ppcctl service stop --id svc-other "$MNT"
alone
# stand HOW: the other tenant starts, and stands still when a part of its model is there and more is asked for.
stand() {
  load_theirs 5 2>/dev/null &
  has_begun() { (($(resident_of "$THEIRS") > 16 << 20)); }
  within 30 has_begun || fail "the other tenant does not load"
  if [[ $1 == frozen ]]; then freeze 1; else xargs kill -STOP <"$OTHER/cgroup.procs"; fi
}
for how in stopped frozen; do
  victim stand "$how"
  [[ $(cat "$OTHER/cgroup.procs") ]] || fail "the other tenant has ended, which proves nothing"
  unharmed "$how"
  calm
done
