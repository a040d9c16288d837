# SPDX-License-Identifier: Apache-2.0
"""A model on each kind of file system, on the slow disk, cold whenever it is asked for."""
import contextlib
import os
import shutil
import subprocess

from demo import machine
from demo.slowdisk import MOUNT, SlowDisk

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
BUILD = os.path.join(TOP, "build")
OUT = os.path.join(BUILD, "observer-files")
MODEL = os.path.join(OUT, "model")
SMALL = os.path.join(OUT, "small")  # holds a model for a guest
MBPS, LAT_US, READ_AHEAD_KB = 300, 2000, 128
MANY, MANY_BYTES = 300, 64 << 10  # files for whose inodes there are too few addresses
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F", "-m", "0"], "xfs": ["mkfs.xfs", "-q", "-f"],
        "btrfs": ["mkfs.btrfs", "-q", "-f"]}
MOUNT.setdefault("btrfs", "ro")


class CaseError(Exception):
    """A case cannot be run, or failed; one line."""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise CaseError(f"{command[0]}: {said[-1]}")
    return done.stdout.strip()


def is_mounted(path):
    return path in (line.split()[1] for line in machine.read_text("/proc/mounts").splitlines())


def unmount(path):
    for attempt in range(100):
        if not is_mounted(path):
            return
        done = subprocess.run(["umount", path], capture_output=True, text=True, check=False)
        if done.returncode:
            subprocess.run(["sleep", "0.1"], check=False)
            if attempt == 98:
                raise CaseError(f"umount: {done.stderr.strip()}")


def knows(file_system):
    return any(line.split()[-1] == file_system for line in machine.read_text("/proc/filesystems").splitlines())


def ensure_model(directory=MODEL, scale=30):
    if os.path.exists(f"{directory}/config.json"):
        return
    shutil.rmtree(directory, ignore_errors=True)
    run(f"{BUILD}/bin/mkmodel", "--model", "qwen2.5-7b", "--scale", str(scale), "--quiet", "--out", directory)


def ensure_image(file_system):
    """An image with the model; on btrfs as a subvolume and a snapshot of it that differs in its contents."""
    image = os.path.join(OUT, f"{file_system}.img")
    if os.path.exists(image):
        return image
    mount = os.path.join(OUT, "fill")
    os.makedirs(mount, exist_ok=True)
    with open(image + ".new", "wb") as file:
        file.truncate(1700 << 20)
    run(*MKFS[file_system], image + ".new")
    run("mount", "-o", "loop", image + ".new", mount)
    try:
        if file_system == "btrfs":
            run("btrfs", "subvolume", "create", f"{mount}/model")
            run("cp", "-r", f"{MODEL}/.", f"{mount}/model")
            os.makedirs(f"{mount}/model/many")
            for number in range(MANY):
                with open(f"{mount}/model/many/{number}", "wb") as file:
                    file.write(os.urandom(MANY_BYTES))
            run("btrfs", "subvolume", "snapshot", f"{mount}/model", f"{mount}/twin")
        else:
            run("cp", "-r", MODEL, f"{mount}/model")
    finally:
        unmount(mount)
    os.rename(image + ".new", image)
    return image


class Any:
    """What a case needs of a place.  directory: where the model lies; limit: why not all is loaded ahead there, as
    `status` says it; backend: MAIO's, on the directory `shown`."""
    name = directory = limit = ""
    backend = "observer"

    @property
    def shown(self):
        return self.directory


class Place(Any):
    """Context manager.  lower: the kind of the file system on the disk."""

    def __init__(self, name, lower):
        self.name = name
        self.limit = "drops a file's pages at every open" if name == "fuse-drop" else ""
        self.top = os.path.join(OUT, "top")
        self.disk = SlowDisk(ensure_image(lower), os.path.join(OUT, "disk"), MBPS, LAT_US, lower)
        self.directory = f"{self.disk.mount}/model" if lower == name else f"{self.top}/model"
        self.fuse = None

    def __enter__(self):
        os.makedirs(self.top, exist_ok=True)
        self._leave()
        self.disk.__enter__()
        return self

    def __exit__(self, *words):
        try:
            self._leave()
        finally:
            self.disk.__exit__(*words)

    def make_cold(self):
        """Everything is mounted anew: nothing of it can be cached."""
        self._leave()
        self.disk.mount_anew()
        self._device_counters().set_read_ahead_kb(READ_AHEAD_KB)
        self._enter()

    def _device_counters(self):
        if self.disk.file_system != "btrfs":
            return machine.Disk(self.disk.mount)
        counters = machine.Disk.__new__(machine.Disk)  # the mount shows a device of its own
        counters.name = os.path.basename(self.disk.device)
        counters.path = f"/sys/block/{counters.name}"
        counters.read_ahead = f"{counters.path}/queue/read_ahead_kb"
        return counters

    def read_bytes(self):
        """Of the disk, so far."""
        return self._device_counters().read_bytes()

    def check(self):
        self.disk.check()

    def _enter(self):
        if self.name == "overlay":
            for name in ("upper", "work"):
                os.makedirs(f"{OUT}/overlay/{name}", exist_ok=True)
            run("mount", "-t", "overlay", "-o",
                f"lowerdir={self.disk.mount},upperdir={OUT}/overlay/upper,workdir={OUT}/overlay/work", "overlay",
                self.top)
        elif self.name.startswith("fuse"):
            keeps = ["-o", "kernel_cache"] if self.name == "fuse-keep" else []
            with contextlib.ExitStack() as stack:
                log = stack.enter_context(open(f"{OUT}/bindfs.log", "a", encoding="utf-8"))
                self.fuse = subprocess.Popen(["bindfs", "-f", "--multithreaded", *keeps, self.disk.mount, self.top],
                                             stdout=log, stderr=log, start_new_session=True)
            for _ in range(100):
                if is_mounted(self.top):
                    return
                subprocess.run(["sleep", "0.05"], check=False)
            raise CaseError("bindfs does not mount; see build/observer-files/bindfs.log")

    def _leave(self):
        unmount(self.top)
        if self.fuse:
            self.fuse.wait(10)
            self.fuse = None
