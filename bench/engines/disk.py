# SPDX-License-Identifier: Apache-2.0
"""The disks of the runs: a slow one, and one in memory.  Cold means: no page of any file of it is cached."""
import os
import time

from demo import machine
from demo.slowdisk import MOUNT, SlowDisk
from loaders import residency

from .store import SuiteError, quietly

MBPS, LAT_US, READ_AHEAD_KB = 300, 2000, 128


def make_cold(directory):
    """Drops what is cached of the files, the program that reads them and all others stay cached."""
    for attempt in range(20):
        left = 0
        for path in residency.every_file(directory):
            residency.drop(path)
            left += sum(residency.of_file(path))
        if not left:
            return
        time.sleep(0.05 * (attempt + 1))
    raise SuiteError(f"{directory}: {left} pages stay cached; does another process map its files?")


class Slow(SlowDisk):
    """300 MB/s and 2 ms."""

    def __init__(self, image, folder):
        super().__init__(image, folder, MBPS, LAT_US)

    def __enter__(self):
        super().__enter__()
        self.counters().set_read_ahead_kb(READ_AHEAD_KB)
        return self

    def counters(self):
        return machine.Disk(self.mount)


class Memory(Slow):
    """A loop device over an image in the page cache."""

    def _up(self):
        os.makedirs(self.nbd, exist_ok=True)
        quietly(["dd", f"if={self.image}", "of=/dev/null", "bs=4M"], "reading the image")
        self.device = quietly(["losetup", "--find", "--show", "--read-only", self.image], "losetup").strip()
        quietly(["mount", "-t", self.file_system, "-o", MOUNT[self.file_system], self.device, self.mount], "mount")
        # It goes when it is unmounted, however we end.
        quietly(["losetup", "--detach", self.device], "losetup")

    def check(self):
        pass
