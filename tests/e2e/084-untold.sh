# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: starts that no message tells of: of a plain registration and of one that names its service, the third and
# the second cold start of an unmodified loader are loaded ahead, although one shell runs all of them.
# needs observer
. "$(dirname "$0")/lib.sh"
MODEL=$PPC_E2E_SLOW/large
model_bytes=$(du -cb "$MODEL"/*.safetensors | awk 'END {print $1}')
# It maps the files and touches each page, one file after the other, some time after its start.
cat >"$WORK/load.py" <<'EOF'
import glob, mmap, sys, time
time.sleep(1)
for name in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        sum(pages[::4096])
EOF
# start NAME: a cold start; sets AHEAD, percent of the model that was loaded for it.
start() {
  local before
  before=$(loaded)
  drop_caches
  must /usr/bin/python3 "$WORK/load.py" "$MNT" --seed "$RANDOM"
  AHEAD=$((($(loaded) - before) * 100 / model_bytes))
  echo "# counted: $1 ahead=$AHEAD%"
}
services() { runner_field '["services"]' | grep -o "'service_id': '[^']*'"; }
start_daemon
serve

register "$MNT" maio
start plain-1
is_stored() { (($(find "$PPC_TEMPLATE_DIR" -name 'auto-*.ppct' | wc -l) == 1)); }
within 10 is_stored || fail "the first start of a service that a miss began is not recorded"
start plain-2
start plain-3
ge "$AHEAD" 80 "percent of the model that was loaded ahead in the third start"
has_ended() { [[ $(services) != *auto-* ]]; }
within 10 has_ended || fail "the service of a process that has ended goes on: $(services)"
templates=$(find "$PPC_TEMPLATE_DIR" -name 'auto-*.ppct' | wc -l)
eq "$templates" 1 "automatic services of one program and model"
must ppcctl rm_policy "$MNT"

register "$MNT" maio '{"service_id": "svc-own", "workers": 1}'
has "$(services)" "'svc-own'" "services of the runner"
has "$(ppcctl status --json "$MNT")" '"svc-own"' "status"
ticks_pass 5
eq "$(loaded)" 0 "bytes loaded before a process reads"
start own-1
start own-2
ge "$AHEAD" 80 "percent of the model that was loaded ahead in the second start"
must ppcctl service ready --id svc-own "$MNT"
has "$(ppcctl template list)" "svc-own" "templates"
start own-3
ge "$AHEAD" 80 "percent of the model that was loaded ahead after ready"
must ppcctl service stop --id svc-own "$MNT"
refuse 1 "was not started" ppcctl service ready --id svc-own "$MNT"
refuse 1 "service ID" reg_policy "$MNT" maio '{"service_id": "a/b"}'
