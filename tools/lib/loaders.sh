# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Other projects' model loaders in build/roots/loaders, from the archive and the package index.  Sourced after roots.sh.

# unpack_loaders: sets loaders_root.
unpack_loaders() {
  local lists=$PPC_TOP/bench/loaders names site key
  loaders_root=$PPC_TOP/build/roots/loaders
  # The archive keeps one version of a package in a suite: what is there is taken, and told in the table.
  mapfile -t names < <(sed -E '/^#/d; s/=.*//' "$lists/packages.txt")
  unpack_root "$loaders_root" forky amd64 "${names[@]}"
  site=$loaders_root/opt/site
  key=$(sha256sum <"$lists/requirements.txt")
  if [[ $(cat "$site/.complete" 2>/dev/null) == "$key" ]]; then return 0; fi
  say "fetching the loaders that are in the package index"
  rm -rf "$site"
  quietly "fetching $lists/requirements.txt" python3 -m pip install --quiet --target "$site" --no-deps \
    --only-binary=:all: --python-version "$(python_of "$loaders_root")" --platform manylinux2014_x86_64 \
    --platform manylinux_2_27_x86_64 --platform manylinux_2_28_x86_64 -r "$lists/requirements.txt"
  echo "$key" >"$site/.complete"
}

# python_of ROOT: the version of its python3, as 3.14.
python_of() { readlink "$1/usr/bin/python3" | sed 's/^python//'; }
