# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: an ordinary user's command under Yama: with ptrace_scope=1 its private ppcd sees where it waits,
# with 2 nobody does, which status says; the bytes are right with both.
# needs observer
. "$(dirname "$0")/lib.sh"

scope=/proc/sys/kernel/yama/ptrace_scope
[[ -w $scope ]] || skip "this host cannot: its kernel has no Yama"
was=$(<"$scope")
((was < 3)) || skip "this host cannot: ptrace_scope is $was, which stays so until it boots"
unseen="does not show where the processes wait"

home=$WORK/home
mkdir -p "$home"
chown 65534:65534 "$home"
chmod a+rx "$WORK"
cat >"$WORK/reader" <<'PY'
import hashlib, os, sys
# In the command's own process: Yama's exception is not inherited.
sum = hashlib.sha256()
for path in sys.argv[1:]:
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(1 << 20):
            sum.update(piece)
print(sum.hexdigest(), flush=True)
os.execvp("ppcctl", ["ppcctl", "status"])
PY
shards=("$MODEL"/*.safetensors)
want=$(cat "${shards[@]}" | sha256sum)

# run SCOPE: prints the checksum, then what status says at the end.
run() {
  drop_caches
  echo "$1" >"$scope"
  setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
    env -i PATH="$PATH" PPC_POLICY_DIR="${PPC_POLICY_DIR:-}" HOME="$home" \
    ppcctl run --required --id yama "$MODEL" -- /usr/bin/python3 "$WORK/reader" "${shards[@]}" 2>&1
  local status=$?
  echo "$was" >"$scope"
  return "$status"
}
for number in 1 2; do
  said=$(run "$number") || fail "ptrace_scope=$number: $said"
  eq "${said%%$'\n'*}" "${want%% *}" "checksum with ptrace_scope=$number"
  has "$said" "backend poll" "backend"
  if ((number == 1)); then
    [[ $said != *"$unseen"* ]] || fail "ptrace_scope=1: status says that it is not seen: $said"
  else
    has "$said" "$unseen" "status with ptrace_scope=2"
  fi
done
