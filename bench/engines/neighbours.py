# SPDX-License-Identifier: Apache-2.0
"""What else goes on beside a run: a process that drops caches each second, others that have most of the memory."""
import contextlib
import ctypes
import mmap
import os
import re
import threading

from demo import machine
from loaders import residency

from .store import SuiteError

INTERVAL_S = 1.0


@contextlib.contextmanager
def each_second(action):
    stop = threading.Event()

    def run():
        while not stop.wait(INTERVAL_S):
            action()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def nobody(_):
    return contextlib.nullcontext()


def drop_caches(_):
    """All clean pages of the machine that no process maps."""
    return each_second(lambda: machine.write_text("/proc/sys/vm/drop_caches", "1"))


def dontneed(directory):
    """The pages of the model's files, by POSIX_FADV_DONTNEED."""

    def drop():
        for path in residency.every_file(directory):
            residency.drop(path)

    return each_second(drop)


def little_memory(available_bytes):
    """Memory that nothing reclaims: all of the machine's but this."""

    def available():
        return int(re.search(r"^MemAvailable: *(\d+)", machine.read_text("/proc/meminfo"), re.M)[1]) * 1024

    @contextlib.contextmanager
    def taken(_):
        machine.write_text("/proc/sys/vm/drop_caches", "3")
        size = available() - available_bytes
        if size <= 0:
            raise SuiteError(f"only {available() >> 20:,} MiB of memory are available")
        libc = ctypes.CDLL(None, use_errno=True)
        with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
            held.madvise(mmap.MADV_HUGEPAGE)
            buffer = ctypes.c_char.from_buffer(held)
            if libc.mlock(ctypes.byref(buffer), ctypes.c_size_t(size)) != 0:
                raise SuiteError(f"mlock: {os.strerror(ctypes.get_errno())}")
            print(f"# {available() >> 20:,} MiB are available", flush=True)
            try:
                yield
            finally:
                del buffer

    return taken
