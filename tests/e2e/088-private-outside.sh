# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: under a memory limit the ppcd that ppcctl run starts, and its runner, leave the group, so
# that the command has all of it.
# natively by default
. "$(dirname "$0")/maio.sh"
serve
limit_to $((1 << 30))
# shellcheck disable=SC2016  # for the inner shell
inner='until ppcctl status "$1" 2>/dev/null | grep -q running; do sleep 0.1; done
  for pid in $(<"$0/cgroup.procs"); do cat "/proc/$pid/comm"; done'
names=$(in_group timeout 60 ppcctl run --id svc-one "$MNT" -- bash -c "$inner" "$GROUP" "$MNT")
has "$names" ppcctl "processes of the group"
[[ $names == *ppcd* || $names == *ppc-runner* ]] && fail "in the group: $(xargs <<<"$names")"
:
