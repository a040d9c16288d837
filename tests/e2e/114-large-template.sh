# SPDX-License-Identifier: Apache-2.0
# Description: with the largest model's template, of 641 GiB in 91,000 tensors for 16 workers, the
# runner's own memory stays below 10 MiB, and all of it below 24 MiB on the way there: with a template
# that is there, and natively with one that is made of the model's headers, too.
# natively by default
. "$(dirname "$0")/maio.sh"
LARGE=$FAST/deepseek-r1

# The layout is at its true size; the bytes are holes.
must mkmodel --model deepseek-r1 --scale 1 --sparse --quiet --out "$LARGE"
trap 'cleanup; rm -rf "$LARGE"; remove_groups "$GROUP"' EXIT
start_daemon
# Before anybody looks on: what reads a model there is taken for a service.
must ppcctl template synth --tp 16 --id svc-large --root "$LARGE" "$LARGE"
serve "$LARGE"
limit_to $((256 << 20))
memory_of() { awk -v name="$1:" '$1 == name {print $2}' "/proc/$(runner_pid)/status"; }
# start_with SOURCE ID: a runner of its own, which is still small.
start_with() {
  local before during=0 peak
  drop_caches
  register "$MNT" maio
  before=$(memory_of RssAnon)
  start_service "$2" 16
  is_loaded() { (($(group_stat file) > 64 << 20)); }
  within 120 is_loaded || fail "$1: nothing is loaded ahead: $(ppcctl status --json "$MNT")"
  in_group head -c 64M "$MNT"/model-00001-of-*.safetensors >/dev/null || fail "the model is not readable"
  settled() { during=$(memory_of RssAnon) && ((during <= 10240)); }
  within 20 settled || fail "$1: the runner has $during KiB of memory of its own, want at most 10240"
  # Programs, libraries and the ring of events among it.
  peak=$(memory_of VmHWM)
  echo "# counted: runner anonymous before=$before with the $1=$during peak=$peak KiB"
  le "$peak" 24576 "KiB of memory of the runner at once, with the $1"
  must ppcctl service stop --id "$2" "$MNT"
  must ppcctl rm_policy "$MNT"
}
start_with template svc-large
# An emulated CPU takes longer to make one than a start may wait.
is_module || start_with headers svc-headers
