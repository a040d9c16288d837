# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: the parts of a report add up to the start-up, and it names what limits it.
# needs observer
. "$(dirname "$0")/maio.sh"

# Neighbours of the machine have no part in what is measured, least of all between the stopwatch's end and `ready`.
before_others=(nice -n -15)
if chrt -r 1 true 2>/dev/null; then before_others=(chrt -r 1); fi
# start NAME OPTIONS...: a cold start of the model with a report.
start() {
  local name=$1
  shift
  drop_caches
  must_run "$name" ppcctl run "$MNT" --id "svc-$name" --report "$WORK/$name.json" -- \
    "${before_others[@]}" loadmodel --ready-cmd 'ppcctl service ready' "$@" "$MNT"
}
must_run() { "${@:2}" >"$WORK/$1.own" 2>"$WORK/$1.err" || fail "$1: $(cat "$WORK/$1.err" "$WORK/$1.own")"; }
# adds_up NAME LIMIT: the parts are the whole, and the limit is the one that was constructed.  That each part is right,
# extras/report/tests shows, whose machine nothing disturbs.
adds_up() {
  local said
  said=$(
    /usr/bin/python3 - "$WORK/$1.json" "$2" <<'PY'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
parts, bad = report["parts"], []
rest = parts["total_s"] - sum(parts[k] for k in ("init_s", "disk_s", "user_s", "kernel_s", "no_cpu_s", "device_s"))
if abs(rest - parts["unexplained_s"]) > 1e-6:
    bad.append(f"{rest:.2f} s are in no part, {parts['unexplained_s']:.2f} s said to be")
bad += [f"{name}: {value:.2f}" for name, value in parts.items() if name.endswith("_s") and value < 0]
if not parts["is_ready"]:
    bad.append("not seen to be ready")
if report["limit"]["name"] != sys.argv[2]:
    bad.append(f"limit {report['limit']['name']}, wanted {sys.argv[2]}")
print("#", sys.argv[2], {k: round(v, 2) for k, v in parts.items() if k.endswith("_s")}, *bad)
sys.exit(bool(bad))
PY
  ) || fail "$1: $said"
  echo "$said"
}

start_with maio '{"record": "never"}'
start disk --workers 1
adds_up disk disk
start device --workers 1 --device-mbps 20
adds_up device device
start init --workers 1 --init-s 5
adds_up init init

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
adds_up cpu cpu
toil kernel kernel 6 "${before_others[@]}"
adds_up kernel kernel
# Five for one CPU.
for _ in {1..4}; do
  taskset -c 0 bash -c 'while :; do :; done' &
done
toil crowd cpu 1.5 taskset -c 0
adds_up crowd no-cpu
