# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The part of tests/all/packages that runs in a guest with systemd: the life of the packages on a machine.
# check() is the caller's.

# One by the module, one by the observer, one unregistered.
models=/mnt/disk0/models plain=/mnt/disk0/plain fresh=/mnt/disk0/fresh service=model.service

apt() { apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@"; }

use() { # REPOSITORY: the only source from now on
  rm -f /etc/apt/sources.list.d/*
  echo "deb [trusted=yes] file:$1 ./" >/etc/apt/sources.list
  apt-get -q update
}

within() { # SECONDS COMMAND...
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || { echo "not within $1 s: $*: $("$@" 2>&1)" && return 1; }
    sleep 1
  done
}

# Nothing is in the page cache that no process has mapped.
cold() { sync && echo 3 >/proc/sys/vm/drop_caches; }

# is A B: equal, or what is instead.
is() { [[ $1 == "$2" ]] || { echo "'$1' instead of '$2'" && return 1; }; }
has() { [[ $1 == *"$2"* ]] || { echo "no '$2' in: $1" && return 1; }; }

# Files of the machine, but logs, caches and the package manager's own.
snapshot() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /mnt -o -path /out \
    -o -path /var/cache -o -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path "$PWD" \
    -o -path /var/lib/systemd/deb-systemd-helper-masked \) -prune -o -print | LC_ALL=C sort
}

# A model: a safetensors header over 64 MB that no disk has seen.
make_model() {
  local bytes=$((64 << 20)) header
  mkdir -p "$1"
  header="{\"weight\":{\"dtype\":\"U8\",\"shape\":[$bytes],\"data_offsets\":[0,$bytes]}}"
  while ((${#header} % 8)); do header+=' '; done
  { printf '%b' "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0" && printf %s "$header" && head -c "$bytes" /dev/urandom; } \
    >"$1/model.safetensors"
  echo "$(sha256sum <"$1/model.safetensors" | cut -d ' ' -f 1) $1" >>/tmp/sums
}

# sum_is DIR TEXT: what a reader read is what make_model wrote; sums has `SUM DIR` of each.
sum_is() { is "${2%% *}" "$(sed -n "s,  *$1\$,,p" /tmp/sums)"; }
sum_of() { sha256sum "$1/model.safetensors"; }

# Nothing to complain of: each directory by its own backend, whatever runs just now.
healthy() {
  local said
  said=$(ppcctl doctor) || { echo "$said" && return 1; }
  has "$said" "0 problems, $1 "
}

units_are_there() {
  is "$(systemctl is-active ppcd.socket ppcd-service.socket ppcd.service | paste -sd ' ')" "active active active" &&
    is "$(systemctl is-enabled ppcd.socket ppcd-service.socket ppcd.service | paste -sd ' ')" "enabled enabled enabled" &&
    is "$(stat -c '%a %U:%G' /run/ppc/ppcd.sock)" "600 root:root" &&
    is "$(stat -c '%a %U:%G' /run/ppc/service/ppcd.sock)" "666 root:root" && ppcctl status
}

# What systemd really made of the unit file.
made_of() { systemctl show -P "$1" ppcd.service; }
confinement() {
  local pid allowed=0 capability
  pid=$(made_of MainPID)
  # CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER SETPCAP SYS_PTRACE SYS_ADMIN SYS_NICE SYS_RESOURCE PERFMON BPF
  for capability in 0 1 2 3 8 19 21 23 24 38 39; do allowed=$((allowed | 1 << capability)); done
  is "$(sed -n 's/^CapBnd:\s*//p' "/proc/$pid/status")" "$(printf %016x "$allowed")" &&
    is "$(sed -n 's/^Seccomp:\s*//p' "/proc/$pid/status")" 2 &&
    is "$(readlink "/proc/$pid/ns/mnt")" "$(readlink /proc/1/ns/mnt)" && is "$(made_of WatchdogUSec)" 1min &&
    is "$(made_of LimitDATA) $(made_of TasksMax) $(made_of CPUWeight) $(made_of MemoryMax)" "$((8 << 30)) 32768 50 infinity" &&
    is "$(awk '/^Max data size/ {print $4}' "/proc/$pid/limits")" $((8 << 30))
}

by_fstab() {
  echo "$models $models ppc ro,nofail 0 0" >>/etc/fstab
  systemctl daemon-reload
  systemctl start mnt-disk0-models.mount && is "$(findmnt -no FSTYPE "$models" | tail -n 1)" ppc
}

by_unit() {
  mkdir -p /etc/ppc
  printf 'PPC_POLICY=readahead\nPPC_OPTIONS=--backend observer\n' >/etc/ppc/mnt-disk0-plain.conf
  systemctl enable --now ppc@mnt-disk0-models.service ppc@mnt-disk0-plain.service || {
    systemctl status --no-pager ppc@mnt-disk0-models.service ppc@mnt-disk0-plain.service ppcd | tail -n 30
    return 1
  }
  local list
  list=$(ppcctl list)
  has "$list" "$models" && has "$list" "$plain" && has "$(ppcctl status "$models")" "backend kmod" &&
    has "$(ppcctl status "$plain")" "backend observer"
}

# A restart of ppcd alone, as after a crash: by its socket it answers at once, and knows what it knew.
by_socket() {
  local before
  before=$(systemctl show -P MainPID ppcd)
  systemctl stop ppcd.service
  within 60 ppcctl list && [[ $(systemctl show -P MainPID ppcd) != "$before" ]] &&
    within 60 has_both
}
has_both() { has "$(ppcctl list)" "$models" && has "$(ppcctl list)" "$plain"; }

observer_only() {
  local dir=/etc/systemd/system/ppcd.service.d pid
  mkdir -p $dir
  cp /usr/share/doc/ppc/examples/observer-only.conf $dir/
  systemctl daemon-reload
  ppcctl rm_policy "$models" && systemctl restart ppcd.service && within 60 is_observed || return
  pid=$(systemctl show -P MainPID ppcd)
  # No bit of CAP_SYS_ADMIN.
  is $((0x$(sed -n 's/^CapBnd:\s*//p' "/proc/$pid/status") >> 21 & 1)) 0 || return
  cold
  cat "$plain/model.safetensors" >/dev/null
  within 60 is_served || return
  rm -r $dir
  systemctl daemon-reload
  systemctl restart ppcd.service ppc@mnt-disk0-models.service
}
is_observed() { has "$(ppcctl status "$plain")" "running"; }
is_served() { ppcctl status --json "$plain" | grep -qE '"misses":[[:space:]]*[1-9]'; }

# The drop-in as it is shipped, for a unit that takes its time, reads its model and says then that it is ready.
by_drop_in() {
  local dir=/etc/systemd/system/$service.d
  mkdir -p "$dir"
  cat >"/etc/systemd/system/$service" <<UNIT
[Service]
Type=notify
NotifyAccess=all
TimeoutStartSec=300
ExecStart=/bin/sh -c "sleep 10; sha256sum $models/model.safetensors; systemd-notify --ready; exec sleep infinity"
UNIT
  # With a time-out for an emulated CPU.
  sed "s,/srv/models,$models,g; s,srv-models,mnt-disk0-models,g; s,^#Exec,Exec,; s,--timeout 2 ,--timeout 60 ," \
    /usr/share/doc/ppc/examples/service.conf >"$dir/ppc.conf"
  systemctl daemon-reload
  cold
  systemctl start "$service" && has "$(ppcctl status "$models")" "$id" && unit_read_well || return
  systemctl stop "$service"
  within 60 is_learnt "$id"
}
unit_read_well() { sum_is "$models" "$(journalctl -b -u "$service" -o cat | grep -E '^[0-9a-f]{64} ' | tail -n 1)"; }
is_learnt() { has "$(ppcctl template list)" "$1"; }

# While the unit starts again `top` has it, and `report` tells what its start took.
top_and_report() {
  local report=/tmp/live.json watcher
  cold
  systemctl start --no-block "$service"
  within 60 is_told "$models" "$id" || return
  ppcctl report "$models" --id "$id" --out $report &
  watcher=$!
  within 60 is_on_top && within 120 is_active && unit_read_well && wait $watcher || return
  has "$(tr -d ' ' <$report)" '"is_ready":true' && has "$(ppcctl report --from $report)" "limit: " &&
    ppcctl report --from $report | sed 's/^/# report: /' >&3
}
is_told() { has "$(ppcctl status --json "$1")" "\"$2\""; }
is_on_top() { has "$(timeout 60 ppcctl top "$models" --json --count 1)" "\"$id\""; }
is_active() { is "$(systemctl is-active "$service")" active; }

# ppcd hangs, and what was shipped gives up on it, before the service and when it is ready.
without_an_answer() {
  local drop_in=/etc/systemd/system/$service.d/ppc.conf pid began took
  systemctl stop "$service"
  sed -i 's,--timeout 60 ,--timeout 2 ,' "$drop_in"
  systemctl daemon-reload
  pid=$(systemctl show -P MainPID ppcd.service)
  kill -STOP "$pid"
  began=$SECONDS
  systemctl start "$service"
  took=$((SECONDS - began))
  kill -CONT "$pid"
  sed -i 's,--timeout 2 ,--timeout 60 ,' "$drop_in"
  systemctl daemon-reload
  # Ten of them are the service's own.
  ((took < 40)) || { echo "it took $took s" && return 1; }
  is_active && unit_read_well && within 60 ppcctl list && systemctl restart "$service"
}

# What the first start taught is loaded at the next one before a reader comes.
is_accelerated() {
  systemctl stop "$service"
  cold
  ppcctl service start "$models" --param unit=model && within 120 is_loaded &&
    has "$(ppcctl policy "$models" '{"op": "status"}' | tr -d ' ')" '"mode":"use"' &&
    ppcctl service stop "$models" --param unit=model && systemctl start "$service" && unit_read_well
}
is_loaded() { # [DIR]
  local resident
  resident=$(ppcctl residency --json "${1:-$models}/model.safetensors" | grep -oE '"resident": *[0-9]+' | grep -oE '[0-9]+$' | head -n 1)
  ((resident >= 64 << 20)) || { echo "resident: $resident" && return 1; }
}

# One command, for a directory that was not named before.
by_run() {
  local said
  cold
  said=$(ppcctl run --report /tmp/run.json -- sha256sum "$fresh/model.safetensors" 2>/tmp/run.err) ||
    { cat /tmp/run.err && return 1; }
  sum_is "$fresh" "$said" &&
    is "$(cat /tmp/run.err)" "ppcctl: $fresh has policy 'maio' from now on; to undo that: ppcctl rm_policy $fresh" &&
    has "$(ppcctl status "$fresh")" "backend observer" &&
    has "$(ppcctl report --from /tmp/run.json)" "limit: " && healthy 3 && ppcctl rm_policy "$fresh"
}

# The hook and the device as they are installed, but with a time-out for an emulated CPU; a container that reads
# when it is told to, its image a directory.
hooks=/usr/share/containers/oci/hooks.d/50-ppc.json cdi=/etc/cdi/ppc.json box=/mnt/disk0/box
box_image() {
  mkdir -p $box/bin $box/tmp /tmp/go /etc/cdi
  cp /bin/busybox $box/bin/ && ln -sf busybox $box/bin/sh
  sed -i 's/"1000"/"60000"/; s/"timeout": 10/"timeout": 90/' $hooks
  sed 's/"1000"/"60000"/; s/"timeout": 10/"timeout": 90/' /usr/share/ppc/cdi/ppc.json >$cdi
}
boxes() { podman --root /mnt/disk0/store --runroot /run/ppc-test-store --storage-driver vfs "$@"; }
# shellcheck disable=SC2016  # the container's shell expands it
box_starts() { # RUNTIME NAME DIR OPTIONS...
  boxes --runtime "$1" run -d --name "$2" --network none --annotation ppc.model=/model --annotation "ppc.service-id=$2" \
    --annotation ppc.workers=1 -v "$3:/model:ro" -v /tmp/go:/go:ro "${@:4}" --rootfs $box \
    /bin/sh -c 'until [ -e /go/$0 ]; do busybox sleep 1; done; busybox sha256sum /model/model.safetensors' "$2"
}
box_reads() { # NAME DIR
  touch "/tmp/go/$1"
  is "$(boxes wait "$1")" 0 && sum_is "$2" "$(boxes logs "$1")"
}
by_podman() { # RUNTIME DIR DIRECTORIES OPTIONS...
  local name=box-$1-$RANDOM
  cold
  box_starts "$1" "$name" "$2" "${@:4}" && is_told "$2" "$name" && within 120 is_loaded "$2" && healthy "$3" || return
  box_reads "$name" "$2" && within 60 is_forgotten "$2" "$name" && boxes rm "$name" && healthy "$3"
}
is_forgotten() { ! is_told "$@" >/dev/null || { echo "$2 is a service still" && return 1; }; }
by_hook() { rm -f $cdi && by_podman "$1" "$models" 2; }
# A directory that the hook registers, with the observer.
by_hook_plainly() { by_podman "$1" "$fresh" 3 && has "$(ppcctl status "$fresh")" "backend observer" && ppcctl rm_policy "$fresh"; }
by_device() {
  local hidden=/tmp/50-ppc.json
  box_image
  mv $hooks $hidden
  by_podman crun "$models" 2 --device ppc.dev/service=auto || return
  mv $hidden $hooks
  rm -r /etc/cdi
}

policy_of_others() { # SCRATCH
  install -m 644 "$1/libppc_example.so" "$(dirname "$(find /usr/lib -name libppc_null.so)")/"
  ppcctl rm_policy "$plain" && ppcctl reg_policy "$plain" example && has "$(ppcctl status "$plain")" example || return
  ppcctl rm_policy "$plain"
  rm "$(find /usr/lib -name libppc_example.so)"
  systemctl restart ppc@mnt-disk0-plain.service
}

# A reader goes on, from cold caches too, and reads the same, while everything below it is replaced.
upgrade_under_load() { # REPOSITORY VERSION
  local sum reader
  sum=$(sum_of "$models") && sum_is "$models" "$sum" && use "$1" || return
  (
    while [[ ! -e /tmp/enough ]]; do
      cold
      [[ $(sum_of "$models") == "$sum" ]] || { echo "wrong bytes" && exit 1; }
      echo read >>/tmp/rounds
    done
  ) &
  reader=$!
  # Apt upgrades what comes from one source together; an emulated CPU would build the module for half an hour.
  apt-mark hold ppc-dkms
  apt install ppc || return
  sleep 1
  touch /tmp/enough
  wait "$reader" || return
  echo "# rounds read under the upgrade: $(wc -l </tmp/rounds)" >&3
  # shellcheck disable=SC2016  # dpkg's
  is "$(dpkg-query -W -f '${Version}' ppc)" "$2" && units_are_there && within 60 has_both &&
    has "$(ppcctl status "$models")" running && healthy 2
}

downgrade() { # REPOSITORY VERSION
  use "$1" && apt install --allow-downgrades "ppc=$2" || return
  # shellcheck disable=SC2016  # dpkg's
  is "$(dpkg-query -W -f '${Version}' ppc)" "$2" && units_are_there && within 60 has_both && healthy 2
}

# The documented steps; the next version's module is the one that DKMS has built in the release's root.
module_upgraded() { # SCRATCH VERSION NEXT
  local installed
  installed=$(modinfo -n ppc)
  is "$(cat /sys/module/ppc/version)" "$2" && cp "$installed" /tmp/ && cp "$1/$(basename "$installed")" "$installed" && depmod &&
    is "$(modinfo -F version ppc)" "$3" && is "$(cat /sys/module/ppc/version)" "$2" || return
  ppcctl rm_policy "$models" && umount "$models" && rmmod ppc && mount "$models" &&
    systemctl restart ppc@mnt-disk0-models.service || return
  is "$(cat /sys/module/ppc/version)" "$3" && has "$(ppcctl status "$models")" "backend kmod" && within 60 has_both &&
    sum_is "$models" "$(sum_of "$models")" && healthy 2 || return
  # DKMS removes what it has installed, and nothing else.
  cp "/tmp/$(basename "$installed")" "$installed" && depmod
}

is_running() { has "$(ppcctl status "$models")" running; }
# As a boot finds it: nothing in /run, and the units that are enabled.
off_over_a_boot() {
  local units=(ppcd.socket ppcd-service.socket ppcd.service ppc@mnt-disk0-models.service ppc@mnt-disk0-plain.service)
  ppcctl off && systemctl stop "${units[@]}" && rm -rf /run/ppc && systemd-tmpfiles --create ppc.conf &&
    systemctl start "${units[@]}" || return
  ! pgrep -l ppc-runner || return
  has "$(ppcctl doctor)" "ppcctl on" && cold && sum_is "$models" "$(sum_of "$models")" && ! pgrep -l ppc-runner || return
  ppcctl on && within 60 has_both && within 60 is_running && healthy 2
}

# Mounts stay until root unmounts them, and are readable meanwhile; containers run on, and others start.
removed() {
  local name
  box_image
  box_starts runc hooked "$models" && box_starts crun described "$models" --device ppc.dev/service=auto || return
  systemctl stop "$service"
  systemctl disable --now ppc@mnt-disk0-models.service ppc@mnt-disk0-plain.service
  apt remove ppc || return
  box_starts runc later-hooked "$models" && box_starts crun later-described "$models" --device ppc.dev/service=auto || return
  for name in hooked described later-hooked later-described; do
    box_reads "$name" "$models" && boxes rm "$name" || return
  done
  is "$(systemctl is-active ppcd.service ppcd.socket ppcd-service.socket | paste -sd ' ')" "inactive inactive inactive" ||
    return
  pgrep -l 'ppcd|ppc-runner' && return 1
  [[ ! -e /run/ppc ]] || { echo "/run/ppc stayed: $(ls /run/ppc)" && return 1; }
  [[ -d /var/lib/ppc/templates ]] || { echo "the templates are gone" && return 1; }
  sum_is "$models" "$(sum_of "$models")" && umount "$models" && rmmod ppc && sum_is "$models" "$(sum_of "$models")" &&
    sum_is "$plain" "$(sum_of "$plain")"
}

purged() { # SNAPSHOT
  apt purge ppc && apt autoremove --purge || return
  rm -rf "/etc/systemd/system/$service" "/etc/systemd/system/$service.d"
  systemctl daemon-reload
  local left
  left=$(snapshot | LC_ALL=C comm -13 "$1" - | grep -v '^/var/lib/systemd/\(random-seed\|timers\|deb-systemd-helper-enabled$\)' | grep -v '\.pyc$')
  [[ -z $left ]] || { echo "left: $left" && return 1; }
  is "$(systemctl list-unit-files --no-legend 'ppc*' | grep -vc '^ppc-vm')" 0 &&
    is "$(journalctl -p 3 -b -o cat _COMM=systemd | grep -c ppc)" 0
}

# The module's package, as it was built by DKMS in the release's root.
module_purged() {
  apt-mark unhold ppc-dkms
  apt purge ppc-dkms || return
  local left
  left=$(find /usr/src /var/lib/dkms /lib/modules -name '*ppc*' ! -path '*/kernel/*' ! -path '/usr/src/linux-headers-*')
  [[ -z $left ]] || { echo "left: $left" && return 1; }
}

in_guest() { # SCRATCH VERSION NEXT
  local scratch=$1 id dir
  export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
  exec 3>&1
  for dir in "$models" "$plain" "$fresh"; do make_model "$dir"; done
  check sources use "$scratch/repo-$2"
  snapshot >/tmp/before
  check install apt install ppc
  # Without it all that follows would only be noise.
  # shellcheck disable=SC2154  # the caller's
  if ((failures)); then return; fi
  check units units_are_there
  check confinement confinement
  check fstab by_fstab
  check registration-by-unit by_unit
  check doctor healthy 2
  check socket-activation by_socket
  id=$(ppcctl service-id --param unit=model)
  check service-by-drop-in by_drop_in
  check top-and-report top_and_report
  check second-start-is-accelerated is_accelerated
  check doctor-with-a-service healthy 2
  check service-without-an-answer without_an_answer
  check service-by-run by_run
  check image-of-containers box_image
  check service-by-hook-runc by_hook runc
  check service-by-hook-crun by_hook crun
  check service-by-hook-without-the-module by_hook_plainly crun
  check service-by-cdi by_device
  check observer-without-cap-sys-admin observer_only
  check policy-of-others policy_of_others "$scratch"
  check upgrade-under-load upgrade_under_load "$scratch/repo-$3" "$3"
  check downgrade downgrade "$scratch/repo-$2" "$2"
  check upgrade-of-the-module module_upgraded "$scratch" "$2" "$3"
  check off-over-a-boot off_over_a_boot
  check remove removed
  check purge-leaves-nothing purged /tmp/before
  check purge-of-the-module module_purged
}
