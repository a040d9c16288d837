# SPDX-License-Identifier: Apache-2.0
"""The guest's first root: busybox, the modules that lead to the real root, our two scripts.

Written as an uncompressed cpio archive: unpacking it costs an emulated CPU almost nothing.
"""
import lzma
import os
import shutil
import subprocess

from .errors import VmError

# What must be loaded before the real root and the output channel are there.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "9pnet_virtio", "9p", "overlay")


def module_order(tree, names):
    """Paths below `tree` of the named modules and what they need, in loading order."""
    files, needs = {}, {}
    with open(os.path.join(tree, "modules.dep"), encoding="utf-8") as lines:
        for line in lines:
            path, _, rest = line.partition(":")
            name = os.path.basename(path).split(".ko")[0].replace("-", "_")
            files[name] = path
            # modules.dep lists the nearest dependency first; loading goes the other way.
            needs[name] = list(reversed(rest.split()))
    with open(os.path.join(tree, "modules.builtin"), encoding="utf-8") as lines:
        builtin = {os.path.basename(line.strip()).split(".ko")[0].replace("-", "_") for line in lines}
    order = []
    for name in (n.replace("-", "_") for n in names):
        if name in files:
            order += [p for p in needs[name] + [files[name]] if p not in order]
        elif name not in builtin:
            raise VmError(f"kernel in {tree} has no module {name}; choose another --kernel")
    return order


def module_bytes(path):
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".xz"):
        return lzma.decompress(data)
    if path.endswith(".zst"):
        return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


class Archive:
    """A cpio archive (newc) built in memory."""

    def __init__(self):
        self._parts = []
        self._inode = 0

    def _entry(self, name, mode, data=b""):
        self._inode += 1
        raw = name.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        header = b"070701" + b"".join(b"%08x" % f for f in fields) + raw
        self._parts += [header, b"\0" * (-len(header) % 4), data, b"\0" * (-len(data) % 4)]

    def directory(self, name):
        self._entry(name, 0o040755)

    def file(self, name, data, mode=0o644):
        self._entry(name, 0o100000 | mode, data)

    def write(self, path):
        self._entry("TRAILER!!!", 0)
        with open(path, "wb") as out:
            out.write(b"".join(self._parts))


def busybox(root):
    """A static busybox; a dynamic one would need libraries in the archive."""
    path = os.path.join(root, "usr/bin/busybox")
    if root == "/" or not os.path.exists(path):
        path = shutil.which("busybox", path=os.environ.get("PATH", "") + ":/bin:/usr/bin")
    if not path:
        raise VmError("busybox is missing; run tools/setup")
    with open(path, "rb") as file:
        return file.read()


def build(path, tree, scripts, files, root, modules=()):
    """tree: the kernel's module directory; root: where a busybox of its architecture is; scripts: where init and run lie;
    files: name -> bytes; modules: to be loaded beside those that lead to the root."""
    archive = Archive()
    for name in ("bin", "dev", "proc", "sys", "modules", "host", "t", "new", "vm"):
        archive.directory(name)
    archive.file("bin/busybox", busybox(root), 0o755)
    names = []
    for index, module in enumerate(module_order(tree, (*BOOT_MODULES, *modules))):
        names.append(f"{index:02d}.ko")
        archive.file(f"modules/{names[-1]}", module_bytes(os.path.join(tree, module)))
    archive.file("modules/list", "".join(n + "\n" for n in names).encode())
    for name in ("init", "run"):
        with open(os.path.join(scripts, name), "rb") as script:
            archive.file("init" if name == "init" else "vm/run", script.read(), 0o755)
    for name, data in files.items():
        archive.file("vm/" + name, data, 0o755 if name == "job" else 0o644)
    archive.write(path)
