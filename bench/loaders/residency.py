# SPDX-License-Identifier: Apache-2.0
"""Which pages of files are in the page cache, by mincore."""
import ctypes
import mmap
import os
import threading

LOWEST_BIT = bytes(value & 1 for value in range(256))
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


def every_file(directory):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)


def drop(path):
    """What of the file no process maps."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def of_file(path):
    """One byte per page of the file, 1 where it is in the page cache."""
    size = os.path.getsize(path)
    if size == 0:
        return b""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        address = LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    finally:
        os.close(descriptor)
    vector = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    failed = LIBC.mincore(address, size, vector) != 0
    LIBC.munmap(address, size)
    if failed:
        raise OSError(ctypes.get_errno(), "mincore", path)
    return vector.raw.translate(LOWEST_BIT)


class Watch:
    """Context manager: every page of a directory's files that was in the page cache at some time meanwhile,
    as {path: pages}.  Others on this machine, and the kernel by itself, may empty the cache at any time."""

    def __init__(self, directory, interval_s=0.5):
        self.directory, self.interval_s = directory, interval_s
        self.pages = {}
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self._look()

    def _run(self):
        while not self.stop.wait(self.interval_s):
            self._look()

    def _look(self):
        for path in every_file(self.directory):
            name, now = os.path.relpath(path, self.directory), of_file(path)
            before = int.from_bytes(self.pages.get(name, b""), "big")
            self.pages[name] = (before | int.from_bytes(now, "big")).to_bytes(len(now), "big")
