# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a report splits a start-up as the loader's own stopwatch does, and names what limits it.
# needs observer
. "$(dirname "$0")/maio.sh"

# Neighbours of the machine have no part in what is measured, least of all between the stopwatch's end and `ready`.
before_others=(nice -n -15)
if chrt -r 1 true 2>/dev/null; then before_others=(chrt -r 1); fi
# start NAME OPTIONS...: a cold start of the model with a report; the loader's own is in $WORK/NAME.own.
start() {
  local name=$1
  shift
  drop_caches
  must_run "$name" ppcctl run "$MNT" --id "svc-$name" --report "$WORK/$name.json" -- \
    "${before_others[@]}" loadmodel --ready-cmd 'ppcctl service ready' "$@" "$MNT"
}
must_run() { "${@:2}" >"$WORK/$1.own" 2>"$WORK/$1.err" || fail "$1: $(cat "$WORK/$1.err" "$WORK/$1.own")"; }
# agrees NAME LIMIT: the parts add up, each is the stopwatch's within a tenth of the whole or 0.3 s, and
# the limit is the one that was constructed.
agrees() {
  local said
  said=$(
    /usr/bin/python3 - "$WORK/$1.json" "$WORK/$1.own" "$2" <<'PY'
import json, sys
report, own = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
parts, workers = report["parts"], own["workers"]
mean = lambda key: sum(w[key] for w in workers) / len(workers)
wanted = {"init_s": own["init_s"], "device_s": mean("device_wait_s"), "total_s": own["startup_s"],
          "user_s": mean("user_s"), "kernel_s": mean("sys_s")}
wanted["disk_s"] = own["load_s"] - sum(wanted[k] for k in ("device_s", "user_s", "kernel_s")) - parts["no_cpu_s"]
bad = [f"{key}: {parts[key]:.2f}, stopwatch {value:.2f}" for key, value in wanted.items()
       if abs(parts[key] - value) > max(0.3, 0.1 * own["startup_s"])]
rest = parts["total_s"] - sum(parts[k] for k in ("init_s", "disk_s", "user_s", "kernel_s", "no_cpu_s", "device_s"))
if abs(rest - parts["unexplained_s"]) > 1e-6:
    bad.append(f"{rest:.2f} s are in no part, {parts['unexplained_s']:.2f} s said to be")
# Of one thread: neither too little nor too much, but for what lies outside of the stopwatch.
outside = max(0, parts["total_s"] - own["startup_s"])
for key, beyond in (("unexplained_s", outside), ("overlap_s", 0)):
    if parts[key] > 0.05 * parts["total_s"] + beyond:
        bad.append(f"{key}: {parts[key]:.2f} of {parts['total_s']:.2f}")
if not parts["is_ready"]:
    bad.append("not seen to be ready")
if report["limit"]["name"] != sys.argv[3]:
    bad.append(f"limit {report['limit']['name']}, wanted {sys.argv[3]}")
print("#", sys.argv[3], {k: (round(v, 2), round(wanted.get(k, 0), 2)) for k, v in parts.items() if k.endswith("_s")}, *bad)
sys.exit(bool(bad))
PY
  ) || fail "$1: $said"
  echo "$said"
}

start_with maio '{"record": "never"}'
start disk --workers 1
agrees disk disk
start device --workers 1 --device-mbps 20
agrees device device
start init --workers 1 --init-s 5
agrees init init

# What was written can be shown again, in each form.
has "$(ppcctl report --from "$WORK/disk.json")" "limit: disk: "
must ppcctl report --from "$WORK/disk.json" --out "$WORK/disk.html"
page=$(cat "$WORK/disk.html")
has "$page" "svc-disk in $MNT"
has "$page" "<b>disk.</b>"
has "$page" "How far the readers were</title>"
# A machine without the renderer's Python keeps what was seen.
mkdir "$WORK/no-python"
ln -s "$(command -v ppcctl)" "$WORK/no-python/ppcctl"
refuse 1 "which ppcctl report --from $WORK/none.html.json shows" \
  env PATH="$WORK/no-python" ppcctl report --from "$WORK/disk.json" --out "$WORK/none.html"
has "$(ppcctl report --from "$WORK/none.html.json")" "limit: disk: "
echo '{}' >"$WORK/other.json"
refuse 1 "is not a report" ppcctl report --from "$WORK/other.json"
refuse 1 "is not valid JSON" ppcctl report --from "$(dirname "$0")/maio.sh"
refuse 1 "No such file" ppcctl report --from "$WORK/none.json"
# Nor can a report that cannot be written keep a command from running.
out=$(ppcctl run "$MNT" --id svc-bad --report /nowhere/report.html -- echo ran 2>&1) || fail "the command did not run: $out"
has "$out" "ran"
has "$out" "warning: --report /nowhere/report.html"

# Live, of a service that somebody else has started.
drop_caches
ppcctl service start "$MNT" --id svc-live --workers 1 --pid $$ >/dev/null || fail "no start"
loadmodel --workers 1 --ready-cmd "ppcctl service ready '$MNT' --id svc-live" "$MNT" >"$WORK/live.own" &
must ppcctl report "$MNT" --id svc-live --out "$WORK/live.json"
has "$(cat "$WORK/live.json")" '"is_ready": true'

# The other three limits, by a loader whose own work or the kernel's is what takes longest.
# toil NAME LIMIT SECONDS BEFORE...: a cold start of a loader that works so long for each model.
toil() {
  drop_caches
  must_run "$1" ppcctl run "$MNT" --id "svc-$1" --report "$WORK/$1.json" -- "${@:4}" \
    /usr/bin/python3 -B "$(dirname "$0")/toil.py" "$2" "$3" "$MNT" ppcctl service ready
}
toil cpu cpu 6 "${before_others[@]}"
agrees cpu cpu
toil kernel kernel 6 "${before_others[@]}"
agrees kernel kernel
# Five for one CPU.
for _ in {1..4}; do
  taskset -c 0 bash -c 'while :; do :; done' &
done
toil crowd cpu 1.5 taskset -c 0
agrees crowd no-cpu
