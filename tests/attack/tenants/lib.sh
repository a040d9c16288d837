# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the attacks of one tenant on another: a victim whose start is recorded, in a memory group of its own, and
# what a start of it costs alone and beside the attack.  Counts are compared, never times; those are printed.
. "$(dirname "${BASH_SOURCE[0]}")/../../e2e/maio.sh"
# shellcheck disable=SC2034  # for the attacks
NOBODY=65534
OTHER=$GROUP.other
mkdir -p "$OTHER"
trap 'calm; cleanup; sleep 0.2; rmdir "$OTHER" "$GROUP" 2>/dev/null' EXIT

# calm: ends the attack; attacks that need more than the end of their processes replace it.
calm() { end_of_group "$OTHER"; }
# end_of_group GROUP: of all processes in it, stopped ones too.
end_of_group() {
  local pid
  while read -r pid; do kill -KILL "$pid"; done < <(cat "$1/cgroup.procs" 2>/dev/null) 2>/dev/null
}
# as_other COMMAND...: as a process of the other tenant's memory group.
as_other() { bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$OTHER" "$@"; }

# drops: how often anything on this machine has emptied the page cache, ourselves included.
drops() { awk '$1 == "drop_pagecache" {print $2}' /proc/vmstat; }
templates() { find "$PPC_TEMPLATE_DIR" -name 'svc-victim.ppct*' -exec sha256sum {} + | sort; }
# facts ID: what MAIO says of the service: coverage (percent of its template that was read), jumps, unknown.
facts() {
  ppcctl policy "$MNT" '{"op": "status"}' | python3 -c 'import json, sys
one = next(s for s in json.load(sys.stdin)["services"] if s["service_id"] == sys.argv[1])
groups = one.get("groups", [])
print(sum(g["consumed"] for g in groups) * 100 // max(1, sum(g["total"] for g in groups)),
      one.get("jumps", 0), one.get("unknown", 0))' "$1"
}
# victim [COMMAND...]: a start of it, which loads $VICTIM, with an empty page cache; COMMAND begins the attack before.  Sets
# what the start cost: took (percent of the model, from the disk), coverage, jumps, unknown, lost events, seconds.  Another
# program on this machine that empties the page cache meanwhile spoils a start: it is repeated.
victim() {
  local report before others dropped began attempt
  for attempt in 1 2 3 4 5; do
    drop_caches
    dropped=$(drops)
    "${@:-true}"
    start_service svc-victim 2
    others=$(of_others) before=$(sectors) began=$(date +%s%N) lost=$(events_lost)
    report=$(in_group loadmodel --staging 8M --workers 2 --init-s 1 --device-mbps 33 "$VICTIM") ||
      fail "the victim's load failed"
    seconds=$((($(date +%s%N) - began) / 10000000))
    took=$((((($(sectors) - before) * 512) - ($(of_others) - others)) * 100 / model_bytes))
    lost=$(($(events_lost) - lost))
    read -r coverage jumps unknown < <(facts svc-victim)
    end_service svc-victim
    eq "$(checksum_in "$report")" "$(reference_checksum)" "the victim's checksum"
    [[ $(drops) == "$dropped" ]] && return
    echo "# another program has emptied the page cache: attempt $attempt does not count"
    calm
  done
  skip "another program empties the page cache"
}
# Bytes that the disk has given to the other tenant: to its processes; an attack by what is loaded for it replaces this.
of_others() {
  local pid
  while read -r pid; do cat "/proc/$pid/io"; done <"$OTHER/cgroup.procs" 2>/dev/null |
    awk '$1 == "read_bytes:" {sum += $2} END {print sum + 0}'
}
# Lost by the kernel's queue, or held for a look-up and given up.
events_lost() { echo $(($(runner_field '["device"]["events_lost"]') + $(runner_field '["events"]["held_lost"]'))); }
told() { echo "# counted: $1 disk=$took% coverage=$coverage% jumps=$jumps unknown=$unknown lost=$lost seconds=${seconds%??}.${seconds: -2}"; }
# alone: the victim is recorded, then starts undisturbed; its template and what that start took are kept.
alone() {
  limit_group 0 2
  victim
  is_stored() { [[ $(templates) == */svc-victim.ppct* ]]; }
  within 30 is_stored || fail "the victim's start was not recorded"
  victim
  told alone
  template=$(templates) took_alone=$took coverage_alone=$coverage jumps_alone=$jumps unknown_alone=$unknown
  ge "$coverage" 95 "percent of its template that the victim read alone"
}
# unharmed NAME: the last start took what it takes alone, and its template is as it was.  Where one start differs from
# the next without an attack, by a few pages at the slices' ends, so may this one.
unharmed() {
  told "$1"
  le "$took" $((took_alone + 5)) "percent of the model from the disk, $1 (alone $took_alone)"
  ge "$coverage" $((coverage_alone - 3)) "percent of the template that was read, $1"
  le "$jumps" $((jumps_alone + 1)) "jumps of the victim's readers, $1 (alone $jumps_alone)"
  le "$unknown" $((unknown_alone + 10)) "events that do not fit the template, $1 (alone $unknown_alone)"
  eq "$lost" 0 "events lost, $1"
  eq "$(templates)" "$template" "the victim's template, $1"
}
