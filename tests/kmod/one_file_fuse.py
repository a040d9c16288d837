#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A file system of one file, `a`; runs until it is unmounted.
usage: one_file_fuse.py MOUNTPOINT MIB      whose opens all ask for direct I/O: no read goes through the page
                                            cache (byte N is N / 4096 % 256)
       one_file_fuse.py MOUNTPOINT IMAGE    of that file's bytes, through the page cache"""
import errno
import os
import stat
import sys

import pyfuse3
import trio

FILE = pyfuse3.ROOT_INODE + 1


class OneFile(pyfuse3.Operations):
    def __init__(self, what):
        super().__init__()
        self.image = None if what.isdigit() else os.open(what, os.O_RDONLY)
        self.size = int(what) << 20 if self.image is None else os.fstat(self.image).st_size

    async def getattr(self, inode, ctx=None):
        entry = pyfuse3.EntryAttributes()
        entry.st_ino = inode
        is_file = inode == FILE
        entry.st_mode = (stat.S_IFREG | 0o644) if is_file else (stat.S_IFDIR | 0o755)
        entry.st_size = self.size if is_file else 0
        entry.entry_timeout = entry.attr_timeout = 60
        return entry

    async def lookup(self, parent_inode, name, ctx=None):
        if name != b"a":
            raise pyfuse3.FUSEError(errno.ENOENT)
        return await self.getattr(FILE)

    async def open(self, inode, flags, ctx):
        return pyfuse3.FileInfo(fh=inode, direct_io=self.image is None)

    async def read(self, fh, off, size):
        if self.image is not None:
            return os.pread(self.image, size, off)
        end = min(off + size, self.size)
        return b"".join(bytes([page % 256]) * (min(end, (page + 1) * 4096) - max(off, page * 4096))
                        for page in range(off // 4096, (end + 4095) // 4096))


def main():
    options = {"default_permissions", "allow_other", "fsname=one-file"}
    pyfuse3.init(OneFile(sys.argv[2]), sys.argv[1], options)
    try:
        trio.run(pyfuse3.main)
    finally:
        pyfuse3.close(unmount=os.path.ismount(sys.argv[1]))


if __name__ == "__main__":
    main()
