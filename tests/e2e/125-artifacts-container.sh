# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: containers whose command is `ppcctl run --artifacts` and that have a volume for bundles: restored as
# their own user in their own mounts, captured when ready, beside the hook; never another user's, and they always start.
# needs observer
. "$(dirname "$0")/lib.sh"
command -v runc >/dev/null || skip "runc is not installed"
hook=$(readlink -f "$(command -v ppc-oci-hook)")
mkdir -p "$WORK"/{root/{tmp,proc,dev,sys,store,seen,model,ppc},bundle,seen,program}
for dir in usr bin lib lib64; do
  if [[ -L /$dir ]]; then cp -P "/$dir" "$WORK/root/$dir"; elif [[ -d /$dir ]]; then mkdir "$WORK/root/$dir"; fi
done
cp "$(command -v ppcctl)" "$WORK/program/" # an image without ppcd: the node's is told by the hook
mkdir -m 1777 "$WORK/store"
chmod 1777 "$WORK/root/tmp" # runc gives it to what is mounted there
: >"$WORK/seen/compiled"
chmod 666 "$WORK/seen/compiled"
MODEL_DIR=$FAST/boxed
mkmodel --model qwen2.5-7b --scale 64 --layers 2 --quiet --out "$MODEL_DIR" >/dev/null || fail "mkmodel"
sync

# What an engine is, here: compiles what it does not find, is ready, and serves until it is told to end.
cat >"$WORK/program/engine" <<'SH'
#!/bin/sh
umask 022
if [ ! -s /tmp/home/.triton/cache/k/kernel ]; then
  echo "$1" >>/seen/compiled
  mkdir -p /tmp/home/.triton/cache/k && echo "binary of $(id -u)" >/tmp/home/.triton/cache/k/kernel
fi
cat /tmp/home/.triton/cache/k/kernel
[ "$(stat -c %u /tmp/home/.triton/cache/k/kernel)" = "$(id -u)" ] || echo "it is not ours"
echo ready to serve
until [ -e "/seen/end.$1" ]; do sleep 0.1; done
SH
chmod 755 "$WORK/program/engine"

# box NAME USER VOLUME [WORD...]: a container with nothing of an earlier one but VOLUME ("" = none), as that user; WORDs
# are ppcctl's.  Its model is /model.
box() {
  (cd "$WORK/bundle" && rm -f config.json && runc spec) || fail "runc spec"
  python3 - "$WORK" "$hook" "$MODEL_DIR" "$PPC_SOCKET" "$@" <<'PY' || fail "config.json"
import json, os, sys
work, hook, model, socket, name, user, volume, *words = sys.argv[1:]
file = work + "/bundle/config.json"
text = json.load(open(file))
text["root"] = {"path": work + "/root", "readonly": True}
text["process"].update(terminal=False, rlimits=[], user={"uid": int(user), "gid": int(user)}, cwd="/",
                       env=["PATH=/ppc:/usr/bin:/bin", "HOME=/tmp/home", "PPC_ARTIFACT_DIR=/store"],
                       args=["ppcctl", "run", "--artifacts", "--id", "boxed", "--ready-on", "ready to", *words, "--",
                             "/ppc/engine", name])
binds = [(d, "/" + d, ["ro"]) for d in ("usr", "bin", "lib", "lib64") if os.path.isdir("/" + d) and not os.path.islink("/" + d)]
binds += [("model", model, ["ro"]), ("ppc", work + "/program", ["ro"]), ("seen", work + "/seen", ["rw"])]
if volume:
    path, _, mode = volume.partition(":")
    binds.append(("store", path, [mode or "rw"]))
text["mounts"] += [{"destination": "/" + to, "type": "bind", "source": at, "options": ["rbind", *mode]} for to, at, mode in binds]
text["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]})
text["annotations"] = {"ppc.model": "/model", "ppc.service-id": "svc-boxed", "ppc.workers": "1"}
call = {"path": hook, "args": ["hook", "--timeout-ms", "20000"], "env": ["PPC_SOCKET=" + socket]}
text["hooks"] = {"createRuntime": [call], "poststop": [call]}
json.dump(text, open(file, "w"))
PY
  timeout 120 runc --root "$WORK/runc" run --bundle "$WORK/bundle" "e2e-$$-$1" >"$WORK/out" 2>"$WORK/err"
}
# whole NAME USER VOLUME [WORD...]: ... to its end.
whole() {
  touch "$WORK/seen/end.$1"
  box "$@" || fail "container $1 ended with status $?: $(cat "$WORK/err")"
  has "$(cat "$WORK/out")" "binary of $2" "what container $1 found"
  [[ $(cat "$WORK/out") != *"not ours"* ]] || fail "container $1: a file of another user's"
}
compiled() { grep -c . "$WORK/seen/compiled"; }

start_daemon
drop_caches
# The first of user 1000: loaded ahead by the hook, captured while it serves, and a volume that has nothing yet.
box engine 1000 "$WORK/store" &
BOX=$!
is_ready() { grep -q 'captured' "$WORK/err" 2>/dev/null || ! kill -0 "$BOX" 2>/dev/null; }
within 60 is_ready
grep -q 'binary of' "$WORK/out" || skip "containers cannot be run here: $(tail -n 1 "$WORK/err")"
grep -q 'ppcctl: artifacts: 1 files captured' "$WORK/err" || fail "not captured: $(cat "$WORK/out" "$WORK/err")"
kill -0 "$BOX" || fail "captured at the end, not when it was ready"
eq "$(ppcctl status --json | python3 -c '
import json, sys
print(*(s["service_id"] for m in json.load(sys.stdin)["mounts"] for s in m["services"]))')" svc-boxed "services, as the hook told"
MNT=$MODEL_DIR
present() { (($(resident_of "$MODEL_DIR") >= $(du -cb "$MODEL_DIR"/*.safetensors | awk 'END {print $1}') * 95 / 100)); }
within 90 present || fail "the hook's service is not loaded: $(ppcctl status --json)"
# A command that is process 1 of its container, behind ppcctl, ends when the container is told to.
must runc --root "$WORK/runc" kill "e2e-$$-engine" TERM
wait "$BOX"
eq $? 143 "status of a container that was told to end"
eq "$(compiled)" 1 "runs of the compiler, first container"
eq "$(stat -c %u:%a "$WORK/store/1000")" 1000:700 "the bundles' owner and mode"

whole engine 1000 "$WORK/store"
has "$(cat "$WORK/err")" "ppcctl: artifacts: 1 files restored" "what the second says"
eq "$(compiled)" 1 "runs of the compiler, second container"

# A volume that is read-only restores; what is new would not be captured.
whole engine 1000 "$WORK/store:ro"
has "$(cat "$WORK/err")" "1 files restored" "what one says whose volume is read-only"
has "$(cat "$WORK/err")" "Read-only file system" "its capture"
eq "$(compiled)" 1 "runs of the compiler with a read-only volume"

# Another key: nothing.
whole engine 1000 "$WORK/store" --key quant=fp8
has "$(cat "$WORK/err")" "nothing is restored, they are for another key: quant is 'fp8', there was none" "another key"
eq "$(compiled)" 2 "runs of the compiler, another key"

# Users who share the volume share no bundle; root is one of them.
for user in 1001 0; do
  before=$(compiled)
  whole engine "$user" "$WORK/store"
  [[ $(cat "$WORK/err") != *restored* ]] || fail "user $user got what user 1000 captured: $(cat "$WORK/err")"
  eq "$(compiled)" $((before + 1)) "runs of the compiler as user $user"
done
# ... not even what somebody who may write to the volume puts among another's.
rm -rf "$WORK/store/1000/bundles" "$WORK/store/1000/objects"
cp -r "$WORK/store/1001/bundles" "$WORK/store/1001/objects" "$WORK/store/1000/"
chown -R 1000:1000 "$WORK/store/1000"
before=$(compiled)
whole engine 1000 "$WORK/store"
has "$(cat "$WORK/err")" "it is forged or damaged" "another user's bundle in his place"
eq "$(compiled)" $((before + 1)) "runs of the compiler, forged"

# Without a volume, or with one that is a stranger's, the container starts all the same.
whole engine 1000 ""
has "$(cat "$WORK/err")" "warning: artifacts: " "without a volume"
mkdir -p "$WORK/strange/1000"
whole engine 1000 "$WORK/strange"
has "$(cat "$WORK/err")" "belongs to user 0" "a stranger's volume"
