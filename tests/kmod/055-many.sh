#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: with very many open files and mappings attaching, tracing and evicting work, and do not keep
# others waiting; an unused mount does no work.
# Once
. "$(dirname "$0")/lib.sh"

make_file a 16M
make_file b 1M
mount_ppc
ulimit -n 30000
# 20000 open files, 8000 mappings of a page each; the reader attaches and detaches meanwhile.
python3 - "$MNT/a" >"$PPC_TEST_DIR/holder" <<'PY' &
import mmap, os, sys, time
fds = [os.open(sys.argv[1], os.O_RDONLY) for _ in range(20000)]
maps = [mmap.mmap(fds[0], 4096, mmap.MAP_PRIVATE, mmap.PROT_READ, offset=(i % 4096) * 4096) for i in range(8000)]
print("ready", flush=True)
time.sleep(600)
PY
holder=$!
within "$(seconds 120)" grep -q ready "$PPC_TEST_DIR/holder" || fail "no holder of files"
for mode in 'attach managed' 'attach trace managed' 'attach beacon'; do
  out=$(dev "$mode" "open $MNT/b" 'read 0 64K' 'sleep 300' detach info)
  ge "$(field info open "$out")" 20000 "open files"
done
grep -q native "$SYS/state" || fail "still attached"
# Read-ahead of a file that was opened before the policy came is its own again, and was the policy's.
out=$(dev 'lookup a' 'load 0 - wait' 'evict 0 - unmap drain' 'resident 0')
eq "$(field evict dropped "$out")" $((16 * MIB)) "evicted under 8000 mappings"
# One that is locked stays, wherever it is.
out=$(dev 'lookup a' 'load 0 - wait' "open $MNT/a" mmap 'mlock 5M 64K' 'evict 0 - unmap drain' 'resident 5M 64K')
eq "$(field evict locked "$out") $(field resident resident "$out")" "65536 65536" "locked under many mappings"
kill $holder
wait $holder 2>/dev/null

# At rest: names are let go of, nothing is looked at any more, and a look wakes it up.
tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs tracefs $tracing || fail "no tracefs"
trap 'status=$?; echo 0 >$tracing/events/workqueue/workqueue_execute_start/enable; (exit $status); clean_up' EXIT
echo 1 >$tracing/events/workqueue/workqueue_execute_start/enable || fail "no tracing of work"
sweeps() {
  echo >$tracing/trace
  sleep "$(seconds 5)"
  grep -c ppc_sweep_work $tracing/trace
}
rests() { (($(sweeps) == 0)); }
echo 1 >"$BASE/gone"
cat "$MNT/gone" >/dev/null
ge "$(sweeps)" 1 "sweeps of a mount in use"
within "$(seconds 90)" rests || fail "an idle mount does not rest"
rm "$BASE/gone"
echo 2 >"$BASE/new"
eq "$(cat "$MNT/new")" 2 "a file after the rest"
ge "$(sweeps)" 1 "sweeps after a look"
