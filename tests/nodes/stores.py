# SPDX-License-Identifier: Apache-2.0
"""The stores that both nodes share, which node 0 serves: a directory by NFS, etcd; and what can become of them."""
import base64
import glob
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

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

    def refuse_writes(self, refuses):
        """Each node for itself."""
        run("mount", "-i", "-o", f"remount,bind,{'ro' if refuses else 'rw'}", MOUNT)

    def damage(self, name):
        """One byte of each of the service's files, by the server; a file may have two names, and a put that was cut off
        leaves an empty one."""
        found = [path for path in glob.glob(f"{EXPORTED}/templates/{name[:2]}/{name}*") if ".tmp." not in path]
        paths = {os.stat(path).st_ino: path for path in found}
        for path in paths.values():
            with open(path, "r+b") as file:
                file.seek(os.path.getsize(path) // 2)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 0xff]))


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

    def ask(self, what, request):
        return json.load(urllib.request.urlopen(f"http://{SERVER}:2379/v3/{what}", json.dumps(request).encode(), 30))

    def refuse_writes(self, refuses):
        """By the alarm that it raises itself when its space is full: what is there can be read."""
        if INDEX == 0:
            member = self.ask("maintenance/status", {})["header"]["member_id"]
            self.ask("maintenance/alarm", {"action": "ACTIVATE" if refuses else "DEACTIVATE", "memberID": member,
                                           "alarm": "NOSPACE"})

    def damage(self, name):
        """The last byte of each of the service's values, behind the line that says what it is."""
        first = f"/{self.spec.split('/', 3)[3]}/{name}".encode()
        there = self.ask("kv/range", {"key": base64.b64encode(first).decode(),
                                      "range_end": base64.b64encode(first[:-1] + bytes([first[-1] + 1])).decode()})["kvs"]
        for pair in there:
            value = base64.b64decode(pair["value"])
            value = value[:-1] + bytes([value[-1] ^ 0xff])
            self.ask("kv/put", {"key": pair["key"], "value": base64.b64encode(value).decode()})

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
