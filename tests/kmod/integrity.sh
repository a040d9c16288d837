#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes this machine one whose IMA watches over mounts of ppc, until it is switched off.
# usage: integrity.sh ima DISKDIR...
set -euo pipefail

if ! mountpoint -q /sys/kernel/security; then mount -t securityfs securityfs /sys/kernel/security; fi
kind=$1
shift
case $kind in
  ima)
    # Rules are loaded once a boot.  Of files in a mount only those of these owners are appraised
    # and measured, so that the other tests may run theirs and read with cold caches.
    {
      echo "measure func=FILE_CHECK mask=MAY_READ fsname=ppc fowner=3003"
      echo "appraise func=BPRM_CHECK fsname=ppc fowner=3001"
      for disk; do echo "appraise func=BPRM_CHECK fsuuid=$(findmnt -no UUID -T "$disk") fowner=3002"; done
    } >/sys/kernel/security/ima/policy
    ;;
  *) echo "integrity.sh: unknown kind '$kind'; know ima" >&2 && exit 2 ;;
esac
