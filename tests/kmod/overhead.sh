# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the 06x-overhead tests: what the module costs in instructions, measured once per file
# system and guest.  Sets COUNTS to lines
#   count MODE OP EXTRA LOWER
# LOWER instructions on the lower file itself, EXTRA more through the mount.

FS=$(findmnt -no FSTYPE -T "$PPC_TEST_DIR")

# files DIR: what ppc-icount wants there.
files() {
  local i
  mkdir -p "$1/many"
  for ((i = 0; i < 256; i++)); do echo "$i" >"$1/many/$i"; done
  sync -f "$1"
}
# extra MODE LOWER HERE: two lines of ppc-icount, as count lines.
extra() {
  local word
  for word in ${2#icount }; do
    echo "count $1 ${word%%=*} $(($(field icount "${word%%=*}" "$3") - ${word#*=})) ${word#*=}"
  done
}
# on_mount OP...: no consumer, a consumer that asks for nothing, one that manages and wants
# positions.
on_mount() {
  local lower
  lower=$(ppc-icount "$LOWER" "$@")
  extra native "$lower" "$(ppc-icount "$MNT" "$@")"
  extra attached "$lower" "$(dev attach "sh ppc-icount $MNT $*" | tail -1)"
  extra managed "$lower" "$(dev 'attach managed beacon' "sh ppc-icount $MNT $*" | tail -1)"
}
measure() {
  # the same length of path for both
  LOWER=${MNT%????}-low
  make_file a 16M
  files "$BASE"
  mkdir -p "$LOWER"
  must mount --bind "$BASE" "$LOWER"
  mount_ppc
  must ppc-icount "$LOWER"
  must ppc-icount "$MNT"
  on_mount read1m read4k copy1m stat open_close cold_stat
  must umount "$MNT" "$LOWER"
  # A hole in tmpfs is a miss at each read and costs no I/O.
  must mount -t tmpfs none "$BASE"
  must mount --bind "$BASE" "$LOWER"
  truncate -s 16M "$BASE/hole"
  make_file a 16M
  mount_ppc
  must ppc-icount "$LOWER" read4k miss4k
  must ppc-icount "$MNT" read4k miss4k
  # What the miss costs beyond the hit is the event.
  on_mount read4k miss4k | awk '$3 == "read4k" {$3 = "hit4k"; hit[$2] = $4} {print}
    $3 == "miss4k" {print $1, $2, "event", $4 - hit[$2], 0}'
  must umount "$MNT" "$LOWER" "$BASE"
  rmdir "$LOWER"
}

if [[ ! -s /run/ppc-overhead.$FS ]]; then
  measure >"/run/ppc-overhead.$FS"
fi
COUNTS=$(cat "/run/ppc-overhead.$FS")
echo "$COUNTS"
# count MODE OP: EXTRA of it.
count() { awk -v m="$1" -v o="$2" '$2 == m && $3 == o {print $4}' <<<"$COUNTS"; }
