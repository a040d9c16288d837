# SPDX-License-Identifier: Apache-2.0
"""A model that node 0 serves by NFS over a slow link, and node 1 starts from: natively and with MAIO."""
import contextlib
import os
import threading
import time

from cluster import INDEX, MEET, meet, run, say
from stores import CLIENTS, SERVER, nfs

from filesystems import command, places  # noqa: E402  stores made it known
from loaders import environment, maio

SERVED, MOUNT, SHOWN = "/mnt/disk1", "/mnt/served", "/mnt/shown"
READ_ONLY, ROOT_SQUASH = 0x1 | 0x2 | 0x400 | 0x2000, 0x4
# As in nfs.py, of which the answers pass one way: 50 ms there and back.
LINK = ["delay", "50ms", "rate", "96mbit", "limit", "20000"]
OUTAGE_S = 3
MEASURED_S = 1200  # three starts, on a machine that is busy
# {case: (options of the mount, flags of the export, of Native's start-up at most)}
CASES = {"plain": ("", READ_ONLY, 0.5), "nconnect": ("nconnect=4", READ_ONLY, 0.5),
         "root-squash": ("", READ_ONLY | ROOT_SQUASH, 0.5), "restart": ("", READ_ONLY, 1.03)}


class Served(nfs.NfsPlace):
    """See places.Any; is_lost: the server is away for OUTAGE_S once a third of the model has been read."""

    def __init__(self, name, options, backend, is_lost):
        super().__init__()
        self.name, self.backend, self.is_lost = name, backend, is_lost
        self.top, self.directory = MOUNT, f"{MOUNT}/model"
        self.options = f"ro,vers=4.2,addr={SERVER},clientaddr={CLIENTS[INDEX]}" + (f",{options}" if options else "")
        self.losses, self.loser = 0, None

    @property
    def shown(self):
        return SHOWN if self.backend == "kmod" else self.directory

    def __enter__(self):
        for folder in (MOUNT, SHOWN):
            os.makedirs(folder, exist_ok=True)
        return self

    def __exit__(self, *_):
        self._leave()

    def _leave(self):
        if self.loser:
            self.loser.join()
            self.loser = None
        places.unmount(SHOWN)
        places.unmount(MOUNT)

    def make_cold(self):
        self._leave()
        run("mount", "-i", "-t", "nfs4", "-o", self.options, f"{SERVER}:/", MOUNT)
        if self.backend == "kmod":
            run("mount", "-t", "ppc", self.directory, SHOWN)
        if self.is_lost:
            self.losses += 1
            self.loser = threading.Thread(target=self._lose, args=(self.read_bytes() + self._bytes() // 3,))
            self.loser.start()

    def _bytes(self):
        return sum(os.path.getsize(f"{self.directory}/{name}") for name in os.listdir(self.directory))

    def _lose(self, bytes_read):
        while self.read_bytes() < bytes_read:
            time.sleep(0.05)
        tell(f"lost-{self.backend}-{self.losses}")


def tell(name):
    with open(f"{MEET}/{name}", "w", encoding="utf-8"):
        pass


def stop_serving():
    with open("/proc/fs/nfsd/threads", "w", encoding="utf-8") as file:
        file.write("0\n")


def serve(flags):
    with contextlib.suppress(OSError):
        stop_serving()
    nfs.serve(SERVED, CLIENTS, flags)


def lose_and_bring_back(backend, flags):
    """Each time that node 1 says so, until it has measured."""
    number = 1
    done, lost = f"{MEET}/measured-{backend}-restart.1", f"{MEET}/lost-{backend}-"
    while not os.path.exists(done):
        if os.path.exists(f"{lost}{number}"):
            stop_serving()
            time.sleep(OUTAGE_S)
            nfs.serve(SERVED, CLIENTS, flags)
            say(f"the server was away, {number}")
            number += 1
        time.sleep(0.05)


def measure(results, backend):
    """Node 1."""
    command.OUT = maio.OUT = environment.OUT = "/tmp/models"
    maio.STATE = "/tmp/models/ppcd"
    command.verdict = lambda is_right, name, why="": results.check(is_right, name, why)
    for case, (options, _, most) in CASES.items():
        meet(f"served-{backend}-{case}")
        name = f"{backend}/{case}"
        command.MOST[name] = most
        with Served(name, options, backend, case == "restart") as place:
            try:
                command.ahead(name, place, f"/tmp/models/templates-{case}", 1)
            except (places.CaseError, environment.SuiteError) as error:
                results.check(False, name, str(error))
        meet(f"measured-{backend}-{case}", MEASURED_S)


def part(results, backend):
    if INDEX == 1:
        os.makedirs("/tmp/models", exist_ok=True)
        return measure(results, backend)
    run("modprobe", "sch_netem")
    run("tc", "qdisc", "add", "dev", "eth0", "root", "netem", *LINK)
    for folder, _, names in os.walk(SERVED):  # the link is slow, not the disk
        for name in names:
            with open(f"{folder}/{name}", "rb") as file:
                while file.read(1 << 20):
                    pass
    for case, (_, flags, _) in CASES.items():
        serve(flags)
        meet(f"served-{backend}-{case}")
        if case == "restart":
            lose_and_bring_back(backend, flags)
        meet(f"measured-{backend}-{case}", MEASURED_S)
    return None


def part_observer(results):
    part(results, "observer")


def part_kmod(results):
    part(results, "kmod")
