# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of doctor: what it finds, and its remedies, run as they stand.

# remedy_of CODE [ARGUMENTS]: what doctor says is to be done; empty: it does not find that.
remedy_of() {
  ppcctl doctor --json "${@:2}" 2>/dev/null | python3 -c '
import json, sys
print(*(f["remedy"] for f in json.load(sys.stdin)["findings"] if f["code"] == sys.argv[1]), sep="\n")' "$1" | head -n 1
}
found() { [[ -n $(remedy_of "$@") ]]; }
gone() { [[ -z $(remedy_of "$@") ]]; }
seen=0
named() {
  within 10 found "$@" || fail "$1 is not found: $(ppcctl doctor "${@:2}" 2>&1)"
  seen=$((seen + 1))
  echo "# $1: $(remedy_of "$@")"
}
cure() {
  named "$@"
  must bash -c "$(remedy_of "$@")"
  within 10 gone "$@" || fail "$1 stays: $(ppcctl doctor "${@:2}" 2>&1)"
}
# A remedy that starts a ppcd, which stays when its shell ends.
daemon_pid() {
  ppcctl status --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["daemon"]["pid"])' 2>/dev/null
}
is_another_daemon() {
  local now
  now=$(daemon_pid)
  [[ -n $now && $now != "$DAEMON" ]] && DAEMON=$now
}
cure_by_ppcd() {
  named "$@"
  bash -c "$(remedy_of "$@")" >>"$WORK/ppcd.log" 2>&1
  within 20 is_another_daemon || fail "no ppcd is there after '$1'"
  within 10 gone "$@" || fail "$1 stays: $(ppcctl doctor "${@:2}" 2>&1)"
}
end_daemon() {
  kill "$DAEMON"
  within 20 is_dead "$DAEMON" || fail "ppcd stays"
  DAEMON=''
}
