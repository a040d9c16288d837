# SPDX-License-Identifier: Apache-2.0
"""The slow disk under the loaders' root: one image, mounted anew before every run."""
import contextlib
import os
import subprocess

from demo import machine
from demo.slowdisk import DiskError, SlowDisk, bandwidth

from . import residency
from .environment import IMAGE, MODELS, OUT, SuiteError

MBPS, LAT_US, READ_AHEAD_KB = 300, 2000, 128


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DiskError(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def make_image(directory, image):
    """An ext4 image with the contents of a directory and little room beyond them."""
    content = sum(os.path.getsize(os.path.join(folder, name))
                  for folder, _, names in os.walk(directory) for name in names)
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-d", directory, image + ".new",
         f"{(content * 21 // 20 + (64 << 20)) >> 20}M")
    os.rename(image + ".new", image)


def large_files(directory):
    return sorted(entry.path for entry in os.scandir(directory) if entry.stat().st_size > 1 << 20)


class ColdDisk(SlowDisk):
    """A new loop device and a new file system instance for every run: nothing of it can be cached.
    Caches of the rest of the machine stay, so that a loader's own program is warm in every cell."""

    def __init__(self):
        super().__init__(IMAGE, os.path.join(OUT, "disk"), MBPS, LAT_US)
        self.is_bound = False

    def __exit__(self, *words):
        self._leave()
        super().__exit__(*words)

    def _leave(self):
        if self.is_bound:
            _run("umount", MODELS)
            self.is_bound = False

    def make_cold(self):
        """Mounts it anew and proves that no page of any file is cached."""
        self._leave()
        self.mount_anew()
        _run("mount", "--bind", self.mount, MODELS)
        self.is_bound = True
        self.counters().set_read_ahead_kb(READ_AHEAD_KB)
        for path in residency.every_file(MODELS):
            pages = sum(residency.of_file(path))
            if pages:
                raise SuiteError(f"{path}: {pages} pages are in the page cache before the run")

    @contextlib.contextmanager
    def away(self):
        """Meanwhile something else may be mounted for the loaders."""
        self._leave()
        yield

    def counters(self):
        return machine.Disk(MODELS)

    def measure(self):
        """MB/s, which must be about what it was set to."""
        self.make_cold()
        return bandwidth(large_files(f"{MODELS}/hf")) / 1e6
