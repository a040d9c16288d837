# SPDX-License-Identifier: Apache-2.0
"""The kernel to boot: the plain ELF image out of vmlinuz where QEMU can start it (PVH).

An emulated CPU takes more than two seconds to unpack a kernel; here it is done once.
"""
import lzma
import os
import subprocess
import zlib


def gunzip(data):
    return zlib.decompressobj(wbits=31).decompress(data)


def unxz(data):
    return lzma.LZMADecompressor().decompress(data)


def unzstd(data):
    # Bytes after the compressed kernel are reported as an error; the output is complete.
    return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False).stdout


FORMATS = ((b"\xfd7zXZ\0", unxz), (b"\x28\xb5\x2f\xfd", unzstd), (b"\x1f\x8b\x08", gunzip))


def unpack(data):
    """The ELF image inside a bzImage, or b'' when it is packed in an unknown way."""
    for magic, function in FORMATS:
        at = data.find(magic)
        while at >= 0:
            try:
                image = function(data[at:])
            except (lzma.LZMAError, zlib.error, OSError):
                image = b""
            if image.startswith(b"\x7fELF"):
                return image
            at = data.find(magic, at + 1)
    return b""


def find(kernel, release):
    """Path of the image to give to QEMU."""
    packed = os.path.join(kernel, "boot", f"vmlinuz-{release}")
    plain = os.path.join(kernel, "boot", "vmlinux")
    if os.path.exists(plain):
        return plain
    try:
        with open(os.path.join(kernel, "boot", f"config-{release}"), encoding="utf-8") as config:
            if "CONFIG_PVH=y\n" not in config:
                return packed
    except OSError:
        return packed
    with open(packed, "rb") as file:
        image = unpack(file.read())
    if not image:
        return packed
    scratch = f"{plain}.{os.getpid()}"
    with open(scratch, "wb") as out:
        out.write(image)
    os.rename(scratch, plain)
    return plain
