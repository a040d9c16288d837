# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The archive's other suites, beside the host's own package sources: a private apt state in
# build/apt/ARCH.  Addresses come from the host's sources, signatures are checked with the host's
# keys.  Nothing of the host's apt or dpkg is changed.  Sourced after common.sh.
# $PPC_SNAPSHOT: address of the Debian archive as it was at some time (of a snapshot service): suites that still
# move are taken from there, so that a run can be repeated with the same packages.

# Oldest first; one that the archive lacks is passed over.
suite_names=(bullseye bookworm trixie forky)
moving_suites=(forky sid experimental)

# Options for apt-get and apt-cache: empty for the host's sources, see all_suites.
apt_options=()

# site LABEL: the address of the archive with that label, of which the host has a suite.
site() {
  # Apt's variable.
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(SITE)' 'Identifier: Packages' 'Origin: Debian' "Label: $1" 2>/dev/null |
    head -n 1
}

# The lines of a sources.list with every suite.
suite_sources() {
  local arch=$1 main security name keys=/usr/share/keyrings/debian-archive-keyring.gpg options="arch=$1"
  main=$(site Debian)
  if [[ -z $main ]]; then
    refresh_host
    main=$(site Debian)
  fi
  [[ -n $main ]] || die "this host's package sources name no Debian archive; add one and run apt-get update"
  security=$(site Debian-Security)
  if [[ -e $keys ]]; then options+=" signed-by=$keys"; fi
  if [[ -n ${PPC_SNAPSHOT:-} ]]; then
    # Its lists have expired, as those of any time before now.
    for name in "${moving_suites[@]}"; do printf 'deb [%s check-valid-until=no] %s %s main\n' "$options" "$PPC_SNAPSHOT" "$name"; done
  fi
  for name in "${suite_names[@]}"; do
    if [[ -n ${PPC_SNAPSHOT:-} && " ${moving_suites[*]} " == *" $name "* ]]; then continue; fi
    printf 'deb [%s] %s %s main\n' "$options" "$main" "$name" "$options" "$main" "$name-backports"
    if [[ -n $security ]]; then printf 'deb [%s] %s %s-security main\n' "$options" "$security" "$name"; fi
  done
  [[ -n ${PPC_SNAPSHOT:-} ]] || printf 'deb [%s] %s %s main\n' "$options" "$main" sid "$options" "$main" experimental
}

host_refreshed=false
refresh_host() {
  if $host_refreshed || [[ $(id -u) -ne 0 ]]; then return 0; fi
  host_refreshed=true
  apt-get -q update >/dev/null 2>&1 || true
}

# state_options DIR ARCH: an apt state of its own in DIR, with DIR/sources.list.
state_options() {
  apt_options=(
    -o "Dir::Etc::sourcelist=$1/sources.list" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferencesparts=-
    -o "Dir::State=$1/state" -o "Dir::State::lists=$1/lists" -o Dir::State::status=/dev/null
    -o "Dir::Cache=$1/cache" -o "APT::Architecture=$2" -o "APT::Architectures=$2"
    -o APT::Sandbox::User=root -o APT::Get::List-Cleanup=false -o APT::Install-Recommends=false
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    -o APT::Update::Post-Invoke-Success::=true
  )
}

# all_suites [ARCH]: from now on apt_options means every suite of the archive.
all_suites() {
  local arch=${1:-amd64} dir=$PPC_TOP/build/apt/${1:-amd64}
  mkdir -p "$dir/state" "$dir/lists/partial" "$dir/cache/archives/partial"
  state_options "$dir" "$arch"
  suites_dir=$dir
  # For download_packages.
  # shellcheck disable=SC2034
  suites_arch=$arch
  if [[ -z $(find "$dir/fresh" -mmin -1440 2>/dev/null) || $(<"$dir/fresh") != "${PPC_SNAPSHOT:-}" ]]; then refresh_suites "$arch"; fi
}

# refresh_suites [ARCH]: the newest lists; missing suites make apt complain, which says nothing.
refresh_suites() {
  local arch=${1:-amd64}
  (
    exec 8>"$suites_dir/lock"
    flock 8
    # Another process has just done it.
    if [[ -n $(find "$suites_dir/fresh" -mmin -5 2>/dev/null) && $(<"$suites_dir/fresh") == "${PPC_SNAPSHOT:-}" ]]; then exit 0; fi
    say "reading the package lists of all suites ($arch)"
    suite_sources "$arch" >"$suites_dir/sources.list"
    apt-get -q "${apt_options[@]}" update >"$suites_dir/log" 2>&1 || true
    compgen -G "$suites_dir/lists/*_Packages*" >/dev/null || {
      tail -n 5 "$suites_dir/log" >&2
      die "the package archive cannot be reached"
    }
    echo "${PPC_SNAPSHOT:-}" >"$suites_dir/fresh"
  ) || exit
}

# The suite that apt takes NAME from: trixie, trixie-security, sid, ...
suite_of() {
  apt-cache "${apt_options[@]}" madison "$1" 2>/dev/null |
    sed -nE '1s,.*\| [^ ]+ ([a-z-]+)/main .*,\1,p'
}
