# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: an unprivileged user, a member of the sockets' group, root of another container and a pod of the same
# user try every verb on somebody's service: all are refused and logged, and the service goes on.
# natively by default
. "$(dirname "$0")/maio.sh"
here=$(dirname "$0")
command -v setpriv >/dev/null || skip "no setpriv"
USER1=61001 USER2=61002
POD_A=$GROUPS_DIR/ppc-pod-a.$$ POD_B=$GROUPS_DIR/ppc-pod-b.$$ HOME2=$GROUPS_DIR/ppc-user.$$
mkdir -p "$POD_A" "$POD_B" "$HOME2"
trap 'xargs -r kill <"$POD_A/cgroup.procs"; cleanup; remove_groups "$GROUP" "$POD_A" "$POD_B" "$HOME2"' EXIT
chmod 711 "$WORK"
start_with maio
runner=$(runner_pid)
SERVICE_SOCKET=$WORK/service/ppcd.sock
eq "$(stat -c %a "$PPC_SOCKET" "$SERVICE_SOCKET" | xargs)" "600 666" "modes of the sockets"

# as UID GID GROUP COMMAND...: a process of that user in that control group.
# shellcheck disable=SC2016  # for the inner shell
as() { bash -c 'echo $$ >"$2/cgroup.procs" && exec setpriv --reuid "$0" --regid "$1" --clear-groups "${@:3}"' "$@"; }
ask() { as "$1" "$2" "$3" python3 -B "$here/ask.py" "${@:4}"; }

as $USER1 $USER1 "$POD_A" sleep 600 &
VICTIM=$!
must as $USER1 $USER1 "$POD_A" ppcctl service start --id svc-a --workers 1 "$MNT"
services() { status_field '["services"]'; }
has "$(services)" "'cgroup': '/ppc-pod-a.$$'" "who pays"

about() { echo "{\"op\": \"$1\", \"mount\": \"$MNT\", \"service_id\": \"svc-a\"${2:-}}"; }
start() { echo "{\"op\": \"service_start\", \"mount\": \"$MNT\", \"service_id\": \"svc-x\", $1}"; }
verbs=(
  "$(about service_ready)" "$(about service_stop)" "$(about service_start ', "pid": 0')"
  "$(start "\"pid\": $VICTIM")" "$(start "\"pid\": 1")" "$(start '"cgroup": "/ppc-pod-a.'$$'", "pid": 0')"
  "$(start "\"cgroup\": \"$POD_A\", \"pid\": 0")" "$(start '"cgroup": "/", "pid": 0')"
  "{\"op\": \"reg_policy\", \"mount\": \"$FAST\", \"policy\": \"maio\"}"
  "{\"op\": \"reg_policy\", \"mount\": \"$FAST\", \"policy\": \"$PPC_E2E_BUILD/policies/libppc_maio.so\"}"
  "{\"op\": \"rm_policy\", \"mount\": \"$MNT\"}" '{"op": "list"}' '{"op": "log"}' '{"op": "metrics"}' '{"op": "off"}' '{"op": "on"}'
  '{"op": "node_state", "node": {}, "for_s": 1}' "$(about service_failed)" "$(about service_phase ', "phase": "weights"')"
  "{\"op\": \"policy\", \"mount\": \"$MNT\", \"message\": {\"op\": \"status\"}}"
  "{\"op\": \"policy\", \"mount\": \"$MNT\", \"message\": {\"op\": \"bind_pid\", \"service_id\": \"svc-a\", \"pid\": $VICTIM, \"worker\": 0}}"
)
# Every operation of the protocol is among them, or anybody's.
tried=" ping service_id status $(grep -oE '"op": "[a-z_]+"' <<<"${verbs[*]}" | cut -d'"' -f4 | xargs) "
operations=$(sed -nE 's/^ *Operation\{"([a-z_]+)".*/\1/p' "$here/../../daemon/wire/protocol.cc")
has "$operations" service_start "operations of the protocol"
for op in $operations; do has "$tried" " $op " "what is tried"; done
# So many refusals of one user in one group are logged at once, and then one each two seconds.
AT_ONCE=20
# logged UID GROUP: how many refusals of that user there.
logged() { grep -c "refused: uid $1 pid [0-9]* cgroup \"/$(basename "$2")\" " "$WORK/ppcd.log"; }
# attack WHO UID GID GROUP
attack() {
  local before after answers
  before=$(logged "$2" "$4")
  answers=$(ask "$2" "$3" "$4" "$SERVICE_SOCKET" "${verbs[@]:0:AT_ONCE}")
  sleep $((2 * (${#verbs[@]} - AT_ONCE) + 1))
  answers+=$'\n'$(ask "$2" "$3" "$4" "$SERVICE_SOCKET" "${verbs[@]:AT_ONCE}")
  after=$(logged "$2" "$4")
  eq "$(sort <<<"$answers" | uniq -c | xargs)" "${#verbs[@]} EACCES" "$1: what ${#verbs[@]} requests got"
  eq $((after - before)) "${#verbs[@]}" "$1: refusals in the log"
  eq "$(as "$2" "$3" "$4" env PPC_SOCKET="$SERVICE_SOCKET" ppcctl status --json | grep -c svc-a)" 0 "$1: what status tells"
  echo "# $1: ${#verbs[@]} of ${#verbs[@]} refused and logged"
}
attack "an unprivileged user" $USER2 $USER2 "$HOME2"
attack "root of another container" 0 0 "$POD_B"
attack "a pod of the same user" $USER1 $USER1 "$POD_B"
# Of the group that the sockets belong to.
members=$(stat -c %g "$PPC_SOCKET")
eq "$(ask $USER2 "$members" "$HOME2" "$PPC_SOCKET" "${verbs[@]}")" "connect EACCES" "a member of the group on root's socket"
eq "$(ask $USER2 "$members" "$HOME2" "$SERVICE_SOCKET" "${verbs[@]:0:2}" | xargs)" "EACCES EACCES" "a member of the group"
# Root of a user namespace is the user who made it.
if unshare --user --map-root-user true 2>/dev/null; then
  eq "$(as $USER1 $USER1 "$POD_B" unshare --user --map-root-user python3 -B "$here/ask.py" "$PPC_SOCKET" "${verbs[@]}")" \
    "connect EACCES" "root of a user namespace on root's socket"
else
  echo "# counted: left out, as unshare --user is refused here: root of a user namespace"
fi
# In the root group there is everybody: the same user's own process may have a service, and only that.
eq "$(ask $USER1 $USER1 "$GROUPS_DIR" "$SERVICE_SOCKET" "$(about service_stop)" "$(start "\"pid\": $VICTIM")" "$(start '"workers": 1')" \
  "$(start '"pid": 0')" | xargs)" "EACCES EACCES EINVAL ok" "the same user in the root group"
# Its caller has ended by now, and it with him.
is_gone() { [[ $(services) != *svc-x* ]]; }
within 20 is_gone || fail "a service outlives its process"
refuse 1 "list is root's: run ppcctl as root" as $USER2 $USER2 "$HOME2" ppcctl list
refuse 1 "only that group, or root" as $USER2 $USER2 "$HOME2" ppcctl service stop --id svc-a "$MNT"

# in_pod COMMAND...: root of a container that has the directory of the services' socket and not root's.
mkdir -p "$FAST/contained"
# shellcheck disable=SC2016  # for the inner shell
in_pod() {
  as 0 0 "$POD_B" unshare --mount --propagation private --pid --fork --kill-child --mount-proc bash -ec '
    mount --bind "$0/service" "$1"
    mount -t tmpfs none "$0"
    mkdir "$0/service"
    mount --bind "$1" "$0/service"
    exec "${@:2}"' "$WORK" "$FAST/contained" "$@"
}
eq "$(in_pod ls "$WORK")" service "what the container has of $WORK"
eq "$(in_pod python3 -B "$here/ask.py" "$SERVICE_SOCKET" "${verbs[@]:0:3}" "$(start '"pid": 0')" "$(start '"workers": 1')" | xargs)" \
  "EACCES EACCES EACCES ok ok" "root of the container"
has "$(in_pod ppcctl status --json)" '"service_id": "svc-x"' "its status"
refuse 1 "rm_policy is root's" in_pod ppcctl rm_policy "$MNT"
must in_pod ppcctl service stop --id svc-x "$MNT"

# All this has changed nothing of the service, which its own group may still tell of.
has "$(services)" svc-a "the service"
eq "$(state)" running "the policy"
eq "$(runner_pid)" "$runner" "its runner"
eq "$(ppcctl list | wc -l)" 1 "registrations"
eq "$(ask $USER2 $USER2 "$POD_A" "$SERVICE_SOCKET" "$(about service_ready)" "$(about service_stop)" | xargs)" "ok ok" \
  "whoever is in the service's own group"
must ppcctl service start --id svc-a --cgroup "$POD_A" --workers 1 "$MNT"
eq "$(ask $USER1 $USER1 "$POD_B" "$SERVICE_SOCKET" "${verbs[1]}")" EACCES "another group on what root started for one"
eq "$(ask $USER1 $USER1 "$POD_A" "$SERVICE_SOCKET" "${verbs[1]}")" ok "the group that root started it for"
kill $VICTIM
