# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: ppcctl doctor names the cause of planted faults, and each printed remedy, run as it
# stands, clears it; a healthy machine has none.
# needs observer
. "$(dirname "$0")/maio.sh"
. "$(dirname "$0")/doctor.sh"

# holds CODE PROGRAM: a fault that lasts as long as a process does.
holds() {
  /usr/bin/python3 -c "$2" &
  local process=$!
  named "$1" "$MNT"
  kill "$process"
  within 10 gone "$1" "$MNT" || fail "$1 stays: $(ppcctl doctor "$MNT")"
}

IO_GROUP=$GROUP
if is_v1; then IO_GROUP=/sys/fs/cgroup/blkio/${GROUP##*/}; fi
# The group's own processes are children of what bash knows.
empty_group() { xargs -r kill <"$GROUP/cgroup.procs"; }
leave() {
  umount -q "$FAST/fuse"
  [[ -z $DAEMON ]] || kill "$DAEMON"
  empty_group
  cleanup
  [[ $IO_GROUP == "$GROUP" || ! -d $IO_GROUP ]] || rmdir "$IO_GROUP"
  within 5 rmdir "$GROUP" 2>/dev/null || echo "FAIL: $GROUP stays"
}
trap leave EXIT
cure_by_ppcd daemon-down "$FAST"
end_daemon
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
# The same command without what is wrong is the remedy.
command=(vllm serve "$MNT" --safetensors-load-strategy prefetch)
named own-prefetch "$MNT" -- "${command[@]}"
read -ra command <<<"$(remedy_of own-prefetch "$MNT" -- "${command[@]}")"
eq "${command[*]}" "vllm serve $MNT --safetensors-load-strategy lazy" "the remedy"
gone own-prefetch "$MNT" -- "${command[@]}" || fail "lazy is no prefetch"
cat >"$WORK/maps.py" <<PY
import mmap, sys, time
f = open($file, "rb"); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
if "--numa" in sys.argv: m.madvise(mmap.MADV_RANDOM)
with open("$WORK/mapped", "a") as told: told.write("x")
time.sleep(600)
PY
/usr/bin/python3 "$WORK/maps.py" --numa distribute &
numa=$!
named madv-random "$MNT"
remedy=$(remedy_of madv-random "$MNT")
kill "$numa"
bash -c "${remedy#start it again as: }" &
numa=$!
mapped_again() { [[ $(cat "$WORK/mapped") == xx ]]; }
within 10 mapped_again || fail "'$remedy' does not run"
gone madv-random "$MNT" || fail "madv-random stays: $(ppcctl doctor "$MNT")"
kill "$numa"

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

# Half of a file was recorded, the other half is read.  A reader is looked up while it lives, so it stays a while.
read_half() {
  must /usr/bin/python3 -c 'import sys, time
with open(sys.argv[1], "rb") as file:
    file.seek(int(sys.argv[2]) << 20)
    file.read(32 << 20)
    time.sleep(1)' "$MNT/halves.safetensors" "$1"
}
head -c 64M /dev/urandom >"$FAST/halves" && mv "$FAST/halves" "$MNT/halves.safetensors" && sync
drop_caches
must ppcctl service start "$MNT" --id svc-four --workers 1 --pid $$
eq "$(mode_of svc-four)" record "mode of the first start"
# A file that was just made is not known to the observer yet, so its first reader may not be seen.
is_recorded() { read_half 0 && (($(stat_of recorded_bytes) > 0)); }
within 20 is_recorded || fail "a reader of half a file is not recorded"
must ppcctl service ready "$MNT" --id svc-four
must ppcctl service stop "$MNT" --id svc-four
is_stored() { [[ -s $PPC_TEMPLATE_DIR/sv/svc-four.ppct ]]; }
within 10 is_stored || fail "no template of svc-four"
drop_caches
must ppcctl service start "$MNT" --id svc-four --workers 1 --pid $$
eq "$(mode_of svc-four)" use "mode of the second start"
gone template-differs "$MNT" || fail "nothing was read yet"
read_half 32
cure template-differs "$MNT"
must ppcctl service stop "$MNT" --id svc-four
rm "$MNT/halves.safetensors"

# A disk that readers wait for.
must ppcctl rm_policy "$MNT"
register "$MODEL" maio
must ppcctl template synth "$MODEL" --root "$MODEL" --id svc-slow
remedy=''
is_slow() {
  remedy=$(remedy_of device-slow "$MODEL")
  [[ -n $remedy ]]
}
# Starts the service and its loader.
load_slowly() {
  must ppcctl service start "$MODEL" --id svc-slow --workers 1 --pid $$
  loadmodel --workers 1 "$MODEL" >/dev/null &
  loader=$!
}
drop_caches
load_slowly
within 20 is_slow || fail "device-slow is not found: $(ppcctl policy "$MODEL" '{"op": "status"}')"
seen=$((seen + 1))
echo "# device-slow: $remedy"
kill "$loader"
must bash -c "$remedy"
within 10 gone device-slow "$MODEL" || fail "device-slow stays"
must ppcctl service stop "$MODEL" --id svc-slow
load_slowly
while kill -0 "$loader" 2>/dev/null; do
  ! is_slow || fail "the disk is waited for, of which all is in memory: $(ppcctl doctor "$MODEL")"
done
must ppcctl rm_policy "$MODEL"
must ppcctl reg_policy "$MNT" maio

limit_to 96M
in_group /usr/bin/python3 -c 'import time; held = bytearray(64 << 20); held[::4096] = b"x" * len(held[::4096]); time.sleep(600)' &
holds_much() { (($(group_use) > 60 << 20)); }
within 30 holds_much || fail "the holder holds $(group_use)"
must ppcctl service start "$MNT" --id svc-two --workers 1 --cgroup "$GROUP"
cure cgroup-limit "$MNT"
empty_group
must ppcctl service stop "$MNT" --id svc-two
must ppcctl service start "$MNT" --id svc-three --workers 1 --cgroup "$GROUP" --pid $$
cure wrong-cgroup "$MNT"
must ppcctl service stop "$MNT" --id svc-three
mkdir -p "$IO_GROUP"
limit_of=$IO_GROUP/io.max device=$(mountpoint -d "$(stat -c %m "$MNT")") word=rbps=
if is_v1; then limit_of=$IO_GROUP/blkio.throttle.read_bps_device word=''; fi
if echo "$device $word$((8 << 20))" >"$limit_of"; then
  must ppcctl service start "$MNT" --id svc-five --workers 1 --cgroup "$GROUP"
  cure io-limit "$MNT"
  must ppcctl service stop "$MNT" --id svc-five
fi

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

# A ppcd that may not use BPF: the directory is polled until another one is there.
end_daemon
setpriv --bounding-set=-bpf,-sys_admin --inh-caps=-bpf,-sys_admin ppcd --state-dir "$WORK" >>"$WORK/ppcd.log" 2>&1 &
DAEMON=$!
within 20 ppcctl list >/dev/null 2>&1 || fail "ppcd does not answer"
must ppcctl reg_policy "$MNT" null
eq "$(status_field '["backend"]')" poll "what auto takes"
cure_by_ppcd no-capability "$MNT"
observed() { [[ $(status_field '["backend"]') == observer ]]; }
within 20 observed || fail "it is still polled: $(ppcctl status "$MNT")"
echo "# $seen causes"
ge "$seen" 20 "causes"
