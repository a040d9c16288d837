# SPDX-License-Identifier: Apache-2.0
"""The stores that both nodes share, which node 0 serves: a directory by NFS, etcd; and what can become of them."""
import glob
import os
import signal
import subprocess
import sys
import time

from cluster import INDEX, Failed, run, succeeds, wait_for, meet

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "bench"))
from filesystems import nfs  # noqa: E402

SERVER = "10.77.0.1"
CLIENTS = ("10.77.0.1", "10.77.0.2")
EXPORTED = "/mnt/disk0"
MOUNT = "/mnt/store"
WRITABLE = 0x2 | 0x400 | 0x2000  # insecure ports, no subtree check, fsid


class Delay:
    """Each answer of the server's node is late, to itself as well."""

    def __init__(self, milliseconds):
        self.milliseconds = milliseconds

    def __enter__(self):
        if INDEX == 0:
            run("modprobe", "sch_netem")
            # Through lo go both ways.
            for device, delay in (("eth0", self.milliseconds), ("lo", self.milliseconds // 2)):
                run("tc", "qdisc", "add", "dev", device, "root", "netem", "delay", f"{delay}ms", "limit", "10000")

    def __exit__(self, *_):
        if INDEX == 0:
            for device in ("eth0", "lo"):
                run("tc", "qdisc", "del", "dev", device, "root")


class NfsStore:
    """softerr: see docs/template-format.md."""

    def __init__(self, options):
        self.spec = f"dir:{MOUNT}/templates"
        self.options = f"vers=4.2,softerr,{options},addr={SERVER},clientaddr={CLIENTS[INDEX]}"

    def serve(self):
        if INDEX == 0:
            nfs.serve(EXPORTED, CLIENTS, WRITABLE)
        meet("served")
        os.makedirs(MOUNT, exist_ok=True)
        run("mount", "-i", "-t", "nfs4", "-o", self.options, f"{SERVER}:/", MOUNT)

    def is_written(self):
        """A temporary file is there, seen on the server's disk."""
        return bool(glob.glob(f"{EXPORTED}/templates/*/*.tmp.*"))

    def lose(self):
        with open("/proc/fs/nfsd/threads", "w", encoding="utf-8") as file:
            file.write("0\n")

    def bring_back(self):
        nfs.serve(EXPORTED, CLIENTS, WRITABLE)


class EtcdStore:
    """Of one member, on node 0."""

    def __init__(self, prefix):
        self.spec = f"etcd:http://{SERVER}:2379/{prefix}"
        self.process = None

    def serve(self):
        if INDEX == 0:
            self.bring_back()
        wait_for("etcd", lambda: succeeds("ppcctl", "template", "list", "--store", self.spec))
        meet("served")

    def is_written(self):
        """Connections stay; but an answer takes a second, and a put needs several."""
        time.sleep(1.5)
        return bool(run("ss", "-Htn", "state", "established", "sport = :2379"))

    def lose(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def bring_back(self):
        if not os.path.exists("/usr/bin/etcd"):
            raise Failed("etcd is not installed; tools/setup installs etcd-server")
        with open("/run/etcd.log", "ab") as log:
            self.process = subprocess.Popen(
                ["/usr/bin/etcd", "--data-dir", "/run/etcd", "--unsafe-no-fsync",
                 "--listen-client-urls", f"http://{SERVER}:2379", "--advertise-client-urls", f"http://{SERVER}:2379"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
