# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Work in a root of tools/lib/debian/root without changing it: what is written lands in a layer.  Nothing
# stays mounted, and no process outlives the caller.  Sourced after common.sh.

# in_layers ROOT LAYERS TOP DIRS COMMAND...: COMMAND with TOP over the LAYERS (above first, "" none) over
# ROOT; DIRS, separated by colons, are seen at their own paths.  TOP is kept: a layer for later.
in_layers() {
  local root=$1 layers=$2 top=$3 dirs=$4
  shift 4
  as_root "working in a root of Debian"
  mkdir -p "$top/up" "$top/work"
  # The inner script's variables are its own.
  # shellcheck disable=SC2016
  setpriv --pdeathsig KILL unshare -m -p --fork --kill-child --propagation private sh -euc '
    lower=$1 top=$2 dirs=$3 && shift 3
    mkdir -p "$top/merged"
    mount -t overlay -o "lowerdir=$lower,upperdir=$top/up,workdir=$top/work" overlay "$top/merged"
    cd "$top/merged"
    mount -t proc proc proc
    mount -t sysfs -o ro sysfs sys
    mount -t tmpfs tmpfs tmp
    mount -t tmpfs -o mode=755 tmpfs dev
    for name in null zero full random urandom tty; do : >"dev/$name" && mount --bind "/dev/$name" "dev/$name"; done
    mkdir dev/pts dev/shm && mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts && ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
    for name in resolv.conf hosts; do cat "/etc/$name" >"etc/$name"; done
    IFS=:
    for dir in $dirs; do mkdir -p ".$dir" && mount --rbind "$dir" ".$dir"; done
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      "PPC_ENVIRONMENT=${PPC_ENVIRONMENT:-}" chroot . "$@"
  ' sh "${layers:+$layers:}$root" "$top" "$dirs" "$@"
}
