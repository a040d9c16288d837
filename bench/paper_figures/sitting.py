# SPDX-License-Identifier: Apache-2.0
"""One model's starts on a slow disk of this machine: the demo's session, with only the runs that are not recorded."""
import contextlib
import os
import time

from demo import command, disturbance, host, systems, verdicts
from report import runs as report_runs

from . import catalog

# Later sessions and the tables need these of a session's measurements.
MEASURED = ("disk_bytes_per_s", "disk_measured", "model_bytes", "pure_disk_s", "device_mbps", "cached_init_s",
            "cached_load_s", "cached_startup_s", "cpu_s", "loader_bytes", "checksum")
# As of the demo with a model of this size: half of the time that the disk needs.
INIT_S = 2.0


class TimeIsUp(Exception):
    """The same command goes on."""


def rounded(value):
    if isinstance(value, float):
        return round(value, 4)
    return [rounded(one) for one in value] if isinstance(value, (list, tuple)) else value


def found(run, measured):
    """Of a run what the tables need."""
    report = run["report"]
    return {key: rounded(value) for key, value in {
        "date": time.strftime("%Y-%m-%d"), "startup_s": run["startup_s"], "init_s": run["init_s"],
        "load_s": run["load_s"], "cache_s": run["cache_s"], "disk_bytes": run["bytes_from_disk"],
        "loader_cpu_s": report.get("cpu_s"), "cache_cpu_s": run.get("cache_cpu_s"),
        "runner_cpu_s": run.get("runner_cpu_s"), "runner_kib": run.get("runner_kib"), "busy_cpu_s": run["cpu_busy_s"],
        "lost_events": run.get("lost_events"), "limit_hits": run["memory_counters"]["events_max"],
        "others": disturbance.share(run), "equal": verdicts.is_equal(run, measured)}.items()}


def series(run, folder):
    """Bytes read over time, and the stages, on the clock of the run."""
    samples = report_runs.read_samples(os.path.join(folder, run["samples"]), run["zero_ns"])
    first = samples.read_bytes[0]
    return {"date": time.strftime("%Y-%m-%d"), "cache_s": rounded(run["cache_s"]),
            **{key: run[key] - run["zero_ns"] for key in ("exec_ns", "load_ns", "ready_ns", "end_ns")},
            "samples": [[round(t, 3), count - first] for t, count in zip(samples.times, samples.read_bytes)]}


class Sitting(host.Host):
    """records: engines.records.Records with the keys of catalog; until: of the monotonic clock, no start begins later."""

    FIGURE = "6"  # that a model's measurements are recorded for

    def __init__(self, settings, disk, records, until):
        super().__init__(settings, disk)
        self.records, self.until = records, until
        self.recorded = set()
        self.failed = 0

    def run_all(self, starts):
        try:
            self.begin(starts)
            self.need_ppc([self.system_of(start) for start in starts])
            for start in starts:
                self.must_have_time()
                self.start(start)
        finally:
            self._leave_nothing()

    def begin(self, starts):
        self.know(starts[0].model)

    def system_of(self, start):
        return catalog.SYSTEMS[start.system]

    def know(self, model):
        """Device, initialisation and limit are the same in every session."""
        key = (self.FIGURE, model, "measured", "", 0)
        if self.records.get(*key) is None:
            self.settings["has_series"] = True  # the loader's own memory comes from the samples
            self.measure()
            self.records.add(*key, {"date": time.strftime("%Y-%m-%d"),
                                     **{name: rounded(self.raw["measured"][name]) for name in MEASURED}})
        known = self.raw["measured"] = self.records.get(*key)
        self.experiment.init_s = self.settings["init_s"]
        self.experiment.device_mbps = known["device_mbps"]
        self.experiment.service_init_s = known["cached_init_s"]
        self.raw["limit_bytes"] = self.limit()

    def need_ppc(self, wanted):
        if any(system.policy for system in wanted) and not self.has_ppc:
            self.start_ppc()
            if not self.has_ppc:
                raise host.SessionError(self.raw["errors"][-1]["error"])

    def record(self, model):
        """MAIO's templates are those of this daemon."""
        if model not in self.recorded:
            self.settings["has_series"] = False
            self.must_run(systems.RECORD)
            self.recorded.add(model)

    def must_run(self, recording):
        if not self.one(recording, "rich", 0, None):
            raise host.SessionError("without a recording MAIO cannot be measured")

    def start(self, start):
        system = catalog.SYSTEMS[start.system]
        if system.policy == "maio":
            self.record(start.model)
        is_shown = (start.figure == "6" and start.round == 0 and start.model in catalog.LARGE and
                    start.system in catalog.SERIES)
        self.settings["has_series"] = is_shown
        run = self.one(system, start.memory, start.round, self.raw["limit_bytes"] if start.memory == "limit" else None)
        if not run:
            self.failed += 1
            return
        self.records.add(*start, found(run, self.raw["measured"]))
        if is_shown:
            self.records.add(*start._replace(figure="8"), series(run, self.settings["out"]))

    def must_have_time(self):
        if time.monotonic() > self.until:
            raise TimeIsUp

    def run_memory(self, starts):
        """Of Figure 10: the runner's memory while a model is read by so many processes."""
        self.settings.update(has_series=False, init_s=0.0)
        self.raw["measured"] = {"model_bytes": sum(map(os.path.getsize, self.files())), "checksum": None}
        try:
            self.need_ppc([catalog.EMPTY])
            for start in starts:
                self.must_have_time()
                way, mode, workers = start.system.split("-")
                self.settings.update(mode=mode, workers=int(workers), xpu_nodes=[0] * int(workers))
                self.experiment.params["tp"] = int(workers)
                run = self.one({"null": catalog.EMPTY, "maio": systems.MAIO}[way], start.memory, start.round, None)
                if run:
                    self.records.add(*start, found(run, self.raw["measured"]) | {"equal": None})
                else:
                    self.failed += 1
        finally:
            self._leave_nothing()


@contextlib.contextmanager
def on_disk(model, scale, out, cache):
    """(settings of a session, disk that was entered)."""
    options = command.parse(["--model", model, "--scale", str(scale), "--out", os.path.join(out, model)])
    scratch = os.path.join(options.out, "scratch")
    os.makedirs(scratch, exist_ok=True)
    disk, folder = command.disk_and_model(options, cache, scratch)
    with disk:
        yield {**command.host_settings(options, folder, scratch), "init_s": INIT_S}, disk
