# SPDX-License-Identifier: Apache-2.0
"""A directory of very many files: what the runner and the kernel's maps take when all were read, and whether the
chain is followed all the same.  The files are holes of 4 KiB: the page cache does not mind."""
import json
import os
import subprocess
import sys
import time

from . import objects

FOLDERS = 1000
PER_SECOND = 2500  # files that are read


def path_of(folder, number):
    return os.path.join(folder, f"{number % FOLDERS:03}", objects.name_of(number))


class Disk:
    """An image with the files, mounted; context manager."""

    def __init__(self, scratch, file_system, files):
        self.image, self.mount = os.path.join(scratch, "million.img"), os.path.join(scratch, "mnt")
        self.file_system, self.files = file_system, files

    def __enter__(self):
        os.makedirs(self.mount)
        with open(self.image, "wb") as file:
            file.truncate(self.files * 2048 + (1 << 30))
        make = (["mkfs.xfs", "-q", self.image] if self.file_system == "xfs" else
                ["mke2fs", "-q", "-F", "-t", "ext4", "-N", str(self.files + 20000), self.image])
        subprocess.run(make, check=True, env=os.environ | objects.TOOLS, stdout=subprocess.DEVNULL)
        subprocess.run(["mount", "-o", "loop,noatime", self.image, self.mount], check=True)
        folder = os.path.join(self.mount, "kv")
        for number in range(FOLDERS):
            os.makedirs(os.path.join(folder, f"{number:03}"))
        for number in range(self.files):
            descriptor = os.open(path_of(folder, number), os.O_WRONLY | os.O_CREAT, 0o644)
            os.ftruncate(descriptor, 4096)
            os.close(descriptor)
        return folder

    def __exit__(self, *_):
        subprocess.run(["umount", self.mount], check=True)
        os.unlink(self.image)


def read_all(folder, files):
    """In a process of its own, two passes: a line with the seconds of each."""
    for number in range(2):
        if number:
            time.sleep(3)
        objects.drop_caches()
        began = time.monotonic()
        for file in range(files):
            descriptor = os.open(path_of(folder, file), os.O_RDONLY)
            os.read(descriptor, 4096)
            os.close(descriptor)
            # Paced like a disk: holes are read faster than any data.
            if file % 100 == 99:
                time.sleep(max(0.0, began + file / PER_SECOND - time.monotonic()))
        print(json.dumps(time.monotonic() - began), flush=True)


def measure(script, box, folder, files):
    """What was most while the files were read, and the policy's own counts after it."""
    began = time.monotonic()
    reader = subprocess.Popen([sys.executable, "-B", script, "--files", str(files), "--consume-all", folder],
                              stdout=subprocess.PIPE, text=True)
    most = box.memory()
    while reader.poll() is None:
        time.sleep(1)
        most = {key: max(value, most[key]) for key, value in box.memory().items()}
    took = [json.loads(line) for line in reader.stdout]
    if reader.returncode or len(took) != 2:
        raise SystemExit("kvtier: the reader of many files failed")
    time.sleep(1)
    return {"seconds": took, "all_s": time.monotonic() - began, "memory": most, "runner": box.runner()}
