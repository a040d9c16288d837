# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the shell tools share: where the repository is, how they speak.  Sourced, never run.

# Used by the scripts that source this file.
# shellcheck disable=SC2034
PPC_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
PPC_TOOL=${0##*/}

# Progress for people; never part of a tool's result.
say() { printf '%s: %s\n' "$PPC_TOOL" "$*" >&2; }

# die MESSAGE [STATUS]: one line that names the thing and the remedy.
die() {
  printf '%s: %s\n' "$PPC_TOOL" "$1" >&2
  exit "${2:-1}"
}

# quietly WHAT COMMAND...: runs the command, shows its output only when it fails.
quietly() {
  local what=$1 log status=0
  shift
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  if ((status)); then
    tail -n 60 "$log" >&2
    rm -f "$log"
    die "$what failed (status $status)" "$status"
  fi
  rm -f "$log"
}

# as_root: package installation and host modules need it.
as_root() { [[ $(id -u) -eq 0 ]] || die "$1 needs root; run it as root"; }
