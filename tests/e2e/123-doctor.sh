# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: ppcctl doctor names the cause of planted faults, and each printed remedy, run as it
# stands, clears it; a healthy machine has none.
# needs observer
. "$(dirname "$0")/maio.sh"

# remedy_of CODE [ARGUMENTS]: what doctor says is to be done; empty: it does not find that.
remedy_of() {
  ppcctl doctor --json "${@:2}" 2>/dev/null | python3 -c '
import json, sys
print(*(f["remedy"] for f in json.load(sys.stdin)["findings"] if f["code"] == sys.argv[1]), sep="\n")' "$1" | head -n 1
}
found() { [[ -n $(remedy_of "$@") ]]; }
gone() { [[ -z $(remedy_of "$@") ]]; }
seen=0
named() {
  within 10 found "$@" || fail "$1 is not found: $(ppcctl doctor "${@:2}" 2>&1)"
  seen=$((seen + 1))
  echo "# $1: $(remedy_of "$@")"
}
cure() {
  named "$@"
  must bash -c "$(remedy_of "$@")"
  within 10 gone "$@" || fail "$1 stays: $(ppcctl doctor "${@:2}" 2>&1)"
}
# holds CODE PROGRAM: a fault that lasts as long as a process does.
holds() {
  /usr/bin/python3 -c "$2" &
  local process=$!
  named "$1" "$MNT"
  kill "$process"
  within 10 gone "$1" "$MNT" || fail "$1 stays: $(ppcctl doctor "$MNT")"
}

trap 'umount -q "$FAST/fuse"; cleanup' EXIT
named daemon-down "$FAST"
start_daemon
mkdir -p "$FAST/one" "$FAST/elsewhere"
head -c 24M /dev/urandom >"$FAST/one/model.safetensors"
sync
serve "$FAST/one"
drop_caches
cure not-registered "$MNT"
out=$(ppcctl doctor) || fail "a healthy machine has problems: $out"
has "$out" "0 problems, 1 directory"

# Files.
head -c 8M /dev/urandom >"$MNT/fresh.bin"
cure dirty "$MNT"
head -c 8M /dev/urandom >"$FAST/elsewhere/other.gguf" && sync
ln -s "$FAST/elsewhere/other.gguf" "$MNT/other.gguf"
cure link-leaves "$MNT"
must ppcctl rm_policy "$FAST/elsewhere"
rm "$MNT/other.gguf" "$MNT/fresh.bin"
cat "$MNT/model.safetensors" >/dev/null
cure cached "$MNT"

# A FUSE server that wants no pages; mounted as the remedy says, without direct_io, it has them.
if command -v bindfs >/dev/null && [[ -e /dev/fuse ]]; then
  mkdir "$FAST/fuse"
  must bindfs -o direct_io "$FAST/one" "$FAST/fuse"
  named past-page-cache "$FAST/fuse"
  must umount "$FAST/fuse"
  must bindfs "$FAST/one" "$FAST/fuse"
  gone past-page-cache "$FAST/fuse" || fail "direct_io is found without: $(ppcctl doctor "$FAST/fuse")"
  must umount "$FAST/fuse"
fi

# Who reads, and how.
file="\"$MNT/model.safetensors\""
holds o-direct "import os, time; f = os.open($file, os.O_RDONLY | os.O_DIRECT); time.sleep(600)"
holds madv-random "import mmap, time
f = open($file, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
m.madvise(mmap.MADV_RANDOM); time.sleep(600)"
named own-prefetch "$MNT" -- vllm serve "$MNT" --safetensors-load-strategy prefetch
gone own-prefetch "$MNT" -- vllm serve "$MNT" --safetensors-load-strategy lazy || fail "lazy is no prefetch"

# Services: a template of files that have changed, a damaged one, a cgroup that is full, a wrong one.
must mkmodel --model qwen2.5-7b --scale 256 --layers 1 --quiet --out "$MNT/small"
must ppcctl template synth "$MNT/small" --root "$MNT" --id svc-one
must ppcctl service start "$MNT" --id svc-one --workers 1 --pid $$
gone template-stale "$MNT" || fail "the template is not stale"
for part in "$MNT"/small/*.safetensors; do
  head -c 4096 /dev/urandom | dd of="$part" conv=notrunc status=none
done
cure template-stale "$MNT"
rm -r "$MNT/small"
echo nonsense >"$PPC_TEMPLATE_DIR/sv/svc-one.ppct"
cure template-damaged "$MNT"
must ppcctl service stop "$MNT" --id svc-one

limit_to 96M
in_group /usr/bin/python3 -c 'import time; held = bytearray(64 << 20); held[::4096] = b"x" * len(held[::4096]); time.sleep(600)' &
holder=$!
holds_much() { (($(group_use) > 60 << 20)); }
within 30 holds_much || fail "the holder holds $(group_use)"
must ppcctl service start "$MNT" --id svc-two --workers 1 --cgroup "$GROUP"
cure cgroup-limit "$MNT"
kill $holder
must ppcctl service stop "$MNT" --id svc-two
must ppcctl service start "$MNT" --id svc-three --workers 1 --cgroup "$GROUP" --pid $$
cure wrong-cgroup "$MNT"
must ppcctl service stop "$MNT" --id svc-three

# Processes and policies.
runner=$(runner_pid)
kill -STOP "$runner"
cure runner-stopped "$MNT"
kill -STOP "$DAEMON"
cure daemon-hangs --timeout 1 "$MNT"
must ppcctl rm_policy "$MNT"
register "$MNT" "$BAD/libppc_misbehave.so" '{"do":"throw"}'
given_up() { miss && state_is failed; }
echo x >"$MNT/tokenizer.json" && sync
within 60 given_up || fail "the policy stays: $(ppcctl status "$MNT")"
cure policy-failed "$MNT"
must ppcctl rm_policy "$MNT"
install -m 644 "$PPC_POLICY_DIR/libppc_null.so" "$WORK/mine.so"
register "$MNT" "$WORK/mine.so"
rm "$WORK/mine.so"
cure policy-missing "$MNT"
echo "# $seen causes"
ge "$seen" 15 "causes"
