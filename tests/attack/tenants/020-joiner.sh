# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: another tenant names the victim's service and worker in its environment and reads the victim's model from
# the end to the beginning: as another user, and as root in a container, each in a memory group of its own.  It is a
# stranger: it moves no position and is in no template, also where pages that were passed are dropped.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
start_with maio '{"at_ready": "keep"}'
VICTIM=$MNT
# backwards: reads the files on its descriptors 10 and up, again and again until it is killed.
cat >"$WORK/backwards.py" <<'END'
import os
files = [int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) >= 10 and os.path.exists(f"/proc/self/fd/{fd}")]
while True:
    for fd in files:
        for at in range(os.fstat(fd).st_size - 4096, 0, -(256 << 10)):
            os.pread(fd, 4096, at)
END
# join HOW...: the files are open before: the other user may not go through the folders of a test.
join() {
  local shard fd
  (
    # shellcheck disable=SC2034  # what is opened is for the reader
    for shard in "$VICTIM"/*.safetensors; do exec {fd}<"$shard"; done
    as_other "$@" env PPC_SERVICE_ID=svc-victim PPC_WORKER=0 /usr/bin/python3 - <"$WORK/backwards.py"
  ) &
}
strangers() { runner_field '["events"]["strangers"]'; }
alone
for how in user container; do
  case $how in
    user) words=(setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups) ;;
    container) words=(unshare --pid --fork --kill-child) ;;
  esac
  before=$(strangers)
  victim join "${words[@]}"
  calm
  ge $(($(strangers) - before)) 10 "events of strangers, $how"
  unharmed "$how"
done
