# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Compilers of other suites: unpacked in build/roots/, entered by chroot in a mount namespace of
# its own, so that nothing is installed and nothing stays mounted.  Sourced after suites.sh, which sets apt_options.
# shellcheck disable=SC2154

# unpack_package DEB DIR: like dpkg -x, but links to directories that are there stay.
unpack_package() { dpkg --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"; }

# unpack_root DIR SUITE ARCH PACKAGE...: the packages and all they need, from that suite.
unpack_root() {
  local root=$1 suite=$2 arch=$3 scratch=$1.new deb
  shift 3
  if [[ -e $root/.complete ]]; then return 0; fi
  all_suites "$arch"
  mkdir -p "$(dirname "$root")"
  exec 7>"$root.lock"
  flock 7
  if [[ -e $root/.complete ]]; then return 0; fi
  say "unpacking ${suite}'s $* in build/roots"
  rm -rf "$scratch"
  mkdir -p "$scratch"/{debs/partial,root/usr/{bin,sbin,lib,lib64},root/{dev,proc,sys,tmp,etc}}
  # One tree of programs: older suites still tell /bin and /usr/bin apart.
  for name in bin sbin lib lib64; do ln -s "usr/$name" "$scratch/root/$name"; done
  quietly "fetching $* from $suite" apt-get -q -y "${apt_options[@]}" -o Debug::NoLocking=true \
    -o "APT::Default-Release=$suite" -o "Dir::Cache::archives=$scratch/debs" --download-only install "$@"
  for deb in "$scratch"/debs/*.deb; do unpack_package "$deb" "$scratch/root"; done
  [[ -e $scratch/root/usr/bin/awk ]] || ln -s mawk "$scratch/root/usr/bin/awk"
  touch "$scratch/root/.complete"
  rm -rf "$root"
  mv "$scratch/root" "$root"
  rm -rf "$scratch"
  exec 7>&-
}

# in_root ROOT DIR COMMAND...: COMMAND with ROOT's programs; DIR is seen at its own path.
in_root() {
  as_root "compiling with another suite's compiler"
  # The inner script's variables are its own.
  # shellcheck disable=SC2016
  unshare -m --propagation private sh -euc '
    root=$1 dir=$2 && shift 2
    for name in tmp dev; do mount -t tmpfs tmpfs "$root/$name"; done
    mount -t proc proc "$root/proc"
    mkdir -p "$root$dir" "$root/sys"
    mount --rbind /sys "$root/sys"
    mount --rbind "$dir" "$root$dir"
    for name in null zero urandom; do
      : >"$root/dev/$name" && mount --bind "/dev/$name" "$root/dev/$name"
    done
    exec env -i PATH=/usr/bin:/usr/sbin LC_ALL=C DEB_BUILD_ARCH=amd64 DEB_HOST_ARCH=amd64 chroot "$root" "$@"
  ' sh "$@"
}
