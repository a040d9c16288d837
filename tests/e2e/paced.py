#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: paced.py FILE: passes FILE's bytes on from standard input, and before each step waits until its next step is in
the page cache (half a minute at most in all): a consumer that computes as long as loading ahead takes, however busy the
machine."""
import mmap
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))

from bench.loaders import residency  # noqa: E402

PAGES = 512
PATIENCE_S = 30


def main(path):
    at = PAGES
    patience = PATIENCE_S
    while data := sys.stdin.buffer.read(PAGES * mmap.PAGESIZE):
        began = time.monotonic()
        while 0 in residency.of_file(path)[at:at + PAGES] and time.monotonic() < began + patience:
            time.sleep(0.01)
        patience -= time.monotonic() - began
        sys.stdout.buffer.write(data)
        at += PAGES


if __name__ == "__main__":
    main(sys.argv[1])
