#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes this machine one whose IMA or SELinux watches over mounts of ppc, until it is switched off.
# usage: integrity.sh ima|ima-reads|selinux DISKDIR...     ima-reads: whatever is read through a mount is measured, too
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

ima() {
  if ! mountpoint -q /sys/kernel/security; then mount -t securityfs securityfs /sys/kernel/security; fi
  # Rules are loaded once a boot.  Of files in a mount only those of these owners are appraised
  # and measured, so that the other tests may run theirs and read with cold caches.
  {
    echo "measure func=FILE_CHECK mask=MAY_READ fsname=ppc fowner=3003"
    echo "appraise func=BPRM_CHECK fsname=ppc fowner=3001"
    if [[ $kind == ima-reads ]]; then echo "measure func=FILE_CHECK mask=MAY_READ fsname=ppc permit_directio"; fi
    for disk; do echo "appraise func=BPRM_CHECK fsuuid=$(findmnt -no UUID -T "$disk") fowner=3002"; done
  } >/sys/kernel/security/ima/policy
}

selinux() {
  if ! mount -t selinuxfs selinuxfs /sys/fs/selinux; then
    echo "integrity.sh: SELinux is off; boot with security=selinux" >&2
    return 1
  fi
  secilc -o /run/ppc-selinux.policy -f /dev/null "$here/selinux.cil"
  # in one write
  dd if=/run/ppc-selinux.policy of=/sys/fs/selinux/load bs=1M status=none
  echo 1 >/sys/fs/selinux/enforce
  # Refusals go to the kernel's log, all of them.
  sysctl -qw kernel.printk_ratelimit=0
}

kind=${1:-}
shift || true
case $kind in
  ima | ima-reads) ima "$@" ;;
  selinux) selinux "$@" ;;
  *) echo "integrity.sh: unknown kind '$kind'; know ima, ima-reads, selinux" >&2 && exit 2 ;;
esac
