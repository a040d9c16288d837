# SPDX-License-Identifier: Apache-2.0
# Description: with the largest model's template, of 641 GiB in 91,000 tensors for 16 workers, the
# runner's own memory stays below 10 MiB, and all of it below 25 MiB on the way there.
# natively by default
. "$(dirname "$0")/maio.sh"
LARGE=$FAST/deepseek-r1

# The layout is at its true size; the bytes are holes.
must mkmodel --model deepseek-r1 --scale 1 --sparse --quiet --out "$LARGE"
trap 'cleanup; rm -rf "$LARGE"; rmdir "$GROUP" 2>/dev/null' EXIT
start_daemon
serve "$LARGE"
register "$MNT" maio
limit_to $((256 << 20))
memory_of() { awk -v name="$1:" '$1 == name {print $2}' "/proc/$(runner_pid)/status"; }
before=$(memory_of RssAnon)
# Made before: that takes an emulated CPU longer than a start may wait.
must ppcctl template synth --tp 16 --id svc-large --root "$LARGE" "$LARGE"
start_service svc-large 16
loaded() { (($(group_stat file) > 64 << 20)); }
within 120 loaded || fail "nothing is loaded ahead: $(ppcctl status --json "$MNT")"
in_group head -c 64M "$MNT"/model-00001-of-*.safetensors >/dev/null || fail "the model is not readable"
during=0
settled() { during=$(memory_of RssAnon) && ((during <= 10240)); }
within 20 settled || fail "the runner has $during KiB of memory of its own, want at most 10240"
# Programs, libraries and the ring of events among it.
peak=$(memory_of VmHWM)
echo "# counted: runner anonymous before=$before with the template=$during peak=$peak KiB"
((peak <= 25600)) || fail "the runner had $peak KiB of memory at once, want at most 25600"
must ppcctl service stop --id svc-large "$MNT"
