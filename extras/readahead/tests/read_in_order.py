#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a file chunk by chunk in a given order, by reads of 128 KiB or through a mapping, and prints a digest.

usage: read_in_order.py FILE ORDER CHUNK_BYTES read|map
"""
import hashlib
import mmap
import os
import sys

PIECE = 128 << 10


def main(path, order, chunk_bytes, how):
    size, digest = int(chunk_bytes), hashlib.blake2b(digest_size=16)
    with open(order, encoding="ascii") as file:
        chunks = [int(word) for word in file.read().split()]
    with open(path, "rb", buffering=0) as file:
        view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) if how == "map" else None
        for chunk in chunks:
            for at in range(chunk * size, (chunk + 1) * size, PIECE):
                digest.update(view[at:at + PIECE] if view else os.pread(file.fileno(), PIECE, at))
    print(digest.hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
