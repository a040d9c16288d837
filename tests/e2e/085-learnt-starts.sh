# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: with learnt_starts the next start of a program that has loaded a model is loaded ahead from its exec on,
# before it reads.  Of others nothing is, and a program that loads nothing costs one bounded guess.
# needs observer
. "$(dirname "$0")/maio.sh"
MODEL=$PPC_E2E_SLOW/large
SHARE=$((64 << 20)) # that a guess may load
model_bytes=$(du -cb "$MODEL"/*.safetensors | awk 'END {print $1}')
chmod 755 "$WORK"
mkfifo "$WORK/go"
# It maps the files and touches each page, once a line has come on its standard input.
cat >"$WORK/load.py" <<'EOF'
import glob, mmap, sys
if "--nothing" in sys.argv:
    sys.exit(0)
sys.stdin.readline()
for name in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        sum(pages[::4096])
EOF
learnt() { runner_field "[\"learnt_starts\"][\"$1\"]"; }
is_learnt() { [[ $(learnt "$1") == "$2" ]]; }
load() { /usr/bin/python3 "$WORK/load.py" "$MNT" "$@"; }
has_ended() { [[ $(runner_field '["services"]') != *auto-* ]]; }
# start NAME: a cold start; sets EARLY, bytes that were loaded before it read, and AHEAD, percent of the model that was
# loaded for it.
start() {
  local before reader
  within 10 has_ended || fail "the service of a process that has ended goes on"
  before=$(loaded)
  drop_caches
  load --seed "$RANDOM" <"$WORK/go" &
  reader=$!
  exec 8>"$WORK/go"
  EARLY=-1
  while ((EARLY != $(loaded) - before)); do
    EARLY=$(($(loaded) - before))
    ticks_pass 5
  done
  echo >&8
  exec 8>&-
  wait "$reader" || fail "$1: the reader failed"
  AHEAD=$((($(loaded) - before) * 100 / model_bytes))
  echo "# counted: $1 early=$((EARLY >> 20))MiB ahead=$AHEAD%"
}
# cost COMMAND...: bytes that are loaded for it until its services have ended.
cost() {
  local before
  before=$(loaded)
  drop_caches
  "$@" || fail "'$*' failed"
  ticks_pass 5
  within 10 has_ended || fail "the service of a process that has ended goes on"
  echo $(($(loaded) - before))
}
hundred() { for _ in {1..100}; do load --nothing || return 1; done; }

start_daemon
serve
refuse 1 "learnt_starts" ppcctl reg_policy --backend poll "$MNT" maio '{"runtime": {"learnt_starts": true}}'
register "$MNT" maio '{"runtime": {"learnt_starts": true}}'
start first
eq "$EARLY" 0 "bytes loaded before the first start read"
is_stored() { (($(find "$PPC_TEMPLATE_DIR" -name 'auto-*.ppct' | wc -l) == 1)); }
within 10 is_stored || fail "the first start is not recorded"
within 10 is_learnt programs 1 || fail "the program is not learnt"
start second
start third
ge "$EARLY" $((16 << 20)) "bytes loaded before the third start read"
le "$EARLY" "$SHARE" "bytes loaded before the third start read"
ge "$AHEAD" 80 "percent of the model that was loaded ahead in the third start"
within 10 has_ended || fail "the third start goes on"
eq "$(learnt right)" "$(learnt guesses)" "right guesses"
eq "$(learnt right)" 2 "right guesses"

# Others.
eq "$(cost setpriv --reuid 65534 --clear-groups /usr/bin/python3 "$WORK/load.py" "$MNT" --nothing)" 0 \
  "bytes loaded for another user's program"
eq "$(cost /usr/bin/python3 -c 'pass')" 0 "bytes loaded for another program"
limit_to 1G
eq "$(cost in_group /usr/bin/python3 "$WORK/load.py" "$MNT" --nothing)" 0 "bytes loaded for a program in another cgroup"
eq "$(learnt guesses)" 2 "guesses"

# Of ppcd that has been started again, too.
must ppcctl rm_policy "$MNT"
stop_daemon
start_daemon
register "$MNT" maio '{"runtime": {"learnt_starts": true}}'
bytes=$(cost hundred)
echo "# counted: hundred=$((bytes >> 20))MiB"
le "$bytes" "$SHARE" "bytes loaded for a hundred programs that read nothing"
eq "$(learnt guesses) $(learnt wrong)" "1 1" "guesses, wrong ones"
le "$bytes" "$(learnt wrong_bytes)" "bytes loaded by wrong guesses"
start after
eq "$EARLY" 0 "bytes loaded before a start read that followed a wrong guess"
ge "$AHEAD" 60 "percent of the model that was loaded ahead in a start that followed a wrong guess"
start again
ge "$EARLY" $((16 << 20)) "bytes loaded before a start read, once the program had loaded again"
