# SPDX-License-Identifier: Apache-2.0
"""ppcd with kvtier on one directory, in a socket of its own, and what they take."""
import glob
import json
import re
import time

from bench.demo import private_ppcd


class Box(private_ppcd.Ppcd):
    """Context manager.  work: a folder for its state and log."""

    def __init__(self, build, work, folder, config):
        super().__init__(work, build, limit_s=30)
        self.folder, self.config = folder, config

    def __enter__(self):
        return self.serve(self.folder, "kvtier", self.config)

    def runner(self):
        """What the runner says of itself; one that has much to do may need more than one question."""
        deadline = time.monotonic() + 60
        while True:
            done = self.ask("status", "--json", self.folder)
            if done.returncode == 0:
                return json.loads(done.stdout)["mounts"][0]["runner"]
            if time.monotonic() > deadline:
                raise self.error(f"status: {(done.stderr or done.stdout).strip()}")
            print(f"# status: {(done.stderr or done.stdout).strip()}", flush=True)
            time.sleep(1)

    def stats(self):
        return self.runner()["stats"]

    def processes(self):
        """ppcd, and the runners that are its children."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return [self.process.pid, *(int(pid) for pid in file.read().split())]

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
