# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A suite in a guest of each of several kernels, resumable: one that passed is not repeated while what it
# ran is the same.  Sourced from the top of the tree.

# kernel_runs_key FILE...: what a run depends on, for kernel_run.
kernel_runs_key() { sha256sum "$@" | sha256sum | cut -c1-16; }

# kernel_run NAME KEY RELEASE TOOLS_VM_ARGUMENT...: prints the result lines with the release before their names;
# false when one failed.  RELEASE "debug": the debug kernel.
kernel_run() {
  local name=$1 key=$2 release=$3 state=build/test passed log code status=0 kernel=(--kernel "$3")
  shift 3
  if [[ $release == debug ]]; then kernel=(--debug); fi
  mkdir -p "$state"
  passed=$state/$name-$release.passed
  if [[ -f $passed ]] && [[ $(head -n 1 "$passed") == "$key" ]]; then
    tail -n +2 "$passed"
    return
  fi
  log=$(mktemp)
  tools/vm "${kernel[@]}" "$@" 2>&1 | sed -uE "s,^(ok|not ok|skip) ,&$release/," | tee "$log"
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

# kernel_run_kmod NAME RELEASE PATTERN APPEND ARGUMENT...: the module's guest tests on a machine with these
# kernel parameters, with these arguments; in parts, each a run of its own, unless PATTERN names tests.
kernel_run_kmod() {
  local name=$1 release=$2 pattern=$3 append=$4 key part files status=0
  local parts=('/0[0-3]' '/0[4-9]' '/1' pmem icount) machine suite=tests/kmod/run pmem
  shift 4
  mapfile -t files < <(git ls-files kmod include tests/kmod tests/lib)
  key=$(kernel_runs_key "${files[@]}" build/bin/ppcdev build/bin/ppc-answers)
  if [[ -n $pattern ]]; then parts=("$pattern"); fi
  for part in "${parts[@]}"; do
    case $part in
      # As in tests/kmod/run, for those that want such a machine.
      pmem)
        pmem=(--pmem -k /058)
        # 6.11 made the first version's memory controller a choice, and Debian's newer ones are without.
        if [[ $release == 5.* || $release =~ ^6\.[0-9](\.|$) ]]; then pmem=(--cgroup1 --pmem -k '/(048|058)'); fi
        machine=(--append "memmap=96M!512M $append" --one-thread --mem 768M --disk ext4:128M --
          "$suite" "$@" "${pmem[@]}" /mnt/disk0)
        ;;
      icount)
        machine=(--append "$append" --icount --mem 768M --disk ext4:256M --disk xfs:384M --timeout 1800 --
          "$suite" "$@" --icount -k overhead /mnt/disk0 /mnt/disk1)
        ;;
      *)
        machine=(--append "$append" --one-thread --mem 1536M --nodes 2 --disk ext4:640M --disk xfs:640M
          --disk "ext4:192M,mbps=20,lat_us=4000" --timeout 5400 --
          "$suite" "$@" -k "$part" --slow /mnt/disk2 /mnt/disk0 /mnt/disk1)
        ;;
    esac
    kernel_run "$name-${part//[^0-9a-z-]/_}" "$key" "$release" "${machine[@]}" || status=1
  done
  return "$status"
}
