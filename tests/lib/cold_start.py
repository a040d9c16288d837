# SPDX-License-Identifier: Apache-2.0
"""What the tests of cold starts share: commands on a directory of the slow disk, natively or as a service of MAIO with
the observer, with an empty page cache."""
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

from bench.demo import host, private_ppcd, slowdisk

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD = os.path.join(TOP, "build")
MBPS, LATENCY_US = 300, 2000
SETTLE_S = 0.5  # inodes by the ten thousand are freed behind the call, which takes a CPU
ENVIRONMENT = os.environ | {"PATH": f"{BUILD}/bin:{os.environ['PATH']}:/sbin:/usr/sbin",
                            "PPC_POLICY_DIR": f"{BUILD}/policies"}


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")
    time.sleep(SETTLE_S)


def sectors_of(device):
    with open(f"/sys/block/{os.path.basename(device)}/stat", encoding="ascii") as file:
        return int(file.read().split()[2])


class Service:
    """Commands on a directory of the slow disk, natively or as a service."""

    def __init__(self, folder, device, service_id, work):
        self.folder, self.device, self.id = folder, device, service_id
        self.ppcd = private_ppcd.Ppcd(work, BUILD, error=SystemExit)
        self.environment = self.ppcd.environment
        self.work = work
        self.stored_ns = 0

    def run(self, command, as_service, is_cold=True):
        """What it printed, seconds, bytes that came from the disk."""
        if is_cold:
            drop_caches()
        words = ["ppcctl", "run", "--required", "--id", self.id, self.folder, "--"] if as_service else []
        before, began = sectors_of(self.device), time.monotonic()
        done = subprocess.run([*words, *command], env=self.environment, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout, time.monotonic() - began, 512 * (sectors_of(self.device) - before)

    @contextlib.contextmanager
    def registered(self):
        with self.ppcd as ppcd:
            # A start without a service stays native.
            ppcd.register(self.folder, "maio", {"runtime": {"auto_service": False}})
            yield

    def status(self):
        return self.ppcd.status_of(self.folder)["mounts"][0]["runner"]["stats"]

    def record(self, command, most=4):
        """What it printed.  One that began before all files were listed, or lost events, is recorded once more."""
        for _ in range(most):
            said = self.run(command, True)[0]
            if not {"warm-suspect", "partial"} & set(self._await_template()["flags"]):
                return said
        raise SystemExit(f"{self.id}: after {most} recordings the template still has holes")

    def _await_template(self):
        """The recording is stored behind the end of the service."""
        path = os.path.join(self.work, "templates", self.id[:2], f"{self.id}.ppct")
        deadline = time.monotonic() + 60
        while not os.path.exists(path) or os.stat(path).st_mtime_ns == self.stored_ns:
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.id}: no template was stored; see {self.work}/ppcd.log")
            time.sleep(0.2)
        self.stored_ns = os.stat(path).st_mtime_ns
        return json.loads(self.ppcd.ctl("template", "show", "--json", path))


def make_image(source, image, megabytes, *options):
    """An ext4 image of a folder, which is removed."""
    subprocess.run(["mke2fs", "-q", "-t", "ext4", *options, "-d", source, image, f"{megabytes}M"], check=True,
                   env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    shutil.rmtree(source)
    return image


def unpack(root, suite, *packages):
    """Debian's packages and what they need, in a root of their own; nothing is installed."""
    script = (f"source {TOP}/tools/lib/common.sh; source {TOP}/tools/lib/suites.sh; source {TOP}/tools/lib/roots.sh; "
              'unpack_root "$@"')
    subprocess.run(["bash", "-euc", script, "bash", root, suite, "amd64", *packages], check=True, stdout=subprocess.DEVNULL)


def refusal(*tools):
    """Why this host cannot make the slow disk and watch it, or lacks other tools; "" if it can."""
    path = ENVIRONMENT["PATH"]
    missing = [*slowdisk.missing_tools(), *(name for name in ("mke2fs", *tools) if not shutil.which(name, path=path))]
    return host.refusal() or host.disk_refusal() or (f"not installed: {', '.join(missing)}" if missing else "")


def judged(name, failed):
    """The exit status of a test of which these lines are not as promised."""
    for text in failed:
        print(f"not ok {name} - {text}", flush=True)
    if not failed:
        print(f"ok {name}", flush=True)
    return 1 if failed else 0


@contextlib.contextmanager
def scratch(prefix):
    folder = os.path.join(BUILD, "scratch")
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder) as own:
        yield own


def part(suite, name, image, measure):
    """The exit status of a part: measure(work, disk) gives lines of what is not as promised."""
    with tempfile.TemporaryDirectory(prefix="ppc-cs-", dir="/run") as folder, \
            tempfile.TemporaryDirectory(prefix="ppc-csd-", dir="/run") as work, \
            slowdisk.SlowDisk(image, folder, MBPS, LATENCY_US) as disk:
        failed = list(measure(work, disk))
        failed += disk.problems()
        if failed:
            with open(os.path.join(work, "ppcd.log"), encoding="utf-8", errors="replace") as log:
                print("".join(f"# {line}" for line in log.readlines()[-20:]), end="")
    return judged(f"{suite} {name}", failed)
