# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a load whose service never says ready ends by itself within 10 s of the last page that came, recorded and
# followed.  Then no position reaches the runner, and nothing is loaded or dropped, while the reader touches all again and again.
# natively by default
. "$(dirname "$0")/maio.sh"
# It maps the model, touches each page, and does so again and again through emptied page tables: a line for each pass.
cat >"$WORK/reader.py" <<'PY'
import glob, mmap, sys
maps = []
for name in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with open(name, "rb") as file:
        maps.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
while True:
    for pages in maps:
        sum(pages[::4096])
        pages.madvise(mmap.MADV_DONTNEED)
    print(flush=True)
PY
passes() { wc -l <"$WORK/passes"; }
has_passed() { (($(passes) >= $1)); }
ticks() { runner_field '["events"]["ticks"]'; }
# Not misses: the kernel may reclaim a page at any time, and the reader then misses it.
positions() { echo $(($(runner_field '["events"]["progress"]') + $(runner_field '["events"]["accesses"]'))); }
# What the runner has been told and has done.
told() { echo "positions=$(positions) loaded=$(loaded) dropped=$(runner_field '["evictor"]["dropped"]')"; }
stands_still() {
  local was
  was=$(positions)
  ticks_pass 3
  [[ $(positions) == "$was" ]]
}
# is_serving; sets loading, a tick at which it was not yet: questions take time too.
is_serving() {
  local now
  now=$(ticks)
  [[ $(mode_of svc-serving) == serving ]] && return
  loading=$now
  return 1
}
# start NAME TICKS: a cold start; once it serves, so many ticks of 200 ms change nothing.
start() {
  local name=$1 reader ended before first loading positions_before
  drop_caches
  positions_before=$(positions)
  start_service svc-serving 1
  : >"$WORK/passes"
  in_group /usr/bin/python3 "$WORK/reader.py" "$MNT" >"$WORK/passes" &
  reader=$!
  within 60 has_passed 1 || fail "$name: the reader does not get on"
  ended=$(ticks) loading=$ended
  within 60 is_serving || fail "$name: the load does not end: $(ppcctl policy "$MNT" '{"op": "status"}')"
  # 10 s without anything new.
  le $((loading - ended)) 60 "$name: ticks after the first pass at which the service still loads"
  ge $(($(positions) - positions_before)) 10 "$name: positions that were told during the load"
  # The tracing ends beside the event thread, which then takes what is in the ring.
  within 30 stands_still || fail "$name: positions are told to a service that serves"
  before=$(told) first=$(passes)
  ticks_pass "$2"
  eq "$(told)" "$before" "$name: after $(($(passes) - first)) passes and $2 ticks of a service that serves"
  ge $(($(passes) - first)) 20 "$name: passes over the model meanwhile"
  echo "# counted: $name loading=$((loading - ended)) passes=$(($(passes) - first)) $before"
  xargs -r kill <"$GROUP/cgroup.procs"
  wait "$reader" 2>/dev/null
  must ppcctl service stop --id svc-serving "$MNT"
}
start_with maio
start recorded 60
has "$(ppcctl template list)" svc-serving "templates"
start followed 100
