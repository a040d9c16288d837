# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: where the observer cannot work it says why and what to do, in one line; auto takes
# polling then and says so.
# needs observer
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

no_ring() { [[ -z $(bpf_of "$(runner_pid)" map) ]]; }
# falls_back TEXT: the observer is refused with TEXT; auto polls, and loads are right.
falls_back() {
  refuse 1 "$1" ppcctl reg_policy "$MODEL" maio --backend observer
  must ppcctl reg_policy "$MODEL" maio
  eq "$(status_field '["backend"]' "$MODEL")" poll "what auto takes"
  no_ring || fail "the runner has BPF maps"
  must ppcctl rm_policy "$MODEL"
  stop_daemon
}

# What is asked for.
start_daemon
touch "$FAST/file"
refuse 1 "is not a directory; name the directory" reg_policy "$FAST/file" maio
refuse 1 "does not exist; name a directory that does" reg_policy "$FAST/none" maio
refuse 1 "is on proc, where there is nothing to load" reg_policy /proc/sys maio
mkdir -p "$WORK/tmpfs"
must mount -t tmpfs none "$WORK/tmpfs"
refuse 1 "is on tmpfs, where there is nothing to load" reg_policy "$WORK/tmpfs" maio
must umount "$WORK/tmpfs"
stop_daemon

# Capabilities that are missing; the policy is root's and nothing else is.
for missing in bpf perfmon; do
  # CAP_SYS_ADMIN stands for either.
  start_daemon setpriv --bounding-set="-$missing,-sys_admin" --inh-caps="-$missing,-sys_admin"
  falls_back "give it CAP_BPF"
done
# loads_ahead: the observer serves, with right bytes.
loads_ahead() {
  register "$MODEL" readahead
  drop_caches
  eq "$(checksum_of "$MODEL")" "$(reference_checksum)" "checksum"
  ge "$(MNT=$MODEL runner_field '["loader"]["loaded"]')" $((32 << 20)) "bytes loaded ahead"
  must ppcctl rm_policy "$MODEL"
  stop_daemon
}
start_daemon setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin
loads_ahead

# A filter of system calls.
start_daemon python3 "$here/denied.py" bpf
falls_back "seccomp profile that allows bpf"
# io_uring is nothing that we use.
start_daemon python3 "$here/denied.py" io_uring_setup io_uring_enter io_uring_register
loads_ahead

# A kernel that does not describe its types, wherever libbpf looks.
mkdir -p "$WORK/empty"
# shellcheck disable=SC2016  # for the shell that it is given to
hide='for place in /sys/kernel/btf /boot /lib/modules /usr/lib/debug; do
  [[ ! -d $place ]] || mount --bind "$0" "$place"
done
exec "$@"'
start_daemon unshare --mount bash -c "$hide" "$WORK/empty"
falls_back "CONFIG_DEBUG_INFO_BTF"
