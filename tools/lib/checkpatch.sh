# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The kernel's own style checker, out of the linux-source package; not vendored.  After common.sh.

# fetch_checkpatch: leaves checkpatch.pl and its word lists in build/checkpatch.
fetch_checkpatch() {
  local dir=$PPC_TOP/build/checkpatch package scratch
  if [[ -e $dir/checkpatch.pl ]]; then return 0; fi
  package=$(apt-cache depends linux-source 2>/dev/null | sed -nE 's/^ *Depends: (linux-source-.*)$/\1/p' | tail -n 1)
  [[ -n $package ]] || die "no linux-source package in the package sources; run apt-get update"
  say "fetching checkpatch from $package"
  scratch=$dir.new
  rm -rf "$scratch"
  mkdir -p "$scratch/deb"
  (cd "$scratch/deb" && quietly "downloading $package" apt-get -q -o APT::Sandbox::User=root download "$package")
  dpkg --fsys-tarfile "$scratch"/deb/*.deb 2>/dev/null | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
    tar -xJ -C "$scratch" --strip-components=1 --wildcards --occurrence=1 \
      '*/scripts/checkpatch.pl' '*/scripts/spelling.txt' '*/scripts/const_structs.checkpatch' \
      '*/LICENSES/exceptions/Linux-syscall-note' || true
  mv "$scratch"/scripts/* "$scratch"
  [[ -e $scratch/checkpatch.pl ]] || die "$package holds no checkpatch.pl"
  rm -rf "$scratch/deb" "$scratch/scripts" "$dir"
  mv "$scratch" "$dir"
}
