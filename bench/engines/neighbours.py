# SPDX-License-Identifier: Apache-2.0
"""What else goes on beside a run: a process that drops caches each second."""
import contextlib
import os
import threading

from demo import machine
from loaders import residency

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
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)

    return each_second(drop)
