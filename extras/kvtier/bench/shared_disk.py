# SPDX-License-Identifier: Apache-2.0
"""A disk that can be written, of which reads and writes share one rate: an image below a throttle group of QEMU's
storage daemon (nbdkit's rate filter gives each of the two a bucket of its own), as a loop device on nbdfuse."""
import os
import subprocess

from bench.demo import slowdisk

TOOLS = ("qemu-storage-daemon", "nbdfuse", "fusermount3", "losetup", "mount", "umount")


class SharedDisk:
    """Context manager; `mount` shows the image's files, `device` is the loop device."""

    def __init__(self, image, folder, rate, scheduler):
        self.image, self.folder, self.rate, self.scheduler = image, folder, rate, scheduler
        self.mount, self.nbd = os.path.join(folder, "mnt"), os.path.join(folder, "nbd")
        self.socket = os.path.join(folder, "sock")
        self.server = self.fuse = None
        self.device = ""

    def __enter__(self):
        for folder in (self.mount, self.nbd):
            os.makedirs(folder, exist_ok=True)
        try:
            self._up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, command):
        with open(os.path.join(self.folder, f"{command[0]}.log"), "wb") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True)

    def _up(self):
        # Allows bursts of at most a twentieth of a second.
        limits = f"x-bps-total={self.rate},x-bps-total-max={self.rate},x-bps-total-max-length=1"
        self.server = self._start(
            ["qemu-storage-daemon", "--object", f"throttle-group,id=one,{limits}",
             "--blockdev", f"driver=file,node-name=file,filename={self.image},discard=ignore",
             "--blockdev", "driver=throttle,node-name=slow,throttle-group=one,file=file",
             "--nbd-server", f"addr.type=unix,addr.path={self.socket}",
             "--export", "type=nbd,id=disk,node-name=slow,name=,writable=on"])
        slowdisk._wait("qemu-storage-daemon", lambda: os.path.exists(self.socket))
        file = os.path.join(self.nbd, "nbd")
        self.fuse = self._start(["nbdfuse", file, "--unix", self.socket])
        slowdisk._wait("nbdfuse", lambda: os.path.exists(file))
        self.device = slowdisk._run(["losetup", "--find", "--show", "--direct-io=on", file])
        with open(f"/sys/block/{os.path.basename(self.device)}/queue/scheduler", "w", encoding="ascii") as queue:
            queue.write(self.scheduler)
        slowdisk._run(["mount", "-o", "noatime", self.device, self.mount])

    def __exit__(self, *_):
        for command in (["umount", self.mount], ["losetup", "-d", self.device], ["fusermount3", "-u", self.nbd]):
            if command[-1]:
                subprocess.run(command, capture_output=True, check=False)
        for process in (self.fuse, self.server):
            if process:
                process.terminate()
                process.wait()

    def moved(self):
        """Bytes read and written so far."""
        with open(f"/sys/block/{os.path.basename(self.device)}/stat", encoding="ascii") as file:
            fields = file.read().split()
        return int(fields[2]) * 512, int(fields[6]) * 512
