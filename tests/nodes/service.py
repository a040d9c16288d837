# SPDX-License-Identifier: Apache-2.0
"""A node: ppcd with MAIO on the model, and this node's half of a service of four workers."""
import json
import os
import re
import subprocess

from cluster import INDEX, Failed, run, succeeds, wait_for

MODEL, SHOWN = "/mnt/disk1/model", "/mnt/model"
GROUP = "/sys/fs/cgroup/service"
WARNING = "the local templates are used"
natively = {}  # checksums


def sectors():
    device = os.path.basename(os.path.realpath("/dev/disk1"))
    with open(f"/sys/block/{device}/stat", encoding="ascii") as stat:
        return int(stat.read().split()[2])


def make_cold():
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")


def load(directory, ranks, mbps=0):
    """The checksum of what two workers with these ranks of four read, as processes of the service; mbps: of what takes
    each one's bytes, 0: at once."""
    def join():
        with open(f"{GROUP}/cgroup.procs", "w", encoding="ascii") as procs:
            procs.write("0")
    os.makedirs(GROUP, exist_ok=True)
    said = run("loadmodel", "--workers", 2, "--tp", 4, "--ranks", ",".join(map(str, ranks)), "--staging", "1M", "--device-mbps", mbps, directory,
               preexec_fn=join)
    return re.search(r'"checksum":"([0-9a-f]+)"', said)[1]


def learn_natively():
    """Before there is a service whose reads this could be taken for."""
    for ranks in ((0, 1), (2, 3)):
        natively[ranks] = load(MODEL, ranks)


class Node:
    """Context manager.  name: of its own templates, which the next one of this name has too."""

    def __init__(self, name, config):
        self.work, self.config = f"/run/nodes/{name}", config
        self.log = f"{self.work}/log"
        os.environ["PPC_SOCKET"] = f"{self.work}/socket"
        self.daemon = None

    def __enter__(self):
        os.makedirs(f"{self.work}/templates", mode=0o700, exist_ok=True)
        os.makedirs(SHOWN, exist_ok=True)
        run("mount", "-t", "ppc", MODEL, SHOWN)
        with open(self.log, "w", encoding="utf-8") as log:
            self.daemon = subprocess.Popen(["ppcd", "--state-dir", f"{self.work}/state", "--template-dir",
                                            f"{self.work}/templates"], stdout=log, stderr=log)
        wait_for("ppcd", lambda: succeeds("ppcctl", "list"))
        run("ppcctl", "reg_policy", "--timeout", 100, SHOWN, "maio", json.dumps(self.config))
        self.runner = run("pgrep", "-P", self.daemon.pid, "-x", "ppc-runner")
        return self

    def __exit__(self, *_):
        self.daemon.terminate()
        self.daemon.wait(100)
        wait_for("the mount to be free", lambda: succeeds("umount", SHOWN))

    def start(self, name, first=None):
        """first: the number of this node's first worker, told; None: not told."""
        workers = "2" if first is None else f"{first}-{first + 1}"
        os.makedirs(GROUP, exist_ok=True)
        make_cold()
        run("ppcctl", "service", "start", "--timeout", 100, "--id", name, "--cgroup", GROUP, "--workers", workers, "--node",
            INDEX, "--nodes", 2, SHOWN)

    def ready(self, name):
        run("ppcctl", "service", "ready", "--timeout", 100, "--id", name, SHOWN)
        return self.status(name)

    def stop(self, name):
        run("ppcctl", "service", "stop", "--timeout", 100, "--id", name, SHOWN)

    def status(self, name):
        services = json.loads(run("ppcctl", "policy", "--timeout", 100, SHOWN, '{"op": "status"}'))["services"]
        return next((service for service in services if service["service_id"] == name), {})

    def mode(self, name):
        """Once it is known.  It may become `starting` again when the store has something newer."""
        known = []

        def is_known():
            known.append(self.status(name).get("mode", "starting"))
            return known[-1] != "starting"
        wait_for(f"the mode of {name}", is_known)
        return known[-1]

    def wait_until_loaded(self, name):
        def is_loaded():
            status = self.status(name)
            return status.get("loaded", 0) + status.get("redundant", 0) >= 0.99 * status.get("template_bytes", 1 << 62)
        wait_for("the model to be loaded ahead", is_loaded)

    def has_local(self, name):
        return os.path.exists(f"{self.work}/templates/{name[:2]}/{name}.ppct")

    def said(self, words):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return [line.strip() for line in log if words in line]

    def is_the_same_runner(self):
        return run("pgrep", "-P", self.daemon.pid, "-x", "ppc-runner") == self.runner


def stored(store, key=()):
    """The names in the store."""
    try:
        return {line.split()[0] for line in run("ppcctl", "template", "list", "--store", store.spec, *key).splitlines() if line}
    except Failed:
        return set()


def parts_of(name):
    return {name, f"{name}.n0.part", f"{name}.n1.part"}


def unmatched(status):
    """Bytes of what this node's workers read that the template did not have, and of all that they read."""
    groups = status["groups"]
    total = sum(group["total"] for group in groups)
    return total - sum(group["consumed"] for group in groups), total
