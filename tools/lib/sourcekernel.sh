# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A kernel out of one of the archive's source packages, built from tinyconfig and a fragment of options, and put among
# the unpacked kernels (build/kernels/RELEASE).  Sourced after kernels.sh.  The caller sets:
#   source_package   linux-source-N
#   source_work      directory of all that is made; the sources are in $source_work/source
#   source_suffix    what the release ends in, such as -ppcdebug
# shellcheck disable=SC2154

source_tree() { printf '%s\n' "$source_work/source"; }
source_objects() { printf '%s\n' "$source_work/objects"; }

# fetch_source [PATCH]...: unpacks the package and applies the patches; again only when one of them changed.
fetch_source() {
  local tree file wanted
  tree=$(source_tree)
  wanted=$(printf '%s\n' "$source_package" && cat /dev/null "$@" | sha256sum)
  # Trees of before patches have the name alone.
  if (($# == 0)); then wanted=$source_package; fi
  if [[ -e $tree/.complete && $(cat "$tree/.complete") == "$wanted" ]]; then return 0; fi
  rm -rf "$tree" "$source_work/debs" "$source_work/unpacked"
  mkdir -p "$source_work/debs" "$source_work/unpacked" "$tree"
  say "fetching $source_package"
  download_packages "$source_work/debs" "$source_package"
  dpkg-deb -x "$source_work"/debs/*.deb "$source_work/unpacked"
  tar -xJf "$source_work/unpacked/usr/src/$source_package.tar.xz" -C "$tree" --strip-components=1
  rm -rf "$source_work/debs" "$source_work/unpacked"
  for file in "$@"; do
    quietly "applying ${file##*/} to $source_package" patch -p1 -F0 -d "$tree" -i "$file"
  done
  printf '%s\n' "$wanted" >"$tree/.complete"
}

source_make() {
  make -s -C "$(source_tree)" O="$(source_objects)" ARCH=x86_64 "LOCALVERSION=$source_suffix" KBUILD_BUILD_TIMESTAMP=1 "$@"
}

# configure_source FRAGMENT
configure_source() {
  local line name config
  mkdir -p "$(source_objects)"
  config=$(source_objects)/.config
  quietly "tinyconfig" source_make tinyconfig
  cat "$1" >>"$config"
  quietly "olddefconfig" source_make olddefconfig
  # An option whose menu is off disappears without a word.
  while IFS= read -r line; do
    case $line in
      CONFIG_*=*) grep -qxF -- "$line" "$config" || die "${1##*/}: $line has no effect" ;;
      '# CONFIG_'*' is not set')
        name=${line#\# } && name=${name%% *}
        ! grep -q "^$name=" "$config" || die "${1##*/}: $name stays on"
        ;;
    esac
  done <"$1"
}

# build_source TARGET...: make, with its log in $source_work/log.
build_source() {
  local tool
  for tool in flex bison bc; do command -v "$tool" >/dev/null || die "$tool is missing; run tools/setup"; done
  source_make "$@" >"$source_work/log" 2>&1 || {
    tail -n 40 "$source_work/log" >&2
    die "building the kernel of $source_package failed"
  }
}

# deploy_source RELEASE SCRATCH: image, configuration and modules below SCRATCH.
deploy_source() {
  local objects
  objects=$(source_objects)
  rm -rf "$2"
  mkdir -p "$2/boot" "$2/lib/modules/$1"
  cp "$objects/arch/x86/boot/bzImage" "$2/boot/vmlinuz-$1"
  cp "$objects/System.map" "$2/boot/System.map-$1"
  cp "$objects/.config" "$2/boot/config-$1"
  quietly "installing the modules" source_make INSTALL_MOD_PATH="$2" modules_install
}

# publish_source RELEASE SCRATCH: SCRATCH becomes build/kernels/RELEASE.
publish_source() {
  touch "$2/.complete"
  rm -rf "${kernels:?}/$1"
  mv "$2" "$kernels/$1"
}
