# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Stock Debian kernels by package, of this host's suite or any other of the archive: which
# release is meant, fetching image and headers under build/kernels/RELEASE.  Nothing is installed
# on the host.  Sourced after common.sh and suites.sh, which sets apt_options.
# shellcheck disable=SC2154

kernels=$PPC_TOP/build/kernels
# What the release names end in: amd64, arm64, arm64-16k, ...
kernel_flavour=amd64

# kernel_arch [RELEASE]: the Debian architecture of a release, or of kernel_flavour.
kernel_arch() {
  case ${1:-$kernel_flavour} in
    *arm64*) echo arm64 ;;
    *) echo amd64 ;;
  esac
}

# Prints the stock kernels of the package sources that have headers, as full releases such as
# 6.1.0-56-amd64.  Backports keep images whose headers are gone.
archive_releases() {
  apt-cache "${apt_options[@]}" pkgnames linux- 2>/dev/null |
    sed -nE "s/^linux-(image|headers)-([0-9]+\.[0-9]+(\.|-|\+).*-$kernel_flavour)\$/\2/p" | grep -vE -- '-(cloud|rt)-' |
    sort -V | uniq -d
}

# Prints those of standard input that REL or an abbreviation of it (6.1, 6.1.0-56) means.
matching() {
  local escaped=${1//./\\.}
  escaped=${escaped//+/\\+}
  grep -E "^$escaped([.+-].*)?$" || true
}

# Prints the stock releases unpacked here (the debug kernel is none).
unpacked_releases() {
  local dir
  for dir in "$kernels"/*/.complete; do
    if [[ -e $dir && $dir != *-ppcdebug/* ]]; then basename "$(dirname "$dir")"; fi
  done | grep -E -- "-$kernel_flavour\$" | sort -V
}

# What the distribution's meta package points at: its newest stock kernel.
suite_release() {
  apt-cache depends linux-image-amd64 2>/dev/null |
    sed -nE 's/^ *Depends: linux-image-([0-9].*-amd64)$/\1/p' | tail -n 1
}

# resolve_release REL: the full release on standard output; REL may be empty or abbreviated.
resolve_release() {
  local want=$1 release=
  if [[ -z $want && $kernel_flavour != amd64 ]]; then
    # What the tests run on by default, for the other architecture.
    want=6.12
  fi
  if [[ -z $want ]]; then
    release=$(cat "$kernels/default" 2>/dev/null || true)
    if [[ -n $release && -e $kernels/$release/.complete ]]; then
      printf '%s\n' "$release"
      return
    fi
    release=$(suite_release)
    if [[ -z $release ]]; then
      refresh_host
      release=$(suite_release)
    fi
    [[ -n $release ]] || die "no linux-image-amd64 in the package sources; run on Debian 12 or 13 (amd64)"
    mkdir -p "$kernels"
    printf '%s\n' "$release" >"$kernels/default"
  elif [[ -e $kernels/$want/.complete ]]; then
    release=$want
  else
    release=$(unpacked_releases | matching "$want" | tail -n 1)
    [[ -n $release ]] || release=$(all_suites "$(kernel_arch)" && archive_releases | matching "$want" | tail -n 1)
    [[ -n $release ]] || die "no stock kernel '$want' in the archive; there are: $(
      all_suites "$(kernel_arch)" && archive_releases | sed -E 's/^([0-9]+\.[0-9]+).*/\1/' | uniq | paste -sd ' '
    )" 3
  fi
  printf '%s\n' "$release"
}

# The packages of RELEASE that hold its image, modules, headers and build tools.
kernel_packages() {
  local queue=("linux-image-$1" "linux-headers-$1") seen=" " name dep
  while ((${#queue[@]})); do
    name=${queue[0]}
    queue=("${queue[@]:1}")
    if [[ $seen == *" $name "* ]]; then continue; fi
    seen+="$name "
    printf '%s\n' "$name"
    while read -r dep; do
      queue+=("$dep")
    done < <(apt-cache "${apt_options[@]}" depends --no-recommends --no-suggests --no-conflicts --no-breaks \
      --no-replaces --no-enhances "$name" 2>/dev/null |
      sed -nE 's/^[ |]*(Pre)?Depends: (linux-(image|headers|kbuild|binary|modules|base)-[0-9].*)$/\2/p' |
      grep -v -- '-unsigned$')
  done
}

# Makes an unpacked tree independent of /usr/src and of where the repository lies.
relocate() {
  local root=$1 release=$2 file name
  # Newer releases keep modules in /usr/lib only.
  if [[ ! -e $root/lib/modules ]]; then
    mkdir -p "$root/lib"
    ln -s ../usr/lib/modules "$root/lib/modules"
  fi
  # And the image beside them.
  mkdir -p "$root/boot"
  for name in vmlinuz config; do
    if [[ -e $root/lib/modules/$release/$name ]]; then
      ln -sf "../lib/modules/$release/$name" "$root/boot/$name-$release"
    fi
  done
  for name in build source; do rm -f "$root/lib/modules/$release/$name"; done
  ln -s "../../../usr/src/linux-headers-$release" "$root/lib/modules/$release/build"
  # The variables are make's own; the shell must not touch them.
  # shellcheck disable=SC2016
  local here='$(dir $(abspath $(lastword $(MAKEFILE_LIST))))'
  for file in "$root/usr/src/linux-headers-$release"/{Makefile,.kernelvariables}; do
    if [[ -e $file ]]; then
      sed -i -E "s,(^|[ =:])/usr/src/,\\1$here../,g; s,(^|[ =:])/usr/lib/,\\1$here../../lib/,g" "$file"
    fi
  done
}

# fetch_kernel RELEASE: leaves image, modules and headers in build/kernels/RELEASE.
fetch_kernel() {
  local release=$1 root=$kernels/$1 scratch deb packages tools
  if [[ -e $root/.complete ]]; then return 0; fi
  # A kernel of the host's suite needs no lists of others.
  if [[ -z $(apt-cache pkgnames "linux-headers-$release" 2>/dev/null) ]]; then all_suites "$(kernel_arch "$release")"; fi
  mapfile -t packages < <(kernel_packages "$release")
  scratch=$kernels/.$release.new
  rm -rf "$scratch"
  mkdir -p "$scratch/debs" "$scratch/root"
  say "fetching kernel $release (${#packages[@]} packages)"
  if [[ $(kernel_arch "$release") == amd64 ]]; then
    download_packages "$scratch/debs" "${packages[@]}"
  else
    # The programs that build run here.
    mapfile -t tools < <(printf '%s\n' "${packages[@]}" | grep '^linux-kbuild-')
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | grep -v '^linux-kbuild-')
    download_packages "$scratch/debs" "${packages[@]}"
    all_suites amd64
    download_packages "$scratch/debs" "${tools[@]}"
  fi
  for deb in "$scratch"/debs/*.deb; do dpkg -x "$deb" "$scratch/root"; done
  relocate "$scratch/root" "$release"
  [[ -e $scratch/root/boot/vmlinuz-$release ]] || die "the packages of $release hold no kernel image"
  [[ -d $scratch/root/usr/src/linux-headers-$release ]] || die "there are no headers for kernel $release"
  quietly "depmod for $release" depmod -b "$scratch/root" "$release"
  touch "$scratch/root/.complete"
  rm -rf "$root"
  mv "$scratch/root" "$root"
  rm -rf "$scratch"
}

# download_packages DIR PACKAGE...: a package list that is out of date gets refreshed once.
download_packages() {
  local dir=$1
  shift
  if ! (cd "$dir" && download "$@") >/dev/null 2>&1; then
    if ((${#apt_options[@]})); then refresh_suites "$suites_arch"; else refresh_host; fi
    (cd "$dir" && quietly "downloading $*" download "$@")
  fi
}

download() { apt-get -q "${apt_options[@]}" -o APT::Sandbox::User=root download "$@"; }
