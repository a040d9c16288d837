# SPDX-License-Identifier: Apache-2.0
# Description: what is loaded for an XPU lies on that XPU's NUMA node; a process is bound to the
# XPU that the service's list gives its worker.
. "$(dirname "$0")/lib.sh"
[[ -d /sys/devices/system/node/node1 ]] || skip "one NUMA node"
mkdir -p "$FAST/two"
dd if=/dev/urandom of="$FAST/two/file" bs=1M count=64 status=none
sync
start_daemon
serve "$FAST/two"
register "$MNT" "$BAD/libppc_spread.so" "{\"runtime\":{\"trace_file\":\"$WORK/t.jsonl\"}}"
must ppcctl service start --id svc-spread --xpu 1,0 --workers 2 "$MNT"
drop_caches
file_pages() { awk '/FilePages/ {print $4}' "/sys/devices/system/node/node$1/meminfo"; }
before=$(file_pages 1)
# It stays a while, so that its environment can be looked at.
PPC_WORKER=1 bash -c "read -r -N 4 -u 9; sleep 3" 9<"$MNT/file" 2>/dev/null
# A step that is asked for again counts as resident, and so does what the observer's kernel has read ahead.
has_loaded() { (($(loaded) + $(runner_field '["loader"]["resident"]') >= 62 << 20)); }
within 30 has_loaded || fail "not loaded: $(ppcctl status --json)"
for node in 0 1; do ge "$(runner_field "[\"loader\"][\"node_loaded\"][\"$node\"]")" $((28 << 20)) "loaded for node $node"; done
ge $((($(file_pages 1) - before) / 1024)) 31 "MiB that came to node 1"
flushed() { [[ -s $WORK/t.jsonl ]]; }
within 5 flushed || fail "no time series"
# Worker 1 of the list 1,0 has XPU 0.
has "$(cat "$WORK/t.jsonl")" '"xpu":0' "time series"
