# SPDX-License-Identifier: Apache-2.0
"""ppcd with kvtier on one directory, in a socket of its own, and what they take."""
import glob
import json
import os
import re
import subprocess
import time


class BoxError(Exception):
    """It did not start, or refused; one line."""


class Box:
    """Context manager.  work: a folder for its state and log."""

    def __init__(self, build, work, folder, config):
        self.work, self.folder, self.config = work, folder, config
        self.environment = os.environ | {
            "PATH": f"{build}/bin:{os.environ['PATH']}:/sbin:/usr/sbin",
            "PPC_POLICY_DIR": f"{build}/policies", "PPC_SOCKET": os.path.join(work, "ppcd.sock"),
            "PPC_TEMPLATE_DIR": os.path.join(work, "templates")}
        self.log = self.ppcd = None

    def ask(self, *arguments, check=True):
        return subprocess.run(["ppcctl", *arguments], env=self.environment, check=check,
                              capture_output=True, text=True)

    def __enter__(self):
        self.log = open(os.path.join(self.work, "ppcd.log"), "wb")
        self.ppcd = subprocess.Popen(["ppcd", "--state-dir", self.work], env=self.environment,
                                     stdout=self.log, stderr=self.log)
        try:
            deadline = time.monotonic() + 30
            while self.ask("list", check=False).returncode:
                if time.monotonic() > deadline or self.ppcd.poll() is not None:
                    raise BoxError(f"ppcd does not answer; see {self.work}/ppcd.log")
                time.sleep(0.1)
            done = self.ask("reg_policy", "--backend", "observer", self.folder, "kvtier",
                            json.dumps(self.config), check=False)
            if done.returncode:
                raise BoxError(f"reg_policy: {(done.stderr or done.stdout).strip()}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.ppcd.terminate()
        self.ppcd.wait()
        self.log.close()

    def runner(self):
        """What the runner says of itself; one that has much to do may need more than one question."""
        deadline = time.monotonic() + 60
        while True:
            done = self.ask("status", "--json", self.folder, check=False)
            if done.returncode == 0:
                return json.loads(done.stdout)["mounts"][0]["runner"]
            if time.monotonic() > deadline:
                raise BoxError(f"status: {(done.stderr or done.stdout).strip()}")
            print(f"# status: {(done.stderr or done.stdout).strip()}", flush=True)
            time.sleep(1)

    def stats(self):
        return self.runner()["stats"]

    def processes(self):
        """ppcd, and the runners that are its children."""
        with open(f"/proc/{self.ppcd.pid}/task/{self.ppcd.pid}/children", encoding="ascii") as file:
            return [self.ppcd.pid, *(int(pid) for pid in file.read().split())]

    def memory(self):
        """Bytes: the runner's now and at most, and of all BPF maps.  What it has mapped of the maps counts with these:
        the pages of a ring are mapped twice, one behind the other."""
        runner = self.processes()[1]
        with open(f"/proc/{runner}/status", encoding="ascii") as file:
            status = file.read()
        with open(f"/proc/{runner}/smaps", encoding="utf-8") as file:
            rings = sum(map(int, re.findall(r"anon_inode:bpf-map.*?^Rss: +(\d+)", file.read(), re.M | re.S)))
        now, peak = ((int(re.search(rf"{key}:\s+(\d+)", status)[1]) - rings) * 1024 for key in ("VmRSS", "VmHWM"))
        maps = {}
        for pid in self.processes():
            for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
                try:
                    with open(path, encoding="ascii") as file:
                        text = file.read()
                except OSError:
                    continue
                number = re.search(r"^map_id:\s+(\d+)", text, re.M)
                if number:
                    maps[number[1]] = int(re.search(r"^memlock:\s+(\d+)", text, re.M)[1])
        return {"runner": now, "peak": peak, "maps": sum(maps.values())}
