# SPDX-License-Identifier: Apache-2.0
"""The demo on this very machine, without a module: the observer, a slow disk or the model's own one."""
import contextlib
import ctypes
import errno
import glob
import os
import platform
import shutil
import signal
import struct
import sys

from . import cgroup, control, disturbance, machine, slowdisk
from .session import Session, SessionError

BPF = {"x86_64": 321, "aarch64": 280}
BPF_MAP_CREATE, ARRAY = 0, 2
SETTLE_RUNS = 2  # a run that a disk error voids is made once more


def _bpf_error():
    """What the kernel says to the smallest of maps; 0: it is allowed."""
    number = BPF.get(platform.machine())
    if number is None:
        return errno.ENOSYS
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = struct.pack("IIII", ARRAY, 4, 8, 1).ljust(120, b"\0")
    descriptor = libc.syscall(number, BPF_MAP_CREATE, attributes, len(attributes))
    if descriptor < 0:
        return ctypes.get_errno()
    os.close(descriptor)
    return 0


def refusal(root="/"):
    """Why this host cannot run the demo natively, in one line; "" if it can."""
    if os.geteuid() != 0:
        return "a native run needs root"
    if not os.path.exists(os.path.join(root, "sys/kernel/btf/vmlinux")):
        return "this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"
    lockdown = os.path.join(root, "sys/kernel/security/lockdown")
    if os.path.exists(lockdown) and "[confidentiality]" in machine.read_text(lockdown):
        return "the kernel's lockdown is 'confidentiality', which forbids BPF"
    error = _bpf_error()
    if error:
        return f"BPF is not allowed here ({os.strerror(error)})"
    if cgroup.kind() is None:
        return "no control group here can limit memory"
    return ""


def disk_refusal():
    """Why a slow disk cannot be made here; "" if it can."""
    for path, what in (("/dev/loop-control", "loop devices"), ("/dev/fuse", "FUSE")):
        if not os.path.exists(path):
            return f"{what} are not available here ({path})"
    return ""


def nodes():
    return len(glob.glob("/sys/devices/system/node/node[0-9]*")) or 1


@contextlib.contextmanager
def ends_by_signals():
    """SIGTERM and SIGHUP end the demo as Ctrl-C does: with everything cleaned up."""
    def end(number, _frame):
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class OwnDisk:
    """The disk that a model lies on, as fast as it is; its read-ahead comes back afterwards."""

    def __init__(self, folder):
        self.mount = folder

    def __enter__(self):
        try:
            self.disk = machine.Disk(self.mount)
        except RuntimeError as error:
            raise slowdisk.DiskError(str(error)) from None
        self.before = self.disk.read_ahead_kb()
        return self

    def __exit__(self, *_):
        self.disk.set_read_ahead_kb(self.before)

    def pids(self):
        return []

    def problems(self):
        return []


class Host(Session):
    """On a disk (SlowDisk or OwnDisk) that has been entered."""

    def __init__(self, settings, disk):
        super().__init__(settings, control.OnDirectory(
            settings["model_dir"], settings["out"], os.path.join(settings["scratch"], "ppc")))
        self.disk = disk
        if isinstance(disk, OwnDisk):
            settings["read_ahead_kb"] = disk.before
        self.experiment.watch = lambda: disturbance.Watch([os.getpid(), *disk.pids()])
        self.raw.update(nodes=settings["nodes"], disk_bytes_per_s={}, voids=[])

    def say(self, text):
        print(f"demo: [{machine.now_ns() / 1e9 - self.began:4.0f} s] {text}", file=sys.stderr,
              flush=True)

    began = machine.now_ns() / 1e9

    def measure_disk(self, when):
        try:
            machine.drop_caches(self.settings["model_dir"])
            measured = slowdisk.bandwidth(self.files())
        except (slowdisk.DiskError, RuntimeError) as error:
            self._must_be_well()
            raise SessionError(str(error)) from None
        self._must_be_well()
        self.raw["disk_bytes_per_s"][when] = measured
        return measured

    def before_case(self, memory):
        measured = self.measure_disk(memory)
        self.say(f"{memory}: the disk gives {measured / 1e6:.0f} MB/s")

    def _must_be_well(self):
        problems = self.disk.problems()
        if problems:
            raise SessionError(f"the disk failed: {problems[0]}")

    def attempt(self, system, memory, rep, limit):
        """Runs on a disk that failed meanwhile are void, whatever they gave."""
        for _ in range(SETTLE_RUNS):
            failure = run = None
            try:
                run = self.experiment.run(system, memory, rep, limit)
            except (control.PpcError, RuntimeError, OSError) as error:
                failure = error
            problems = self.disk.problems()
            if not problems:
                if failure:
                    raise failure
                return run
            self.say(f"{memory}: {system.name}: void, the disk failed: {problems[0]}")
            self.raw["voids"].append({"system": system.key, "memory": memory, "problems": problems})
            self._recover()
        raise SessionError(f"the disk failed: {problems[0]}")

    def main(self):
        try:
            super().main()
            self.measure_disk("end")
            self.save()
        finally:
            self._leave_nothing()

    def _leave_nothing(self):
        """Also after an interruption in the middle of a run."""
        self.ppc.stop()
        shutil.rmtree(self.settings["scratch"] + "/ppc", ignore_errors=True)
