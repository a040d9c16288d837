# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: a truncated or corrupted template is said so and recorded anew, the load is right.
# natively by default
. "$(dirname "$0")/lib.sh"
start_with maio
drop_caches
eq "$(ppcctl run --id svc-tmpl --xpu 0,1 "$MNT" -- bash -c \
  "loadmodel --workers 2 $MNT | grep -o '\"checksum\":\"[0-9a-f]*\"' | head -n 1")" \
  "$(reference_checksum)" "checksum while recording"
template=$PPC_TEMPLATE_DIR/sv/svc-tmpl.ppct
is_stored() { [[ -s $template ]]; }  # which the end of the command does not wait for
within 20 is_stored || fail "no template was recorded: $(ppcctl status "$MNT")"
must ppcctl template show svc-tmpl
must ppcctl template dump svc-tmpl
has "$(ppcctl template list)" svc-tmpl "list of templates"
cp "$template" "$WORK/good"

spoil() {
  case $1 in
    truncated) head -c $(($(stat -c %s "$WORK/good") / 2)) "$WORK/good" >"$template" ;;
    corrupted)
      cp "$WORK/good" "$template"
      printf '\xff\xff\xff\xff' | dd of="$template" bs=1 seek=200 conv=notrunc status=none
      ;;
    empty) : >"$template" ;;
  esac
}
for damage in truncated corrupted empty; do
  spoil "$damage"
  refuse 1 "svc-tmpl" ppcctl template show svc-tmpl
  has "$(ppcctl template list)" damaged "list of templates"
  must ppcctl service start --id svc-tmpl --xpu 0,1 "$MNT"
  eq "$(mode_of svc-tmpl)" record "mode with a $damage template"
  must ppcctl service stop --id svc-tmpl "$MNT"
done
eq "$(state)" running "the policy after all"
eq "$(checksum_of "$MNT")" "$(reference_checksum)" "checksum"
