# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: the directory is renamed in the middle of a load: right bytes.  A ppc mount goes on
# showing it; for the observer the registration ends, and the new name can be registered.
. "$(dirname "$0")/lib.sh"
base=$FAST/renamed
cp -r "$MODEL" "$base"
sync
start_daemon
serve "$base"
register "$MNT" readahead
runner=$(runner_pid)
wanted=$(cat "$base"/*.safetensors | sha256sum)
drop_caches
# read_slowly DIR: all is open before any of it is read; in the middle it says so.
read_slowly() {
  python3 - "$1"/*.safetensors <<'PYTHON'
import hashlib, os, sys, time
files = [open(path, "rb", buffering=0) for path in sys.argv[1:]]
total, done, digest = sum(os.fstat(file.fileno()).st_size for file in files), 0, hashlib.sha256()
for file in files:
    while part := file.read(1 << 20):
        digest.update(part)
        done += len(part)
        if done >= total // 3:
            open(os.environ["WORK"] + "/middle", "w").close()
        time.sleep(0.02)
print(digest.hexdigest() + "  -")
PYTHON
}
export WORK
read_slowly "$MNT" >"$WORK/read" &
LOAD=$!
within 60 test -e "$WORK/middle" || fail "the load does not get on"
mv "$base" "$base.new"
is_dead "$LOAD" && fail "the load ended before the rename"
wait "$LOAD" || fail "the load failed"
eq "$(cat "$WORK/read")" "$wanted" "checksum of what was open"
if is_module; then
  eq "$(state)" running "the policy of the mount"
  eq "$(cat "$MNT"/*.safetensors | sha256sum)" "$wanted" "checksum afterwards"
  exit
fi
forgotten() { [[ -z $(ppcctl list) ]] && is_dead "$runner"; }
within 10 forgotten || fail "still registered: $(ppcctl list)"
# The runner and ppcd both look; either may be the first.
grep -Eq "is gone; (policy 'readahead' ended|its policy is removed)" "$WORK/ppcd.log" || fail "ppcd does not say so"
register "$base.new" readahead
drop_caches
eq "$(cat "$base.new"/*.safetensors | sha256sum)" "$wanted" "checksum under the new name"
