# SPDX-License-Identifier: Apache-2.0
"""A slow disk on this very machine: an image behind nbdkit's rate and delay filters, as a block device.

image -> nbdkit (bandwidth, latency) -> nbdfuse (a file) -> loop device (direct) -> read-only mount.
Whatever happens, nothing of it stays: the steps back are the same after a run, after a failure and, for a
demo that was killed, at the next start.
"""
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time

from .machine import read_text

THREADS = 64  # requests that wait for their latency at once, of all connections
CONNECTIONS = 16  # each has one request under way; libfuse has ten threads, so ten are
# A bucket of nbdkit's default size saves up two seconds of bandwidth in every pause.
BURST_S = 0.02
MOST_NAMES = 3500  # of an option of 4 KiB
MOUNT = {"ext4": "ro,noload", "xfs": "ro,norecovery,nouuid"}
TOOLS = ("nbdkit", "nbdfuse", "fusermount3", "losetup", "mount", "umount", "fio")


class DiskError(Exception):
    """The disk cannot be made, or failed: what was measured on it is void.  One line."""


def missing_tools():
    path = os.environ.get("PATH", "") + ":/sbin:/usr/sbin"
    return [name for name in TOOLS if not shutil.which(name, path=path)]


def rate_bits(mbps):
    """Of nbdkit's rate filter: bits in plain numbers, as its M is 2^20."""
    return mbps * 8 * 1000 * 1000


def delay_text(lat_us):
    return f"{lat_us / 1000:g}ms"


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise DiskError(f"slow disk: {command[0]}: {said[-1]}")
    return done.stdout.strip()


def _wait(what, is_there, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not is_there():
        if time.monotonic() > deadline:
            raise DiskError(f"slow disk: {what} did not come within {seconds:.0f} s")
        time.sleep(0.02)


def is_complaint(line, device):
    """Whether a line of the kernel's log is about errors of this block device."""
    words = line.lower()
    return re.search(rf"\b{device}\b", words) is not None and any(
        word in words for word in ("error", "lost async page", "corrupt"))


class Pinned:
    """Holds a file in the page cache, whoever drops caches: what lies below a slow disk must be faster than it.
    Where memory is short nothing is held."""

    def __init__(self, path):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype = ctypes.c_void_p
        self.libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self.size, self.address = os.path.getsize(path), None
        available = re.search(r"^MemAvailable: *(\d+)", read_text("/proc/meminfo"), re.M)
        if not available or int(available[1]) * 1024 < 2 * self.size:
            return
        with open(path, "rb") as file:
            address = self.libc.mmap(None, self.size, 1, 1, file.fileno(), 0)  # PROT_READ, MAP_SHARED
        if address not in (None, ctypes.c_void_p(-1).value):
            self.address = ctypes.c_void_p(address)
            self.libc.mlock(self.address, ctypes.c_size_t(self.size))

    def release(self):
        if self.address:
            self.libc.munmap(self.address, ctypes.c_size_t(self.size))
            self.address = None


class SlowDisk:
    """Context manager; `mount` shows the image's files while it is entered."""

    def __init__(self, image, folder, mbps, lat_us, file_system="ext4"):
        self.image, self.folder = image, folder
        self.mbps, self.lat_us, self.file_system = mbps, lat_us, file_system
        self.mount = os.path.join(folder, "mnt")
        self.nbd = os.path.join(folder, "nbd")
        self.socket = os.path.join(folder, "sock")
        self.device = ""
        self.fuse = self.kernel_log = self.lock = self.pinned = None

    # Up.

    def __enter__(self):
        for folder in (self.folder, self.mount, self.nbd):
            os.makedirs(folder, exist_ok=True)
        self.lock = open(os.path.join(self.folder, "lock"), "w", encoding="utf-8")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.lock.close()
            raise DiskError(f"{self.folder}: another demo uses it; wait for its end or give another "
                            "--out") from None
        try:
            self._down()
            self.pinned = Pinned(self.image)
            self._up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _up(self):
        if len(self.socket) > 100:
            raise DiskError(f"{self.socket}: too long for a socket's name; give a shorter --out")
        for name in ("nbdkit.log", "nbdfuse.log"):
            with open(self._path(name), "w", encoding="utf-8"):
                pass  # what an earlier disk said
        with open(self._path("nbdkit.log"), "a", encoding="utf-8") as log:
            done = subprocess.run(
                ["nbdkit", "--readonly", "--unix", self.socket, "--pidfile", self._path("nbdkit.pid"),
                 "--log=stderr", "--threads", str(THREADS), "--filter=rate", "--filter=delay", "file",
                 self.image, f"rate={rate_bits(self.mbps)}", f"burstiness={BURST_S}",
                 f"rdelay={delay_text(self.lat_us)}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, check=False)
        if done.returncode != 0:
            raise DiskError(f"slow disk: nbdkit: {self._last_line('nbdkit.log')}")
        _wait("nbdkit", lambda: os.path.exists(self.socket))
        with open(self._path("nbdfuse.log"), "a", encoding="utf-8") as log:
            self.fuse = subprocess.Popen(
                ["nbdfuse", "--readonly", "--connections", str(CONNECTIONS), "--pidfile", self._path("nbdfuse.pid"),
                 os.path.join(self.nbd, "nbd"), "--unix", self.socket],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        _wait("nbdfuse", lambda: os.path.exists(os.path.join(self.nbd, "nbd")) or self.fuse.poll())
        if self.fuse.poll() is not None:
            raise DiskError(f"slow disk: nbdfuse: {self._last_line('nbdfuse.log')}")
        self.device = _run(["losetup", "--find", "--show", "--direct-io=on", "--read-only",
                            os.path.join(self.nbd, "nbd")])
        self.kernel_log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.kernel_log, 0, os.SEEK_END)
        _run(["mount", "-t", self.file_system, "-o", MOUNT[self.file_system], self.device, self.mount])

    def mount_anew(self):
        """On a new loop device: nothing of it can be cached."""
        _run(["umount", self.mount])
        self._try(["losetup", "--detach", self.device])  # the first one; later ones go by themselves
        self.device = _run(["losetup", "--find", "--show", "--direct-io=on", "--read-only",
                            os.path.join(self.nbd, "nbd")])
        _run(["mount", "-t", self.file_system, "-o", MOUNT[self.file_system], self.device, self.mount])
        _run(["losetup", "--detach", self.device])  # goes with the mount, however we end

    # Down.

    def __exit__(self, *_):
        # A second Ctrl-C must not leave half of it behind.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            if self.kernel_log is not None:
                os.close(self.kernel_log)
                self.kernel_log = None
            self._down()
            if self.fuse:
                try:
                    self.fuse.wait(5)
                except subprocess.TimeoutExpired:
                    self.fuse.kill()
                    self.fuse.wait()
                self.fuse = None
            if self.pinned:
                self.pinned.release()
            self.lock.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _down(self):
        """Undoes whatever of _up there is, of this or of an earlier process."""
        self._unmount(self.mount, ["umount", self.mount], ["umount", "--lazy", self.mount])
        listed = self._try(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"])
        for name, _, back_file in (line.partition(" ") for line in listed.splitlines()):
            if back_file.strip().startswith(self.nbd + "/"):
                self._try(["losetup", "--detach", name])
                # It ends with its last user, which may be a program that only looks at new devices.
                self._gone(os.path.join("/sys/block", os.path.basename(name), "loop"))
        self._unmount(self.nbd, ["fusermount3", "-u", self.nbd], ["fusermount3", "-uz", self.nbd])
        for name in ("nbdfuse", "nbdkit"):
            self._end(name)

    @staticmethod
    def _gone(path):
        deadline = time.monotonic() + 5
        while os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.02)

    def _unmount(self, path, gently, lazily):
        for attempt in range(60):
            if path not in (line.split()[1] for line in read_text("/proc/mounts").splitlines()):
                return
            self._try(gently if attempt < 50 else lazily)
            time.sleep(0.1 if attempt else 0)

    def _end(self, name):
        """The process of NAME.pid, when it is still the one that was started."""
        pidfile = self._path(f"{name}.pid")
        if not os.path.exists(pidfile):
            return
        try:
            pid = int(read_text(pidfile))
            if self.socket in read_text(f"/proc/{pid}/cmdline").split("\0"):
                os.kill(pid, signal.SIGTERM)
                _wait(f"the end of {name}", lambda: not self._is_running(pid))
        except (OSError, ValueError):
            pass  # it has ended already
        if os.path.exists(pidfile):
            os.unlink(pidfile)
        if name == "nbdkit" and os.path.exists(self.socket):
            os.unlink(self.socket)

    # Is it well?

    def pids(self):
        """Whose CPU time is the disk's own."""
        return [int(read_text(self._path(name))) for name in ("nbdkit.pid", "nbdfuse.pid")]

    def problems(self):
        """What went wrong since the last call; each of it voids what was measured meanwhile."""
        found = [f"{name} has ended" for name in ("nbdkit", "nbdfuse")
                 if not self._is_running(int(read_text(self._path(f"{name}.pid"))))]
        found += [f"{name}: {self._last_line(name)}" for name in ("nbdkit.log", "nbdfuse.log")
                  if os.path.getsize(self._path(name))]
        for name in ("nbdkit.log", "nbdfuse.log"):
            os.truncate(self._path(name), 0)
        device = os.path.basename(self.device)
        errors = f"/sys/fs/ext4/{device}/errors_count"
        if os.path.exists(errors) and int(read_text(errors)):
            found.append(f"ext4 counts {read_text(errors).strip()} errors")
        return found + [line for line in self._kernel_lines() if is_complaint(line, device)]

    def check(self):
        """Raises when something was wrong since the last call."""
        found = self.problems()
        if found:
            raise DiskError(f"the disk failed, the run does not count: {found[0]}")

    def _kernel_lines(self):
        lines = []
        while True:
            try:
                lines.append(os.read(self.kernel_log, 8192).decode(errors="replace").partition(";")[2]
                             .splitlines()[0])
            except BlockingIOError:
                return lines
            except (BrokenPipeError, IndexError):
                continue  # overwritten before it was read, or empty

    # Small things.

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _last_line(self, name):
        lines = read_text(self._path(name)).strip().splitlines()
        return lines[-1] if lines else "no message"

    @staticmethod
    def _is_running(pid):
        try:
            return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    @staticmethod
    def _try(command):
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def bandwidth_of(report):
    """Bytes per second in fio's JSON; a read error is one of the disk."""
    job = json.loads(report[report.index("{"):])["jobs"][0]
    if job["error"]:
        raise DiskError(f"fio: {os.strerror(job['error'])}")
    return float(job["read"]["bw_bytes"])


def files_of_fio(files):
    """Options that name files of one folder: as many as fit into one option of fio's."""
    names = ""
    for path in files:
        more = names + (":" if names else "") + os.path.basename(path).replace(":", "\\:")
        if names and len(more) > MOST_NAMES:
            break
        names = more
    return [f"--directory={os.path.dirname(files[0])}".replace(":", "\\:"), f"--filename={names}"]


def bandwidth(files, seconds=3):
    """What 32 direct reads of 1 MiB at once get: b in the bounds."""
    done = subprocess.run(
        ["fio", "--name=disk", *files_of_fio(files), "--readonly", "--rw=read", "--bs=1M",
         "--iodepth=32", "--direct=1", "--ioengine=libaio", f"--runtime={seconds}",
         "--group_reporting", "--output-format=json"], capture_output=True, text=True, check=False)
    if "{" not in done.stdout:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise DiskError(f"fio: {said[-1]}")
    return bandwidth_of(done.stdout)
