# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: eight processes of another tenant map the victim's model, touch it and never answer again: traced ones that
# stand still, then ones that wait in the kernel for a file whose server stands still.
# The victim's readers are known all the same, and its load goes ahead of them.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for program in nbdkit nbdfuse ppc-attack; do command -v $program >/dev/null || skip "$program is not installed"; done
COUNT=8
SERVER='' FUSE=''
calm() {
  [[ -z $SERVER ]] || kill -CONT "$SERVER"
  end_of_group "$OTHER"
  if [[ -n $FUSE ]]; then
    kill "$FUSE" && wait "$FUSE"
    umount -l "$WORK/hung"
    kill "$SERVER"
    wait "$SERVER"
    FUSE='' SERVER=''
  fi 2>/dev/null
}
# serve_nothing: a file that answers nothing from when it is open.
serve_nothing() {
  mkdir -p "$WORK/hung"
  rm -f "$WORK/nbd"
  nbdkit --foreground --unix "$WORK/nbd" memory 1M &
  SERVER=$!
  within 10 test -S "$WORK/nbd" || fail "nbdkit does not start"
  nbdfuse --readonly "$WORK/hung" --unix "$WORK/nbd" &
  FUSE=$!
  within 10 test -e "$WORK/hung/nbd" || fail "nbdfuse does not start"
  kill -STOP "$SERVER"
}
start_with maio '{"at_ready": "keep"}'
VICTIM=$MNT
SMALL=$(find "$MNT/" -name '*.safetensors' | sort | tail -n 1)
# map HOW: they have all of the last file mapped when this returns.
map() {
  local number hung=()
  if [[ $1 == hung ]]; then
    serve_nothing
    hung=("hung=$WORK/hung/nbd")
  fi
  : >"$WORK/mapped"
  for ((number = 0; number < COUNT; number++)); do
    as_other ppc-attack mapper file="$SMALL" "${hung[@]}" >>"$WORK/mapped" &
  done
  have_mapped() { (($(grep -c '^mapped' "$WORK/mapped") == COUNT)); }
  within 30 have_mapped || fail "they do not map: $(cat "$WORK/mapped")"
}
of_others() { echo 0; } # what they have touched is there before the victim starts
alone
for how in traced hung; do
  victim map "$how"
  states=$(while read -r pid; do awk '{print $3}' "/proc/$pid/stat"; done <"$OTHER/cgroup.procs")
  ge "$(grep -c '[tD]' <<<"$states")" "$COUNT" "processes that stand still, $how"
  took=$((took + 100 * $(stat -c %s "$SMALL") / model_bytes))
  unharmed "$how"
  calm
done
