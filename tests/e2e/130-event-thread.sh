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
service() {
  drop_caches
  "$@"
  must ppcctl service start --timeout 60 --id svc-one --workers 2 "$MNT"
  checksum_of "$MNT" >"$WORK/loaded"
  eq "$(cat "$WORK/loaded")" "$reference" "checksum"
  must ppcctl service ready --timeout 60 --id svc-one "$MNT"
  must ppcctl service stop --timeout 60 --id svc-one "$MNT"
}
service true # is recorded
is_stored() { [[ -n $(find "$PPC_TEMPLATE_DIR" -name '*.ppct') ]]; }
within 30 is_stored || fail "nothing was recorded"
# Only the thread itself: its number is the process's.
trace() {
  strace -qq -y -e signal=none -o "$WORK/trace" -p "$(runner_pid)" &
  TRACER=$!
  is_traced() { [[ $(awk '$1 == "TracerPid:" {print $2}' "/proc/$(runner_pid)/status") != 0 ]]; }
  within 10 is_traced || skip "strace cannot attach here"
}
before=$(runner_field '["events"]["events"]')
service trace
kill "$TRACER"
wait "$TRACER"
ge $(($(runner_field '["events"]["events"]') - before)) 100 "events of the traced load"
ge "$(wc -l <"$WORK/trace")" 50 "system calls that were seen"
# poll and its kin wait for events; what is read and written are wake-ups; bpf and ioctl ask the kernel
# for events and attach; the log is written as it is.
harmless='^(poll|ppoll|epoll_wait|epoll_pwait|restart_syscall|futex|sched_yield|clock_gettime|clock_nanosleep'
harmless+='|gettid|getpid|madvise|mmap|munmap|mprotect|brk|rt_sigprocmask|bpf|ioctl)\('
harmless+='|^(read|write)\([0-9]+<anon_inode:\[(eventfd|signalfd)|^write\(2<|^---|^\+\+\+|^clone3?\('
others=$(grep -vE "$harmless" "$WORK/trace" | sort | uniq -c | sort -rn | head -n 10)
[[ -z $others ]] || fail "other system calls of the event thread: $others"
