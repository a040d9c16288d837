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
  if [[ -z $cc ]]; then return 0; fi
  if [[ $(kernel_arch "$release") == amd64 ]]; then
    command -v "$cc" >/dev/null || root_compiler "$release" "$cc" "$cc" binutils
  else
    root_compiler "$release" "$cc-aarch64" "$cc-aarch64-linux-gnu" binutils-aarch64-linux-gnu
    builder+=(env DEB_HOST_ARCH=arm64 DEB_HOST_GNU_TYPE=aarch64-linux-gnu)
  fi
}

# What a build needs beside the compiler.
root_programs=(make libelf1 zlib1g dash bash coreutils sed grep mawk findutils)

# root_compiler RELEASE NAME PACKAGE...: out of the suite that RELEASE's headers are in.
root_compiler() {
  local release=$1 name=$2 suite root
  shift 2
  all_suites "$(kernel_arch "$release")"
  suite=$(suite_of "linux-headers-$release")
  # Compilers come from the release that the kernel was made for.
  suite=${suite%%-*}
  [[ -n $suite ]] || die "no suite of the archive has headers of $release and a compiler for it any more"
  root=$PPC_TOP/build/roots/$suite-$name
  unpack_root "$root" "$suite" amd64 "$@" "${root_programs[@]}"
  # shellcheck disable=SC2034
  builder=(in_root "$root" "$PPC_TOP")
}
