# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a container whose runtime calls the hook is loaded ahead before it reads anything, at its own
# cost; one without is left alone; and whatever is wrong with ppcd or the hook, the container starts.
# needs observer
. "$(dirname "$0")/lib.sh"
for program in runc podman; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done
busybox=$(command -v busybox) || skip "busybox is not installed"
hook=$(readlink -f "$(command -v ppc-oci-hook)")
mkdir -p "$WORK"/{hooks,image/bin,image/tmp,go,state}
CDI=/var/run/cdi/ppc-e2e.$$.json
boxes() { podman --root "$WORK/store" --runroot "$WORK/state" --storage-driver vfs --cgroup-manager cgroupfs \
  --events-backend file --runtime runc "$@"; }
trap 'rm -f "$CDI"; boxes rm -af -t 0 >/dev/null 2>&1; umount -q "$WORK/store/vfs" "$WORK/store"; cleanup' EXIT

cp "$busybox" "$WORK/image/bin/"
for name in sh cat sleep; do ln -s busybox "$WORK/image/bin/$name"; done
tar -C "$WORK/image" -cf "$WORK/image.tar" .
must boxes import "$WORK/image.tar" ppc-e2e
boxes run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 ppc-e2e /bin/cat /dev/null \
  >"$WORK/out" 2>&1 || skip "containers cannot be run here: $(tail -n 1 "$WORK/out")"

# configured FILE NAME VALUE...: what is installed, with this build's hook and this test's ppcd.
configured() {
  python3 -c '
import json, sys
file, hook, socket, *edits = sys.argv[1:]
text = json.load(open(file))
hooks = [text["hook"]] if "hook" in text else text["devices"][0]["containerEdits"]["hooks"]
for one in hooks:
    one.update(path=hook, env=["PPC_SOCKET=" + socket])
    one["args"][1:] = ["--timeout-ms", "20000"]
    one["timeout"] = 60
text.update(zip(edits[::2], edits[1::2]))
json.dump(text, sys.stdout)' "$1" "$hook" "$PPC_SOCKET" "${@:2}"
}
configured "$PPC_E2E_BUILD/packaging/oci/50-ppc.json" >"$WORK/hooks/50-ppc.json"
# box NAME OPTIONS...: in the background; reads its model when $WORK/go/NAME is there.
# shellcheck disable=SC2016  # for the inner shell
box() {
  must boxes --hooks-dir "$WORK/hooks" run -d --name "$1" --network none --ulimit nofile=1024:1024 \
    --ulimit nproc=1000:1000 -v "$WORK/go:/go:ro" "${@:2}" ppc-e2e \
    /bin/sh -c 'until [ -e /go/$0 ]; do sleep 0.1; done; cat /model/*.safetensors >/dev/null && echo read' "$1"
}
# box_reads NAME: ... and ends well.
box_reads() {
  touch "$WORK/go/$1"
  eq "$(timeout 120 podman --root "$WORK/store" --runroot "$WORK/state" --storage-driver vfs wait "$1")" 0 "status of $1"
  eq "$(boxes logs "$1")" read "what $1 says"
}
cached_of() { # clean page cache that the container NAME pays for
  local group
  group=$(sed -n 's/^[0-9]*:memory://p' "/proc/$(boxes inspect -f '{{.State.Pid}}' "$1")/cgroup")
  if [[ -n $group ]]; then
    awk '$1 == "total_cache" {print $2}' "/sys/fs/cgroup/memory$group/memory.stat"
  else
    group=$(sed -n 's/^0:://p' "/proc/$(boxes inspect -f '{{.State.Pid}}' "$1")/cgroup")
    awk '$1 == "file" {print $2}' "/sys/fs/cgroup$group/memory.stat"
  fi
}
services() { ppcctl status --json | python3 -c '
import json, sys
print(*sorted(s["service_id"] for m in json.load(sys.stdin)["mounts"] for s in m["services"]))'; }
services_are() { [[ $(services) == "$1" ]]; }
MODEL=$FAST/boxed
mkmodel --model qwen2.5-7b --scale 64 --layers 2 --quiet --out "$MODEL" >/dev/null || fail "mkmodel"
mkdir "$FAST/other"
cp "$(find "$MODEL" -name '*.safetensors' | sort | head -n 1)" "$FAST/other/"
sync
model_bytes=$(du -cb "$MODEL"/*.safetensors | awk 'END {print $1}')

# With the hook: the model is there before a byte of it was asked for.
start_daemon
drop_caches
box one --annotation ppc.model=/model --annotation ppc.service-id=svc-one --annotation ppc.workers=1 -v "$MODEL:/model:ro"
MNT=$MODEL
present() { (($(resident_of "$MODEL") >= model_bytes * 95 / 100)); }
within 90 present || fail "not loaded: $(ppcctl status --json)"
eq "$(runner_field '["events"]["miss_bytes"]')" 0 "bytes missed before the container reads"
ge "$(cached_of one)" $((model_bytes * 3 / 4)) "page cache that the container pays for"

# Without: a directory of its own, which nobody observes.
events() { runner_field '["events"]["events"]'; }
before=$(events)
box two -v "$FAST/other:/model:ro"
box_reads two
eq "$(events)" "$before" "events while the container without reads"
eq "$(ppcctl list | wc -l)" 1 "directories registered"
services_are svc-one || fail "services: $(services)"

box_reads one
echo "# counted: bytes missed by the container $(runner_field '["events"]["miss_bytes"]') of $model_bytes"
le "$(runner_field '["events"]["miss_bytes"]')" $((model_bytes / 10)) "bytes missed by the container"
within 20 services_are "" || fail "services after its end: $(services)"
has_no_notes() { [[ -z $(ls "$WORK/oci") ]]; }
within 20 has_no_notes || fail "notes of containers that have ended: $(ls "$WORK/oci")"

# By CDI, and by the words of the command.
mkdir -p "${CDI%/*}"
configured "$PPC_E2E_BUILD/packaging/oci/ppc.cdi.json" kind "ppc-e2e.dev/p$$" >"$CDI"
must boxes run -d --name four --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
  --device "ppc-e2e.dev/p$$=auto" -v "$MODEL:/model:ro" ppc-e2e /bin/sh -c 'sleep 1000; : /model'
is_told() { [[ -n $(services) ]]; }
within 20 is_told || fail "CDI: no service"
must boxes rm -f -t 0 four
within 20 services_are "" || fail "services after CDI: $(services)"

# The programs go while containers run, as when the package is removed; before that, what names them.
gone=$WORK/programs/ppc-oci-hook
install -D "$hook" "$gone"
hook=$gone configured "$PPC_E2E_BUILD/packaging/oci/50-ppc.json" >"$WORK/hooks/50-ppc.json"
hook=$gone configured "$PPC_E2E_BUILD/packaging/oci/ppc.cdi.json" kind "ppc-e2e.dev/p$$" >"$CDI"
cp "$CDI" "$WORK/device.json"
told=(--annotation ppc.model=/model -v "$MODEL:/model:ro")
box five "${told[@]}"
box six "${told[@]}" --device "ppc-e2e.dev/p$$=auto"
package_hooks() { must "$(dirname "$0")/../../packaging/oci/ppc-hooks" "$1" "$WORK/hooks/50-ppc.json" "$CDI"; }
package_hooks off
rm "$gone"
sed -i "s,ppc.dev/service,ppc-e2e.dev/p$$," "$CDI"
box seven "${told[@]}"
box eight "${told[@]}" --device "ppc-e2e.dev/p$$=auto"
for name in five six seven eight; do box_reads "$name"; done
# Once more, those that were made with the hook.
for name in five six; do
  must boxes start "$name"
  eq "$(timeout 120 podman --root "$WORK/store" --runroot "$WORK/state" --storage-driver vfs wait "$name")" 0 "$name, again"
done
package_hooks off # again: it has been done
package_hooks on
cmp "$CDI" "$WORK/device.json" || fail "the device is not as it was: $(cat "$CDI")"
must boxes rm -f five six seven eight
# What all that is for.
cp "$WORK/device.json" "$CDI"
boxes run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 --device "ppc-e2e.dev/p$$=auto" ppc-e2e \
  /bin/cat /dev/null 2>/dev/null && fail "a container starts without its hook: nothing has to be taken away"

# Whatever is wrong, the container starts; runc is the sterner one of the two.
runc_box() { # NAME ANNOTATIONS HOOK-OPTIONS...
  local bundle=$WORK/bundle
  mkdir -p "$bundle"
  (cd "$bundle" && rm -f config.json && runc spec) || fail "runc spec"
  python3 - "$bundle/config.json" "$WORK/image" "$hook" "$MODEL" "${@:2}" <<'PY' || fail "config.json"
import json, sys
file, root, hook, model, annotations, *options = sys.argv[1:]
text = json.load(open(file))
text["root"] = {"path": root, "readonly": True}
text["process"].update(terminal=False, args=["/bin/sh", "-c", "echo started"], rlimits=[])
text["mounts"].append({"destination": "/tmp", "type": "bind", "source": model, "options": ["rbind", "ro"]})
text["annotations"] = {"ppc.model": "/tmp", **json.loads(annotations)}
import os
call = {"path": hook, "args": ["hook", "--timeout-ms", "300", *options], "env": ["PPC_SOCKET=" + os.environ["PPC_SOCKET"]]}
text["hooks"] = {"createRuntime": [call], "poststop": [call]}
json.dump(text, open(file, "w"))
PY
  timeout 60 runc --root "$WORK/runc" run --bundle "$bundle" "e2e-$$-$1" 2>"$WORK/runc.err"
}
starts() { eq "$(runc_box "$@")" started "with $1: $(cat "$WORK/runc.err" 2>/dev/null) "; }
starts told '{"ppc.required": "true"}' --timeout-ms 20000
kill -STOP "$DAEMON"
starts hanging-ppcd '{}'
kill -CONT "$DAEMON"
kill -KILL "$DAEMON"
wait "$DAEMON" 2>/dev/null
starts killed-ppcd '{}'
rm -f "$PPC_SOCKET"
starts no-ppcd '{}'
starts no-worker '{}' --worker /none
printf '#!/bin/sh\nkill -SEGV $$\n' >"$WORK/crash"
chmod +x "$WORK/crash"
starts crashing-worker '{}' --worker "$WORK/crash"
# ... but for one that says otherwise.
runc_box required '{"ppc.required": "true"}' >"$WORK/out" && fail "a container that needs PPC started without"
eq "$(cat "$WORK/out")" "" "what it says"
has "$(cat "$WORK/runc.err")" "is not started" "what runc says"
