# SPDX-License-Identifier: Apache-2.0
"""One run of a guest: prepare, start, copy its output, judge its end, leave nothing behind.

Everything of a run lies in one directory, build/vm/RUN, that is locked while the run lives;
directories of runs that were killed are removed by the next one.
"""
import contextlib
import ctypes
import fcntl
import os
import secrets
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from . import bootimage, debian, disks, initramfs, kmsg, machine
from .errors import COMPLAINT, DIED, HOST, TIMEOUT, VmError
from .options import TOP

PDEATHSIG = 1
CHANNELS = ("out", "log", "console", "monitor")
GUEST_SCRIPTS = os.path.join(TOP, "tools", "lib", "guest")


def note(text):
    print(f"vm: {text}", file=sys.stderr, flush=True)


def die_with_parent():
    """In the child: no orphan when tools/vm is killed outright."""
    ctypes.CDLL(None, use_errno=True).prctl(PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Workspace:
    """The directory of one run."""

    def __init__(self):
        base = os.path.join(os.environ.get("TMPDIR") or os.path.join(TOP, "build"), "vm")
        os.makedirs(base, exist_ok=True)
        self._sweep(base)
        self.path = tempfile.mkdtemp(prefix="run-", dir=base)
        self._lock = open(os.path.join(self.path, "lock"), "w", encoding="utf-8")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._short = ""

    @staticmethod
    def _sweep(base):
        for name in os.listdir(base):
            path = os.path.join(base, name)
            try:
                # Just being made: no lock in it yet.
                if time.time() - os.stat(path).st_mtime < 60:
                    continue
                with open(os.path.join(path, "lock"), "a", encoding="utf-8") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            except OSError:
                continue

    def file(self, name):
        return os.path.join(self.path, name)

    def socket(self, name):
        """A path short enough for a unix socket, wherever the repository lies."""
        if len(self.file(name)) < 100:
            return self.file(name)
        if not self._short:
            self._short = tempfile.mkdtemp(prefix="ppc-vm-", dir="/tmp")
        return os.path.join(self._short, name)

    def remove(self):
        for path in (self.path, self._short):
            if path:
                shutil.rmtree(path, ignore_errors=True)


class Processes:
    """QEMU and nbdkit; none outlives the run."""

    def __init__(self, log):
        self._log = log
        self._all = []

    def spawn(self, command, fds=()):
        with open(self._log, "ab") as log:
            try:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                           pass_fds=fds, preexec_fn=die_with_parent,
                                           start_new_session=True)
            except FileNotFoundError as error:
                raise VmError(f"{command[0]} is missing; run tools/setup") from error
        self._all.append(process)
        return process

    def stop(self):
        for process in reversed(self._all):
            if process.poll() is None:
                process.kill()
        for process in self._all:
            process.wait()

    def words(self):
        with open(self._log, encoding="utf-8", errors="replace") as log:
            return " ".join(log.read().split()[-60:])


def debug_release():
    """The debug kernel, built when it is not there yet."""
    done = subprocess.run([os.path.join(TOP, "tools", "lib", "debugkernel", "build")],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise VmError("the debug kernel could not be built")
    return done.stdout.strip()


def kernel_directory(options):
    if options.debug:
        options.kernel = debug_release()
        # One report must not hide the next.
        options.append += " kasan_multi_shot"
    tool = [os.path.join(TOP, "tools", "kmod"), "--dir"]
    tool += ["--arch", options.arch] if options.arch != "amd64" else []
    done = subprocess.run(tool + (["--kernel", options.kernel] if options.kernel else []),
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise VmError(f"no kernel '{options.kernel or 'default'}' to boot")
    return done.stdout.strip()


def foreign_root(release):
    """A root directory for another architecture, and where our programs for it are."""
    arch = machine.architecture(release)
    done = subprocess.run([os.path.join(TOP, "tools", "lib", "foreign", "root"), arch],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise VmError(f"no root directory for {arch}")
    return done.stdout.split()


def module_file(release):
    """Path of ppc.ko for that kernel, or '' for none."""
    choice = os.environ.get("PPC_KMOD", "")
    tool = [os.path.join(TOP, "tools", "kmod"), "--kernel", release]
    if choice == "none":
        return ""
    if choice and choice != "last":
        if not os.path.isfile(choice):
            raise VmError(f"PPC_KMOD: there is no module file '{choice}'")
        return os.path.realpath(choice)
    if not os.path.exists(os.path.join(TOP, "kmod", "Kbuild")):
        return ""
    if choice == "last":
        tool.append("--print")
    done = subprocess.run(tool, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise VmError("the module could not be built (PPC_KMOD=last takes the one built last)")
    return done.stdout.strip()


def job_script(options, build):
    """What the guest runs: a clean environment, the caller's directory, the command."""
    tree = "" if options.systemd else f"{build}/bin:"
    environment = {"HOME": "/root", "USER": "root", "LOGNAME": "root", "LANG": "C.UTF-8", "TERM": "dumb",
                   "PATH": f"{tree}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    if not options.systemd:
        environment["PPC_POLICY_DIR"] = "/usr/lib/ppc/policies"
    environment.update({k: v for k, v in os.environ.items() if k.startswith("PPC_")})
    lines = ["#!/bin/sh", "unset PWD OLDPWD"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines += [f"cd {shlex.quote(os.getcwd())} 2>/dev/null || cd /",
              "exec " + " ".join(shlex.quote(word) for word in options.command)]
    return ("\n".join(lines) + "\n").encode()


class Guest:
    """The running machine: copies its output and finds out how it ended."""

    def __init__(self, token, process, sockets, deadline):
        self._process = process
        self._sockets = sockets
        self._deadline = deadline
        self._mark = b"\0" + token.encode() + b" "
        self._token = token
        self._pending = b""
        self.log = kmsg.Log()
        self.console = b""
        self.status = None
        self.timed_out = False

    def _copy(self, data):
        """Guest output to our stdout; holds back what may be the start of the end mark."""
        self._pending += data
        at = self._pending.find(self._mark)
        if at >= 0:
            rest = self._pending[at + len(self._mark):]
            if b"\n" in rest:
                self.status = int(rest.split(b"\n")[0])
                self._write(self._pending[:at])
                self._pending = b""
            return
        zero = self._pending.rfind(b"\0")
        keep = zero if zero >= 0 and self._mark.startswith(self._pending[zero:]) else len(self._pending)
        self._write(self._pending[:keep])
        self._pending = self._pending[keep:]

    @staticmethod
    def _write(data):
        while data:
            data = data[os.write(1, data):]

    def _complete(self):
        return self.status is not None and any(self._token in line for line in self.log.lines[-50:])

    def follow(self):
        """Returns when the job ended and its log is here, the guest died, or time is up."""
        selector = selectors.DefaultSelector()
        for name in ("out", "log", "console"):
            selector.register(self._sockets[name], selectors.EVENT_READ, name)
        grace = None
        while not self._complete():
            if self.status is not None and grace is None:
                grace = time.monotonic() + 5
            limit = self._deadline if grace is None else min(grace, self._deadline)
            wait = limit - time.monotonic()
            if wait <= 0:
                self.timed_out = self.status is None
                return
            for key, _ in selector.select(wait):
                data = key.fileobj.recv(1 << 16)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.data == "out":
                    self._copy(data)
                elif key.data == "log":
                    self.log.feed(data)
                else:
                    self.console += data
            if len(selector.get_map()) == 0:
                self._process.wait()
                return
        selector.close()

    def ask_why(self):
        """After a time-out: the kernel tells on the console which tasks wait where."""
        monitor, console = self._sockets["monitor"], self._sockets["console"]
        console.settimeout(1)
        try:
            monitor.sendall(b'{"execute":"qmp_capabilities"}')
            for key in (b"9", b"w", b"l"):
                monitor.sendall(b'{"execute":"chardev-send-break","arguments":{"id":"console"}}')
                time.sleep(0.3)
                console.sendall(key)
                self._drain(console)
        except OSError:
            return

    def _drain(self, console):
        """Reads what the console says until it is silent for a second."""
        try:
            while len(self.console) < 1 << 20 and (data := console.recv(1 << 16)):
                self.console += data
        except socket.timeout:
            return

    def complaints(self):
        """Reports of the kernel's log, and of the console when the log could not be sent."""
        found = self.log.complaints()
        if self.status is None and not found:
            found = kmsg.complaints(self.console.decode(errors="replace").splitlines())
        return found


def judge(guest, options, processes):
    """Exit status of the run; says why when it is not the command's own."""
    complaints = guest.complaints()
    console = guest.console.decode(errors="replace").strip()
    if guest.timed_out:
        note(f"time-out after {options.timeout:g} s")
        if guest.console.strip():
            note("console:\n" + "\n".join(console.splitlines()[-200:]))
        for line in complaints[:20]:
            note(f"kernel: {line}")
        return TIMEOUT
    if complaints:
        if guest.status is None and console:
            note("the guest died; console:\n" + "\n".join(console.splitlines()[-80:]))
        for line in complaints[:40]:
            note(f"kernel: {line}")
        # The console has shown the log of a guest that died.
        if guest.status is not None:
            note("the first of them:\n" + "\n".join(guest.log.story(complaints[0])))
        note(f"{len(complaints)} kernel reports that the command did not announce"
             + (f" (the command's status was {guest.status})" if guest.status is not None else ""))
        return COMPLAINT
    if guest.status is None:
        said = processes.words()
        if not console and said:
            raise VmError(f"QEMU: {said}", HOST)
        note("the guest died" + (f"; console:\n{console[-4000:]}" if console else ""))
        return DIED
    return guest.status


def start(options, workspace, processes, token):
    """Prepares everything on the host and starts QEMU; returns (process, sockets)."""
    debian.find_root(options)
    own = debian.own_kernel(options)
    kernel = own[0] if own else kernel_directory(options)
    release = own[1] if own else os.path.basename(kernel)
    module = "" if own else module_file(release)
    build = os.path.realpath(os.environ.get("PPC_BUILD_DIR") or os.path.join(TOP, "build"))
    if machine.architecture(release) != "amd64" and options.root == "/":
        options.root, build = foreign_root(release)
    disk_arguments, disk_words = [], []
    for index, disk in enumerate(options.disks):
        path, fs = disks.prepare(disk, index, workspace.path)
        sock = workspace.socket(f"disk{index}.sock")
        if disk.throttled:
            disks.serve_slowly(disk, path, sock, processes.spawn)
        disk_arguments += disks.arguments(disk, index, path, sock)
        disk_words += [f"disk{index}", fs or "-"]
    config = {"ROOT": options.root, "TOP": TOP, "SHARED": os.path.join(os.path.dirname(TOP), "shared"),
              "CONSOLE": machine.console(release), "RELEASE": release, "KERNEL": kernel, "POLICIES": f"{build}/policies",
              "DISKS": " ".join(disk_words), "NET": str(options.net.index) if options.net else "", "TOKEN": token,
              "SYSTEMD": "yes" if options.systemd else ""}
    files = {"config": "".join(f"{k}={shlex.quote(v)}\n" for k, v in config.items()).encode(),
             "job": job_script(options, build)}
    if options.systemd:
        with open(os.path.join(TOP, "tools", "lib", "ppcvm", "ppc-vm.service"), "rb") as file:
            files["ppc-vm.service"] = file.read()
    if module:
        with open(module, "rb") as file:
            files["ppc.ko"] = file.read()
    archive = workspace.file("initramfs")
    initramfs.build(archive, os.path.join(kernel, "lib", "modules", release), GUEST_SCRIPTS, files,
                    options.root, ("virtio_net",) if options.net else ())
    out = options.out or workspace.file("out")
    os.makedirs(out, exist_ok=True)
    ours, theirs = {}, {}
    for name in CHANNELS:
        ours[name], theirs[name] = socket.socketpair()
    fds = {name: end.fileno() for name, end in theirs.items()}
    command = machine.command(options, release, bootimage.find(kernel, release), archive, out, fds, disk_arguments)
    process = processes.spawn(command, tuple(fds.values()))
    for end in theirs.values():
        end.close()
    return process, ours


def take_place(net):
    """The guest's place in the network, for as long as the result lives: a second guest there would have its address."""
    place = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        place.bind(f"\0ppc-vm-net-{net.name}-{net.index}")
    except OSError as error:
        place.close()
        raise VmError(f"--net {net.name}:{net.index}: another guest is node {net.index} already; name another number") from error
    return place


def interrupted(number, _frame):
    raise SystemExit(128 + number)


def run(options):
    """Runs one guest; returns the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    with take_place(options.net) if options.net else contextlib.nullcontext():
        return run_guest(options)


def run_guest(options):
    workspace = Workspace()
    processes = Processes(workspace.file("host.log"))
    token = "ppc-vm-end-" + secrets.token_hex(8)
    try:
        process, sockets = start(options, workspace, processes, token)
        guest = Guest(token, process, sockets, time.monotonic() + options.timeout)
        try:
            guest.follow()
        except BrokenPipeError:
            return 128 + signal.SIGPIPE
        if guest.timed_out:
            guest.ask_why()
        if options.kmsg:
            with open(options.kmsg, "w", encoding="utf-8") as out:
                out.write("\n".join(guest.log.lines) + "\n")
        processes.stop()
        return judge(guest, options, processes)
    finally:
        processes.stop()
        workspace.remove()
