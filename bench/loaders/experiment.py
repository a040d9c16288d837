# SPDX-License-Identifier: Apache-2.0
"""One loader through all its cells, in interleaved rounds; goes on where it was ended."""
import os
import shutil

from demo.slowdisk import DiskError

from . import environment, judge, maio, residency, runs, truth
from .environment import OUT, ROOT, SuiteError

TITLES = {"native": "Native", "own": "own prefetch", "headers": "MAIO from headers", "recorded": "MAIO recorded"}


def say(text):
    print(f"# {text}", flush=True)


def verdict(kind, name, why=""):
    print(f"{kind} {name}{' - ' + why if why else ''}", flush=True)


class Experiment:
    """One loader on one disk of so many MB/s.  why_not: why MAIO cannot run, or an empty text."""

    def __init__(self, loader, disk, mbps, results, why_not):
        self.loader, self.disk, self.mbps = loader, disk, mbps
        self.results, self.why_not = results, why_not
        self.directory = f"{ROOT}{loader.directory}"
        self.read = None  # what it reads, once that is known
        self.store = os.path.join(OUT, "templates", loader.name)

    def cells(self):
        found = ["native"]
        if self.loader.own:
            found.append("own")
        return found if self.why_not else found + ["headers", "recorded"]

    def run(self):
        """All cells, then the verdicts; one line each."""
        if self.loader.not_run:
            self._try_in_vain()
            return
        for number in range(judge.PAIRS):
            wanted = self._wanted()
            if not wanted:
                break
            # Native is the partner of each cell in each round.
            for cell in ["native"] + [cell for cell in self.cells() if cell in wanted and cell != "native"]:
                self.results.keep(f"{cell}-{number}", lambda: self._measure(cell, number))
            self.results.keep("bound", self._bound)
        self._judge_cells()
        self._judge_template()

    def _wanted(self):
        native, bound = self.results.rounds("native"), self.results.get("bound")
        if not native or bound is None:
            return self.cells()
        return [cell for cell in self.cells() if not self.results.rounds(cell) or
                cell in ("headers", "recorded") and
                judge.needs_more(self.loader, self.results.rounds(cell), native, bound["seconds"])]

    def _measure(self, cell, number):
        name = f"{self.loader.name}/{cell}"
        for attempt in range(3):
            try:
                self.disk.make_cold()
                found = self._one(cell)
                say(f"{name}.{number}: {found['seconds']:.1f} s, {found['disk_bytes'] / 1e6:.0f} MB read, "
                    f"CPUs {found['cpu_busy']:.0%} busy")
                return found
            except DiskError as error:
                say(f"{name}.{number}: {error}")
                if attempt == 2:
                    raise

    def _one(self, cell):
        if cell in ("native", "own"):
            return runs.timed_run(self.disk, self.loader, own=cell == "own")
        scratch = f"{self.store}.{cell}"
        shutil.rmtree(scratch, ignore_errors=True)
        if cell == "recorded":
            # A copy: each run starts from the same template.
            shutil.copytree(self.store, scratch)
        with maio.Maio(self.directory, scratch) as policy:
            found = runs.timed_run(self.disk, self.loader, policy.prefix(self.loader.name))
            found["status"] = policy.status()
        if cell == "headers" and not os.path.exists(self.store):
            # The first start is the recording too.
            os.rename(scratch, self.store)
        return found

    def _bound(self):
        """No prefetch makes it faster than the disk, nor than it is with everything cached."""
        disk_s = min(run["disk_bytes"] for run in self.results.rounds("native")) / 1e6 / self.mbps
        if self.loader.kind == "direct":
            return {"seconds": round(disk_s, 3)}
        self.disk.make_cold()
        warm = []
        for _ in range(6):  # the first fills the cache; somebody else may empty it
            run = runs.timed_run(self.disk, self.loader)
            if run["disk_bytes"] < 32 << 20:
                warm.append(run["seconds"])
            if len(warm) == 3:  # the best: a bound that a busy machine made would excuse too much
                return {"seconds": round(max(disk_s, min(warm)), 3), "warm": warm}
        raise SuiteError("the page cache does not keep the model; are others emptying it?")

    def _judge_cells(self):
        native, bound = self.results.rounds("native"), self.results.get("bound")["seconds"]
        verdict("ok", f"{self.loader.name}/native")
        for cell in ("headers", "recorded"):
            name = f"{self.loader.name}/{cell}"
            if self.why_not:
                verdict("skip", name, self.why_not)
                continue
            say(f"{name}: at most {judge.limit(self.loader, native, bound):.2f} x Native")
            verdict(*self._with_name(judge.cell(self.loader, self.results.rounds(cell), native, bound), name))
        if self.loader.own:
            same = all(run["digest"] == native[0]["digest"] for run in self.results.rounds("own"))
            verdict("ok" if same else "not ok", f"{self.loader.name}/own",
                    "" if same else "other results than by default")

    @staticmethod
    def _with_name(judged, name):
        return judged[0], name, judged[1]

    def _judge_template(self):
        """What headers say and what MAIO loads from them alone, against what the loader reads."""
        name = f"{self.loader.name}/template"
        if self.loader.kind == "direct":
            verdict("skip", name, "reads past the page cache")
            return
        if not os.access(f"{maio.BIN}/ppcctl", os.X_OK):
            verdict("skip", name, "build/bin lacks ppcctl; build first (tools/test does)")
            return
        found = self.results.keep("template", self._compare_template)
        say(f"{name}: coverage {found['coverage']:.2%}, over-prefetch {found['over']:.2%}")
        verdict(*self._with_name(judge.template(found["coverage"], found["over"]), name))
        if self.why_not:
            verdict("skip", f"{self.loader.name}/ahead", self.why_not)
            return
        found = self.results.keep("ahead", self._compare_ahead)
        say(f"{self.loader.name}/ahead: coverage {found['coverage']:.2%}, over-prefetch {found['over']:.2%}")
        verdict(*self._with_name(judge.template(found["coverage"], found["over"]), f"{self.loader.name}/ahead"))

    def _truth(self):
        if self.read is None:
            with self.disk.away():
                self.read = truth.of_loader(self.loader)
        return self.read

    def _compare_template(self):
        read = self._truth()
        with self.disk.away():
            coverage, over = truth.compare(read, truth.from_headers(self.loader))
        return {"coverage": coverage, "over": over, "read_pages": sum(sum(pages) for pages in read.values())}

    def _compare_ahead(self):
        scratch = f"{self.store}.ahead"
        shutil.rmtree(scratch, ignore_errors=True)
        read = self._truth()
        self.disk.make_cold()
        with residency.Watch(self.directory) as watch:
            maio.load_ahead(self.directory, scratch, self.loader.name, self.disk.counters())
        coverage, over = truth.compare(read, watch.pages)
        self.disk.check()
        return {"coverage": coverage, "over": over}

    def _try_in_vain(self):
        """A loader that is foreseen not to run: what it says when it is tried."""
        try:
            self.disk.make_cold()
            runs.execute(self.loader)
        except SuiteError as error:
            self.results.put("not-run", f"{self.loader.not_run}; tried: {error}")
            verdict("skip", f"{self.loader.name}/native", f"{self.loader.not_run}; tried: {error}")
            return
        verdict("not ok", f"{self.loader.name}/native", "it was foreseen not to run here, and did; give it its cells")


def key(why_not):
    """What results must have in common to be compared."""
    from .disk import LAT_US, MBPS, READ_AHEAD_KB
    return {"disk": [MBPS, LAT_US, READ_AHEAD_KB], "versions": environment.versions(),
            "maio": "none" if why_not else maio.fingerprint()}
