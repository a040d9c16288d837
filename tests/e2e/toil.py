#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: toil.py cpu|kernel SECONDS DIR COMMAND...: reads the model in DIR and works on it, so many seconds of its own
or the kernel's CPU time evenly over its bytes; runs COMMAND when it has."""
import glob
import mmap
import os
import subprocess
import sys
import zlib

CHUNK = 4 << 20
MADV_POPULATE_WRITE = 23


def times():
    now = os.times()
    return now.user, now.system


def main(kind, seconds, folder, command):
    files = sorted(glob.glob(os.path.join(folder, "**/*.safetensors"), recursive=True))
    total = sum(map(os.path.getsize, files))
    clock = 0 if kind == "cpu" else 1
    before, done = times(), 0
    for path in files:
        with open(path, "rb", buffering=0) as file, mmap.mmap(-1, 64 << 20) as pages:
            while chunk := file.read(CHUNK):
                done += len(chunk)
                while times()[clock] - before[clock] < seconds * done / total:
                    if clock:
                        # Faults for all of it, and its end.
                        pages.madvise(MADV_POPULATE_WRITE)
                        pages.madvise(mmap.MADV_DONTNEED)
                    else:
                        zlib.compress(chunk[:1 << 18], 6)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4:])
