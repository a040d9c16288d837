# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A suite in a guest of each of several kernels, resumable: one that passed is not repeated while what it
# ran is the same.  Sourced from the top of the tree.

# kernel_runs_key FILE...: what a run depends on, for kernel_run.
kernel_runs_key() { sha256sum "$@" | sha256sum | cut -c1-16; }

# kernel_run NAME KEY RELEASE TOOLS_VM_ARGUMENT...: prints the result lines with the release before their names;
# false when one failed.
kernel_run() {
  local name=$1 key=$2 release=$3 state=build/test passed log code status=0
  shift 3
  mkdir -p "$state"
  passed=$state/$name-$release.passed
  if [[ -f $passed ]] && [[ $(head -n 1 "$passed") == "$key" ]]; then
    tail -n +2 "$passed"
    return
  fi
  log=$(mktemp)
  tools/vm --kernel "$release" "$@" 2>&1 | sed -uE "s,^(ok|not ok|skip) ,&$release/," | tee "$log"
  code=${PIPESTATUS[0]}
  if ((code == 0)) && ! grep -q '^not ok ' "$log"; then
    { echo "$key" && grep -E '^(ok|skip) ' "$log"; } >"$passed"
  else
    status=1
    grep -q '^not ok ' "$log" || echo "not ok $release/guest - status $code"
  fi
  rm -f "$log"
  return "$status"
}
