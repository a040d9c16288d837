# SPDX-License-Identifier: Apache-2.0
"""Disks of a guest: making and filling images without mounting them here, slowing them down.

A slow disk is nbdkit (delay and rate filters) behind QEMU's block layer, one unix socket each.
"""
import os
import subprocess
import time

from .errors import VmError

# mkfs.xfs refuses small or single-group file systems unless it believes to be under test.
XFS_TEST = {"TEST_DIR": "/", "TEST_DEV": "/", "QA_CHECK_FS": "1"}


def run(command, what, env=None):
    environment = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin", **(env or {}))
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise VmError(f"{what}: {' '.join(done.stdout.split()) or command[0] + ' failed'}")


def detect(path):
    """The file system of an image, by its magic; empty when it is none we mount."""
    with open(path, "rb") as image:
        head = image.read(4096)
    if head[:4] == b"XFSB":
        return "xfs"
    if len(head) > 1082 and head[1080:1082] == b"\x53\xef":
        return "ext4"
    return ""


def make_ext4(disk, path):
    # Everything initialised now: a background initialiser would show up as disk traffic.
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0",
               "-E", "lazy_itable_init=0,lazy_journal_init=0"]
    if disk.source:
        command += ["-d", disk.source]
    run(command + [path], f"making an ext4 disk{' from ' + disk.source if disk.source else ''}")


def protofile(source, path):
    """mkfs.xfs's description of a directory tree; its format knows no blanks in names."""
    def entry(name, full, depth, lines):
        state = os.lstat(full)
        mode = f"{'u' if state.st_mode & 0o4000 else '-'}{'g' if state.st_mode & 0o2000 else '-'}" \
               f"{state.st_mode & 0o777:03o} {state.st_uid} {state.st_gid}"
        pad = "  " * depth
        if any(c.isspace() for c in full):
            raise VmError(f"an xfs disk cannot be filled with '{full}': blank in the name; use ext4")
        if os.path.islink(full):
            lines.append(f"{pad}{name} l{mode} {os.readlink(full)}")
        elif os.path.isdir(full):
            lines.append(f"{pad}{name} d{mode}".rstrip())
            for child in sorted(os.listdir(full)):
                entry(child, os.path.join(full, child), depth + 1, lines)
            lines.append(f"{pad}$")
        else:
            lines.append(f"{pad}{name} -{mode} {full}")

    lines = ["/dev/null", "0 0"]
    entry("", source, 0, lines)
    lines[2] = lines[2].strip()
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")


def make_xfs(disk, path):
    command = ["mkfs.xfs", "-q", "-f"]
    if disk.source:
        proto = path + ".proto"
        protofile(disk.source, proto)
        # One allocation group: mkfs.xfs 6.1 writes over group headers with larger files.
        command += ["-d", "agcount=1", "-p", proto]
    run(command + [path], "making an xfs disk", XFS_TEST)


def prepare(disk, index, directory):
    """Returns (image path, file system to mount or '')."""
    if disk.image:
        return disk.image, detect(disk.image)
    path = os.path.join(directory, f"disk{index}.img")
    with open(path, "wb") as image:
        image.truncate(disk.size)
    if disk.fs == "ext4":
        make_ext4(disk, path)
    elif disk.fs == "xfs":
        make_xfs(disk, path)
    return path, "" if disk.fs == "raw" else disk.fs


def serve_slowly(disk, path, sock, spawn):
    """Starts nbdkit for a slow disk; spawn(command) starts a process that dies with us."""
    command = ["nbdkit", "--foreground", "--exit-with-parent", "--newstyle", "--threads", "64",
               "--unix", sock, "--pidfile", sock + ".pid"]
    settings = []
    if disk.lat_us:
        command.append("--filter=delay")
        settings.append(f"rdelay={max(1, round(disk.lat_us / 1000))}ms")
    if disk.mbps:
        command.append("--filter=rate")
        # Without a small burst size hundreds of megabytes pass before the limit is felt.
        settings += [f"rate={disk.mbps * 8_000_000}", "burstiness=0.1"]
    if disk.image:
        command.append("--filter=cow")
    process = spawn(command + ["file", path] + settings)
    deadline = time.monotonic() + 20
    while not os.path.exists(sock + ".pid"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise VmError("nbdkit, which slows the disk down, did not start; see --disk mbps/lat_us")
        time.sleep(0.02)


def arguments(disk, index, path, sock):
    """QEMU's arguments for one disk."""
    if disk.throttled:
        drive = f"driver=raw,file.driver=nbd,file.server.type=unix,file.server.path={sock}"
    else:
        drive = f"file={path.replace(',', ',,')},format=raw,aio=threads"
        if disk.image:
            drive += ",snapshot=on"
    return ["-drive", f"{drive},if=none,id=disk{index},cache=unsafe",
            "-device", f"virtio-blk-pci,bus=pcie.0,drive=disk{index},serial=disk{index}"]
