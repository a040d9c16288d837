# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the runners of suites in shell: one line for each test, as tools/test reads them, and a verdict.

# Version managers' shims of python are slow to start.
PATH=/usr/bin:$PATH
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

setup_failed() {
  echo "not ok setup - $1"
  exit 1
}
# report ok|skip|not ok NAME [- REASON]
report() {
  case $1 in
    ok) passed=$((passed + 1)) ;;
    skip) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
  esac
  echo "$@"
}
# run_test NAME COMMAND...: runs a test and prints its line, what it counted, and on failure the end of what it said.
run_test() {
  local name=$1 status reason started=$SECONDS
  shift
  echo "ppc-test: $name" >/dev/kmsg 2>/dev/null
  "$@" >"$log" 2>&1
  status=$?
  reason=$(grep -E '^(FAIL|SKIP):' "$log" | tail -n 1 | cut -c1-300)
  grep '^# counted: ' "$log"
  echo "# $name: $((SECONDS - started)) s"
  case $status in
    0) report ok "$name" ;;
    77) report skip "$name - ${reason#SKIP: }" ;;
    *)
      tail -n 100 "$log" | sed 's/^/    /'
      report not ok "$name - status $status ${reason#FAIL: }"
      ;;
  esac
}
# unload: everything must have let go of the module.
unload() {
  if rmmod ppc; then report ok unload; else report not ok "unload - the module is still in use"; fi
}
# verdict: true when all went well, and something was there to go well.
verdict() {
  echo "$passed passed, $failed failed, $skipped skipped"
  ((failed == 0 && passed + skipped > 0))
}
