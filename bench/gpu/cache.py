# SPDX-License-Identifier: Apache-2.0
"""What of the model is in the page cache, making it go, and the disk below it."""
import contextlib
import ctypes
import os
import platform

from demo import machine as demo
from loaders import residency

PAGE = os.sysconf("SC_PAGE_SIZE")
SECTOR = 512
CACHESTAT = 451  # system call number, Linux 6.5 and later, the same everywhere
COLD = 0.01  # a run with more of the model than this in memory is not a cold one

_libc = ctypes.CDLL(None, use_errno=True)


def _cachestat(fd):
    """Pages of the file in the page cache; None: this kernel does not say."""
    whole, stat = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    done = _libc.syscall(ctypes.c_long(CACHESTAT), ctypes.c_uint(fd), whole, stat, ctypes.c_uint(0))
    return stat[0] if done == 0 else None


def _mincore(path):
    try:
        return sum(residency.of_file(path))
    except OSError:
        return None


def resident(paths):
    """(share of the files' bytes in the page cache or None, who says so)."""
    pages = total = 0
    said_by = "cachestat"
    for path in paths:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                continue
            count = _cachestat(file.fileno())
            if count is None:
                said_by, count = "mincore", _mincore(path)
            if count is None:
                return None, "nothing here tells"
            pages += count
            total += (size + PAGE - 1) // PAGE
    return (pages / total if total else 0.0), said_by


def drop(paths, keep_others=False):
    """Empties the page cache of the files; how, and what is left of them: {how, resident, by}."""
    os.sync()
    how = "posix_fadvise"
    if not keep_others:
        try:
            with open("/proc/sys/vm/drop_caches", "w", encoding="utf-8") as file:
                file.write("3\n")
            how = "drop_caches"
        except OSError as error:
            how = f"posix_fadvise (drop_caches: {error.strerror})"
    left, said_by = resident(paths)
    if how != "drop_caches" or left is None or left > 0:
        for path in paths:
            residency.drop(path)
        left, said_by = resident(paths)
    return {"how": how, "resident": left, "by": said_by, "is_cold": left is not None and left <= COLD}


def fill(paths):
    """Reads the files into the page cache."""
    buffer = bytearray(4 << 20)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _device(path):
    number = os.stat(path).st_dev
    return f"{os.major(number)}:{os.minor(number)}"


class Disk:
    """The block device below a path, as sysfs knows it; nothing of it need be there."""

    def __init__(self, path):
        self.number = _device(path)
        self.bdi = f"/sys/class/bdi/{self.number}/read_ahead_kb"
        self.stat = f"/sys/dev/block/{self.number}/stat"

    def bytes_read(self):
        try:
            with open(self.stat, encoding="ascii") as file:
                return int(file.read().split()[2]) * SECTOR
        except OSError:
            return None

    def read_ahead_kb(self):
        try:
            with open(self.bdi, encoding="ascii") as file:
                return int(file.read())
        except OSError:
            return None

    @contextlib.contextmanager
    def read_ahead(self, kb):
        """Sets it as long as the block runs; OSError where that is not allowed."""
        before = self.read_ahead_kb()
        if kb is None:
            yield
            return
        self._set(kb)
        try:
            yield
        finally:
            self._set(before)

    def _set(self, kb):
        with open(self.bdi, "w", encoding="ascii") as file:
            file.write(f"{kb}\n")


def disk_speed(paths):
    """Bytes per second of large direct reads, which leave the page cache alone; None: not possible."""
    try:
        return demo.measure_disk([max(paths, key=os.path.getsize)], seconds=2.0, block=8 << 20) or None
    except OSError:
        return None


def machine():
    """What a reader of the figures wants to know of the host."""
    return {"kernel": platform.release(), "cpus": os.cpu_count(), "memory_bytes": demo.memory_total()}
