#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Description: programs get rights by their files where the mount allows it, and never those of a file that has
# changed since it was opened: no task writes below what runs here, and a bit that was taken away is gone at the exec.
# Once
. "$(dirname "$0")/lib.sh"

as_user() { setpriv --reuid 1000 --regid 1000 --clear-groups "$@"; }
cp /usr/bin/id "$BASE/id" && chmod 4755 "$BASE/id"

mount_ppc
eq "$(as_user "$MNT/id" -u)" 1000 "user of a set-id program, by default"
eq "$(stat -c %a "$MNT/id")" 4755 "mode that stat shows"
lacks "$(grep " $MNT " /proc/mounts)" allow_suid "options by default"
mount -o remount,ro,allow_suid "$MNT" 2>/dev/null && fail "allow_suid by a remount"
must umount "$MNT"

mount_ppc allow_suid
has "$(grep " $MNT " /proc/mounts)" ,allow_suid "options"
must mount -o remount,ro,window=2M "$MNT"
eq "$(as_user "$MNT/id" -u)" 0 "user of a set-id program that is allowed"

# held PROGRAM WHAT ARGUMENT...: a user executes PROGRAM with an argument that the kernel waits for; meanwhile WHAT
# is run as a shell command.  Prints what the program prints.
cat >"$PPC_TEST_DIR/held.py" <<'PY'
import ctypes, fcntl, mmap, os, socket, struct, subprocess, sys, time
program, what, *arguments = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
out, out_w = os.pipe()
child = os.fork()
if child == 0:
    os.dup2(out_w, 1)
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    fault = libc.syscall(323, os.O_CLOEXEC)
    assert fault >= 0, ctypes.get_errno()
    fcntl.ioctl(fault, 0xC018AA3F, struct.pack("QQQ", 0xAA, 0, 0))
    fcntl.ioctl(fault, 0xC020AA00, struct.pack("QQQQ", at, 4096, 1, 0))
    socket.send_fds(there, [struct.pack("Q", at)], [fault])
    os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
    argv = (ctypes.c_void_p * (len(arguments) + 2))()
    argv[0] = at
    strings = [ctypes.create_string_buffer(a.encode()) for a in arguments]
    for i, string in enumerate(strings): argv[i + 1] = ctypes.addressof(string)
    libc.execve(program.encode(), argv, None)
    os._exit(100 + ctypes.get_errno() % 100)
os.close(out_w)
message, fds, _, _ = socket.recv_fds(here, 8, 1)
at = struct.unpack("Q", message)[0]
time.sleep(2)
subprocess.run(what, shell=True, check=True)
text = mmap.mmap(-1, 4096)
text[:2] = b"p\0"
source = ctypes.addressof(ctypes.c_char.from_buffer(text))
fcntl.ioctl(fds[0], 0xC028AA03, struct.pack("QQQQq", at, source, 4096, 0, 0))
said = os.read(out, 4096).decode()
_, status = os.waitpid(child, 0)
print(said.strip() or f"nothing, status {os.waitstatus_to_exitcode(status)}")
PY
held() { python3 "$PPC_TEST_DIR/held.py" "$@" || fail "held $*"; }

# Root takes the bit away and gives the program to another.
eq "$(held "$MNT/id" "chmod u-s '$BASE/id'; chown 1234 '$BASE/id'" -u)" 1000 "user after the bit was taken away"

# A member of the file's group writes another program into it: that one never has the rights of the first.
cp /usr/bin/true "$BASE/p" && chown 0:2000 "$BASE/p" && chmod 4775 "$BASE/p"
cat >"$PPC_TEST_DIR/write.sh" <<SH
exec setpriv --reuid 1001 --regid 2000 --clear-groups sh -c "cat /usr/bin/grep >'$BASE/p'" 2>'$PPC_TEST_DIR/written'
SH
chmod 755 "$PPC_TEST_DIR" "$BASE"
said=$(held "$MNT/p" "sh '$PPC_TEST_DIR/write.sh' || :" Uid: /proc/self/status)
echo "held: $said; $(cat "$PPC_TEST_DIR/written")"
lacks "$said" $'\t0\t' "rights of what was written"
if ! kernel_before 6.8; then has "$(cat "$PPC_TEST_DIR/written")" "Text file busy" "writing below what is executed"; fi

# Nor is what runs written; once it has ended it can be, and what is being written is not run.
cp /usr/bin/sleep "$BASE/s" && chmod 4775 "$BASE/s"
"$MNT/s" 600 &
sleeper=$!
within 20 grep -q "/s" "/proc/$sleeper/maps" || fail "no program"
refuse "Text file busy" sh -c "echo x >>'$BASE/s'"
kill "$sleeper" && wait "$sleeper" 2>/dev/null
within 20 sh -c "exec 2>/dev/null 3>>'$BASE/s'" || fail "it cannot be written any more"
exec 3>>"$BASE/s"
refuse "Text file busy" "$MNT/s" 0
exec 3>&-
must "$MNT/s" 0
must umount "$MNT"

# Without rights to give, what runs can be written below as it could always be.
mount_ppc
"$MNT/s" 600 &
sleeper=$!
within 20 grep -q "/s" "/proc/$sleeper/maps" || fail "no program"
if ! kernel_before 5.16; then must sh -c "exec 3>>'$BASE/s'"; fi
kill "$sleeper" && wait "$sleeper" 2>/dev/null
must umount "$MNT"
