# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Description: the thread that takes events and runs hooks asks neither storage nor /proc for anything
# while a service starts and loads with its template: its system calls are those of waiting, of waking others and of
# memory.
# needs observer
. "$(dirname "$0")/lib.sh"
command -v strace >/dev/null || skip "strace is not installed"
reference=$(reference_checksum)
start_with maio '{"at_ready": "keep"}'
# service BEFORE MEANWHILE
service() {
  drop_caches
  "$1"
  must ppcctl service start --timeout 60 --id svc-one --workers 2 "$MNT"
  "$2"
  checksum_of "$MNT" >"$WORK/loaded"
  eq "$(cat "$WORK/loaded")" "$reference" "checksum"
  must ppcctl service ready --timeout 60 --id svc-one "$MNT"
  must ppcctl service stop --timeout 60 --id svc-one "$MNT"
}
service true true # is recorded
is_stored() { [[ -n $(find "$PPC_TEMPLATE_DIR" -name '*.ppct') ]]; }
within 30 is_stored || fail "nothing was recorded"
# Only the thread itself: its number is the process's.
trace() {
  strace -qq -y -e signal=none -o "$WORK/trace" -p "$(runner_pid)" &
  TRACER=$!
  is_traced() { [[ $(awk '$1 == "TracerPid:" {print $2}' "/proc/$(runner_pid)/status") != 0 ]]; }
  within 10 is_traced || skip "strace cannot attach here"
}
# A neighbour drops what was loaded ahead: its miss makes the policy look what else has vanished.
vanish() {
  is_loaded() { (($(resident_of "$MODEL") >= 64 << 20)); }
  within 30 is_loaded || fail "nothing was loaded ahead"
  for file in "$MODEL"/*.safetensors; do dd if="$file" iflag=nocache count=0 status=none; done
}
before=$(runner_field '["events"]["events"]')
service trace vanish
kill "$TRACER"
wait "$TRACER"
ge $(($(runner_field '["events"]["events"]') - before)) 100 "events of the traced load"
ge "$(wc -l <"$WORK/trace")" 50 "system calls that were seen"
ge "$(grep -cE '^(cachestat|syscall_0x1c3)\(' "$WORK/trace")" 1 "looks at what has vanished"
# poll and its kin wait for events; what is read and written are wake-ups; bpf and ioctl ask the kernel
# for events and attach; the log is written as it is.  cachestat (by number where strace knows no name) looks at the page
# cache alone: pages vanish at any time.
harmless='^(poll|ppoll|epoll_wait|epoll_pwait|restart_syscall|futex|sched_yield|clock_gettime|clock_nanosleep'
harmless+='|cachestat|syscall_0x1c3|gettid|getpid|madvise|mmap|munmap|mprotect|brk|rt_sigprocmask|bpf|ioctl)\('
harmless+='|^(read|write)\([0-9]+<anon_inode:\[(eventfd|signalfd)|^write\(2<|^---|^\+\+\+|^clone3?\('
others=$(grep -vE "$harmless" "$WORK/trace" | sort | uniq -c | sort -rn | head -n 10)
[[ -z $others ]] || fail "other system calls of the event thread: $others"
