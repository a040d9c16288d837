# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Which compiler builds modules for a kernel: the one that built the kernel.  The host's where it
# has that one, else out of the kernel's suite.  After roots.sh.

# shellcheck disable=SC2034
builder=()

# choose_compiler RELEASE KDIR: sets `builder`, a prefix for commands.
choose_compiler() {
  local cc release=$1
  cc=$(sed -nE 's/^CC *=.* ?\$\(CROSS_COMPILE\)(gcc-[0-9]+).*/\1/p' "$2/.kernelvariables" 2>/dev/null | tail -n 1)
  # No name: a kernel that was built here.
  if [[ -z $cc ]] || command -v "$cc" >/dev/null; then return 0; fi
  root_compiler "$cc" "$release"
}

root_compiler() {
  local cc=$1 release=$2 suite root
  all_suites
  suite=$(suite_of "linux-headers-$release")
  [[ -n $suite ]] || die "kernel $release is built with $cc, and no suite of the archive has both"
  root=$PPC_TOP/build/roots/$suite-$cc
  unpack_root "$root" "$suite" "$cc" binutils make libelf1 zlib1g dash bash coreutils sed grep mawk findutils
  # shellcheck disable=SC2034
  builder=(in_root "$root" "$PPC_TOP")
}
