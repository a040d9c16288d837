# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What every test in shell may say: it exits 0 passed, 1 failed, 77 skipped, and gives the reason in one line.

fail() {
  echo "FAIL: $*"
  exit 1
}
skip() {
  echo "SKIP: $*"
  exit 77
}
eq() { [[ $1 == "$2" ]] || fail "${3:-value}: got '$1', want '$2'"; }
ge() { (($1 >= $2)) || fail "${3:-value}: got $1, want at least $2"; }
le() { (($1 <= $2)) || fail "${3:-value}: got $1, want at most $2"; }
has() { [[ $1 == *"$2"* ]] || fail "${3:-text}: '$2' is not in '$1'"; }
lacks() { [[ $1 != *"$2"* ]] || fail "${3:-text}: '$2' is in '$1'"; }
# must COMMAND...: it succeeds; output is shown when not.
must() {
  local out
  out=$("$@" 2>&1) || fail "'$*' failed: $out"
}
# within SECONDS COMMAND...: it succeeds before the time is over.
within() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}
