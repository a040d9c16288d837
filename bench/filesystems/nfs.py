# SPDX-License-Identifier: Apache-2.0
"""A model on NFS over a slow link, inside a guest: server and client are one machine, its loopback is the link."""
import os
import subprocess
import time

from demo import machine

from . import places
from .places import CaseError, run, unmount

# The emulated machine is some 25 times slower than a real one, and so is its link: 2 ms there and back, 300 MB/s.
LINK = ["delay", "25ms", "rate", "96mbit", "limit", "20000"]
SHARE = "/mnt/disk0"
RELEASE = "6.12"
# What nfsd's caches ask of mountd is answered beforehand: no daemon runs.
EXPORT_FLAGS = 0x1 | 0x2 | 0x400 | 0x2000


def boot(words):
    """The command's words again, in a guest; its exit status."""
    environment = {**os.environ, "PPC_KMOD": "none", "PPC_TIME_SCALE_PERCENT": "240"}
    return subprocess.run(
        ["tools/vm", "--kernel", RELEASE, "--mem", "3G", "--timeout", "1500", "--disk",
         f"ext4:300M,from={places.SMALL}", "--", "tests/all/observer-files", *words], env=environment,
        check=False).returncode


def serve(share=SHARE, clients=("127.0.0.1",), flags=EXPORT_FLAGS):
    """Starts the kernel's server for the one export; again, when it was stopped."""
    for module in ("nfsd", "nfsv4", "sch_netem"):
        run("modprobe", module)
    run("ip", "link", "set", "lo", "up")
    if not places.is_mounted("/proc/fs/nfsd"):
        run("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
    end = int(time.time()) + 86400
    for path, text in (("/proc/fs/nfsd/nfsv4gracetime", "10"), ("/proc/fs/nfsd/versions", "-2 -3 +4 +4.1 +4.2"),
                       ("/proc/fs/nfsd/portlist", "tcp 2049"),
                       *(("/proc/net/rpc/auth.unix.ip/channel", f"nfsd {client} {end} loop") for client in clients),
                       ("/proc/net/rpc/nfsd.export/channel", f"loop {share} {end} {flags} 65534 65534 0"),
                       ("/proc/net/rpc/nfsd.fh/channel", f"loop 1 \\x00000000 {end} {share}"),
                       ("/proc/fs/nfsd/threads", "8")):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")


class NfsPlace(places.Any):
    """See places.Place; the disk's bytes are those of the link."""

    def __init__(self):
        self.name = "nfs"
        self.top = os.path.join("/tmp", "observer-nfs")
        self.directory = f"{self.top}/model"
        self.is_slow = False

    def __enter__(self):
        os.makedirs(self.top, exist_ok=True)
        serve()
        # The server's side is warm: the link is what is slow.
        for folder, _, names in os.walk(SHARE):
            for name in names:
                with open(f"{folder}/{name}", "rb") as file:
                    while file.read(1 << 20):
                        pass
        return self

    def __exit__(self, *_):
        self._quicken()
        unmount(self.top)

    def _quicken(self):
        if self.is_slow:
            run("tc", "qdisc", "del", "dev", "lo", "root")
            self.is_slow = False

    def make_cold(self):
        """A new mount is a new cache."""
        self._quicken()
        unmount(self.top)
        run("mount", "-i", "-t", "nfs4", "-o", "ro,vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1", "127.0.0.1:/",
            self.top)
        run("tc", "qdisc", "add", "dev", "lo", "root", "netem", *LINK)
        self.is_slow = True

    def read_bytes(self):
        """That the server sent in answers to reads."""
        within = False
        for line in machine.read_text("/proc/self/mountstats").splitlines():
            if line.startswith("device "):
                within = f" on {self.top} " in f"{line} "
            if within and line.strip().startswith("bytes:"):
                return int(line.split()[5])
        raise CaseError("no statistics of the NFS mount")

    def check(self):
        """Nothing can fail but the reads themselves."""
