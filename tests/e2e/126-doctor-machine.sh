# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: ppcctl doctor names faults of the machine that are planted in a mount namespace, /etc, /sys and modules
# its own: no BTF, a locked-down kernel, an unsigned module, a device that ppcd may not open.
# needs observer
[[ -n ${PPC_E2E_APART:-} ]] || PPC_E2E_APART=1 exec unshare --mount --propagation private bash "$0"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/doctor.sh"
[[ ! -e /sys/module/ppc ]] || skip "the module is loaded: its devices and mounts are others'"
[[ -d /sys/kernel/security && -d /sys/kernel/btf ]] || skip "this kernel has no place for lockdown or for BTF"

modules=/lib/modules is_made='' device=/dev/ppc77
# Not below $WORK, of which all is removed at the end.
spare=$(mktemp -d /run/ppc-e2e-sys.XXXXXX)
if [[ ! -d $modules ]]; then mkdir "$modules" && is_made=1; fi
leave() {
  [[ -z $DAEMON ]] || kill "$DAEMON" 2>/dev/null
  rm -f "$device"
  ! mountpoint -q "$spare" || umount --lazy --recursive "$spare"
  rmdir "$spare"
  umount "$modules"
  [[ -z $is_made ]] || rmdir "$modules"
  cleanup
}
trap leave EXIT
cp -a /etc "$WORK/etc"
must mount --bind "$WORK/etc" /etc
must mount -t tmpfs none "$modules"
must mount -t tmpfs none /sys/kernel/security
lock() { echo "$1" >/sys/kernel/security/lockdown; }
lock "[none] integrity confidentiality"
mkdir "$FAST/one"
head -c 4M /dev/urandom >"$FAST/one/model.safetensors"
sync
chmod 755 "$WORK"
start_daemon
serve "$FAST/one"
register "$MNT" null
is_healthy() { out=$(ppcctl doctor) && [[ $out == *"0 problems, 1 directory"* ]]; }
is_healthy || fail "a healthy machine has problems: $out"

# A module that nobody has signed, on a kernel that takes no such.
mkdir -p "$modules/$(uname -r)/updates/dkms"
file=$modules/$(uname -r)/updates/dkms/ppc.ko
head -c 64K /dev/zero >"$file"
: >/etc/fstab
echo "tmpfs /other tmpfs defaults 0 0" >>/etc/fstab
echo "/srv/models /srv/models ppc defaults,nofail 0 0" >>/etc/fstab
gone unsigned-module || fail "a kernel that is not locked down takes it: $(ppcctl doctor)"
named no-module
lock "none [integrity] confidentiality"
cure unsigned-module
eq "$(grep -c '^[^#]' /etc/fstab)" 1 "lines of fstab that are in force"
sed -i 's/^# //' /etc/fstab
named unsigned-module
# Signed, it is to be loaded.
printf '~Module signature appended~\n' >>"$file"
gone unsigned-module || fail "it is signed: $(ppcctl doctor)"
sed -i '/ ppc /d' /etc/fstab
is_healthy || fail "no mount is wanted: $out"
must ppcctl rm_policy "$MNT"
stop_daemon

# poll_with LAUNCHER...: a ppcd for which the kernel refuses the observer.
poll_with() {
  "$@" ppcd --state-dir "$WORK" >>"$WORK/ppcd.log" 2>&1 &
  DAEMON=$!
  within 20 ppcctl list >/dev/null 2>&1 || fail "ppcd does not answer: $(cat "$WORK/ppcd.log")"
  must ppcctl reg_policy "$MNT" null
  eq "$(status_field '["backend"]')" poll "what auto takes"
}
# observes CODE: another kernel has been booted, as the remedy says.
observes() {
  must ppcctl rm_policy "$MNT"
  stop_daemon
  start_daemon
  register "$MNT" null
  gone "$1" || fail "$1 stays: $(ppcctl doctor)"
  is_healthy || fail "a healthy machine has problems: $out"
  must ppcctl rm_policy "$MNT"
  stop_daemon
}
lock "none integrity [confidentiality]"
poll_with python3 "$(dirname "$0")/denied.py" bpf
named lockdown
lock "none [integrity] confidentiality"
observes lockdown

mkdir "$WORK/empty"
hidden=()
for place in /sys/kernel/btf /boot /usr/lib/debug; do
  [[ -d $place ]] || continue
  must mount --bind "$WORK/empty" "$place"
  hidden+=("$place")
done
poll_with env
named no-btf
has "$(remedy_of no-btf)" CONFIG_DEBUG_INFO_BTF "remedy"
must umount "${hidden[@]}"
observes no-btf

# A mount's device that is root's, and a ppcd that is not.
must mount --rbind /sys/fs "$spare"
must mount -t tmpfs none /sys/fs
mkdir -p /sys/fs/ppc/77
for part in "$spare"/*/; do
  mkdir "/sys/fs/$(basename "$part")"
  must mount --rbind "$part" "/sys/fs/$(basename "$part")"
done
must umount --lazy --recursive "$spare"
echo 0:0 >/sys/fs/ppc/77/dev
must mknod -m 600 "$device" c 1 3
mkdir -p "$WORK/own/templates"
chown -R 65534:65534 "$WORK/own"
export PPC_SOCKET=$WORK/own/ppcd.sock PPC_TEMPLATE_DIR=$WORK/own/templates
as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)
# shellcheck disable=SC2016  # for the shell that it is given to
refuse 1 "Permission denied" "${as_nobody[@]}" bash -c ': <"$0"' "$device"
"${as_nobody[@]}" ppcd --state-dir "$WORK/own" >>"$WORK/ppcd.log" 2>&1 &
DAEMON=$!
within 20 ppcctl list >/dev/null 2>&1 || fail "ppcd does not answer: $(cat "$WORK/ppcd.log")"
# Root's ppcd keeps no state below a directory that another user may change.
chown root:root "$WORK/own"
cure_by_ppcd device-permission
eq "$(awk '/^Uid:/ {print $2}' "/proc/$DAEMON/status")" 0 "user of the ppcd that the remedy starts"
rm "$device"
named no-device
eq "$seen" 7 "causes"
