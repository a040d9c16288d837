# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# tests/all/containers with one runtime.
. "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
runtime=$1
MNT=$MODEL
hook=$(readlink -f "$(command -v ppc-oci-hook)")
busybox=$(command -v busybox) || skip "busybox is not installed"
for program in ${runtime//-/ }; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
CONTAINERD=''
cleanup_all() {
  trap - EXIT
  if [[ -n $CONTAINERD ]]; then kill "$CONTAINERD" && wait "$CONTAINERD"; fi
  if [[ $runtime == podman* ]]; then
    boxes rm -af -t 0 >/dev/null 2>&1
    umount -q "$WORK/store/vfs" "$WORK/store"
  fi
  cleanup
}
trap cleanup_all EXIT

# crun runs nothing where controllers of both versions of cgroups are mounted ("hybrid"); in a name space without the
# second version it does.
bare=()
if [[ -e /sys/fs/cgroup/unified/cgroup.procs ]]; then
  # shellcheck disable=SC2016
  bare=(unshare -m --propagation slave sh -c 'umount /sys/fs/cgroup/unified && exec "$@"' sh)
fi

mkdir -p "$WORK"/{image/bin,image/tmp,image/proc,image/sys,image/dev,image/model,image/go,go,hooks}
cp "$busybox" "$WORK/image/bin/busybox"
ln -s busybox "$WORK/image/bin/sh"

# bundle NAME ANNOTATIONS TIME-OUT COMMAND...: a bundle with the hooks of the installed CDI description, as an engine makes it.
bundle() {
  mkdir -p "$WORK/$1"
  (cd "$WORK/$1" && rm -f config.json && runc_spec) || fail "no specification"
  python3 - "$WORK/$1/config.json" "$PPC_E2E_BUILD/packaging/oci/ppc.cdi.json" "$WORK" "$MODEL" "$hook" "$PPC_SOCKET" "${@:2}" <<'PY'
import json, sys
file, cdi, work, model, hook, socket, annotations, timeout, *command = sys.argv[1:]
text = json.load(open(file))
text["root"] = {"path": work + "/image", "readonly": True}
text["process"].update(terminal=False, args=command, rlimits=[])
text["mounts"] += [{"destination": to, "type": "bind", "source": at, "options": ["rbind", "ro"]}
                   for to, at in (("/model", model), ("/go", work + "/go"))]
text["annotations"] = json.loads(annotations)
for edit in json.load(open(cdi))["devices"][0]["containerEdits"]["hooks"]:
    call = {"path": hook, "args": [edit["args"][0], "--timeout-ms", timeout], "env": ["PPC_SOCKET=" + socket], "timeout": 60}
    text.setdefault("hooks", {}).setdefault(edit["hookName"], []).append(call)
json.dump(text, open(file, "w"))
PY
}
runc_spec() { if command -v runc >/dev/null; then runc spec; else crun spec; fi; }

boxes() {
  "${bare[@]}" podman --root "$WORK/store" --runroot "$WORK/state" --storage-driver vfs --cgroup-manager cgroupfs \
    --events-backend file --runtime crun --hooks-dir "$WORK/hooks" "$@"
}
# run_box NAME ANNOTATIONS TIME-OUT COMMAND...: as a container, to its end.
run_box() {
  local id=e2e-$$-$1
  if [[ $runtime == podman* ]]; then
    local options=() pair
    while IFS= read -r pair; do options+=(--annotation "$pair"); done < <(python3 -c '
import json, sys
print(*(f"{k}={v}" for k, v in json.loads(sys.argv[1]).items()), sep="\n")' "$2")
    python3 -c '
import json, sys
file, hook, socket, timeout = sys.argv[1:]
text = json.load(open(file))
text["hook"].update(path=hook, env=["PPC_SOCKET=" + socket], args=["ppc-oci-hook", "--timeout-ms", timeout], timeout=60)
json.dump(text, sys.stdout)' "$PPC_E2E_BUILD/packaging/oci/50-ppc.json" "$hook" "$PPC_SOCKET" "$3" >"$WORK/hooks/50-ppc.json"
    boxes run --rm --name "$id" --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 "${options[@]}" \
      -v "$MODEL:/model:ro" -v "$WORK/go:/go:ro" --rootfs "$WORK/image" "${@:4}"
    return
  fi
  bundle "$@"
  case $runtime in
    runc) runc --root "$WORK/runc" run --bundle "$WORK/$1" "$id" ;;
    crun) "${bare[@]}" crun --root "$WORK/crun" run --bundle "$WORK/$1" "$id" ;;
    containerd) ctr -a "$WORK/containerd.sock" run --rm --config "$WORK/$1/config.json" "$id" ;;
    containerd-crun) ctr -a "$WORK/containerd.sock" run --rm --runc-binary "$(command -v crun)" --config "$WORK/$1/config.json" "$id" ;;
    *) fail "no such runtime: $runtime" ;;
  esac
}

if [[ $runtime == containerd* ]]; then
  printf 'version = 2\nroot = "%s/root"\nstate = "%s/tasks"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "%s"\n' \
    "$WORK" "$WORK" "$WORK/containerd.sock" >"$WORK/containerd.toml"
  # What it starts lives in the same name space.
  "${bare[@]}" containerd -c "$WORK/containerd.toml" >"$WORK/containerd.log" 2>&1 &
  CONTAINERD=$!
  within 30 ctr -a "$WORK/containerd.sock" version >/dev/null 2>&1 || fail "containerd: $(tail -n 3 "$WORK/containerd.log")"
fi

services() { ppcctl status --json | python3 -c '
import json, sys
print(*sorted(s["service_id"] for m in json.load(sys.stdin)["mounts"] for s in m["services"]))'; }
services_are() { [[ $(services) == "$1" ]]; }
model_bytes=$(du -cb "$MODEL"/*.safetensors | awk 'END {print $1}')
wanted=$(cat "$MODEL"/*.safetensors | sha256sum)
present() { (($(resident_of "$MODEL") >= model_bytes * 95 / 100)); }

# No ppcd, and no wish to have it: is this a machine for that runtime at all?
out=$(run_box alone '{"ppc.enable": "false"}' 300 /bin/sh -c 'echo started' 2>&1)
[[ $out == *started* ]] || skip "$runtime cannot run a container here: $(tail -n 1 <<<"$out")"

start_daemon
drop_caches
# shellcheck disable=SC2016  # for the inner shell
run_box told '{"ppc.model": "/model", "ppc.service-id": "svc-told", "ppc.workers": "1"}' 20000 /bin/sh -c \
  'until [ -e /go/told ]; do busybox sleep 0.1; done; busybox cat /model/*.safetensors | busybox sha256sum' \
  >"$WORK/told.out" 2>"$WORK/told.err" &
box=$!
within 60 services_are svc-told || fail "services: $(services), $(cat "$WORK/told.err")"
within 90 present || fail "not loaded: $(ppcctl status --json)"
eq "$(runner_field '["events"]["miss_bytes"]')" 0 "bytes missed before the container reads"
out=$(ppcctl doctor) || fail "a healthy container: $out"
has "$out" "0 problems, 1 directory"
touch "$WORK/go/told"
wait "$box" || fail "the container: $(cat "$WORK/told.err")"
eq "$(cat "$WORK/told.out")" "$wanted" "what the container read"
missed=$(runner_field '["events"]["miss_bytes"]')
echo "# $runtime: bytes missed by the container $missed of $model_bytes"
le "$missed" $((model_bytes / 10)) "bytes missed by the container"
within 20 services_are "" || fail "services after its end: $(services)"

# A ppcd that hangs, and one that is gone: the container starts, unless it says that it must not.
kill -STOP "$DAEMON"
eq "$(run_box hanging '{"ppc.model": "/model"}' 300 /bin/sh -c 'echo started' 2>"$WORK/err")" started "ppcd hangs: $(cat "$WORK/err")"
kill -CONT "$DAEMON"
stop_daemon
eq "$(run_box gone '{"ppc.model": "/model"}' 300 /bin/sh -c 'echo started' 2>"$WORK/err")" started "no ppcd: $(cat "$WORK/err")"
run_box required '{"ppc.model": "/model", "ppc.required": "true"}' 300 /bin/sh -c 'echo started' >"$WORK/out" 2>"$WORK/err" &&
  fail "a container that needs PPC started without"
eq "$(cat "$WORK/out")" "" "what it says"
