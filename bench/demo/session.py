# SPDX-License-Identifier: Apache-2.0
"""A demo on the machine under test, wherever that is: measures it, then runs every system in both memory
cases, and writes raw.json."""
import glob
import json
import os
import platform
import statistics
import time
import traceback

from . import control, experiment, machine, systems


class SessionError(Exception):
    """Nothing that follows would count; one line."""


class Session:
    """Its machine is what a subclass says: how the disk is measured, what makes a run void."""

    def __init__(self, settings, ppc):
        self.settings = settings
        self.started = time.monotonic()
        self.raw = {"settings": settings, "kernel": platform.release(), "cpus": os.cpu_count(),
                    "runs": [], "errors": []}
        self.ppc = ppc
        self.experiment = experiment.Experiment(settings, self.ppc, self.say)
        self.has_ppc = False

    def say(self, text):
        print(f"demo: [{time.monotonic() - self.started:4.0f} s] {text}", flush=True)

    def save(self):
        path = os.path.join(self.settings["out"], "raw.json")
        machine.write_text(path, json.dumps(self.raw))

    def files(self):
        return sorted(glob.glob(os.path.join(self.settings["model_dir"], "*.safetensors")))

    def measure(self):
        """The disk's bandwidth, then the fully cached load and the loader's own memory."""
        machine.drop_caches(self.settings["model_dir"])
        measured = self.measure_disk("start")
        model = sum(os.path.getsize(path) for path in self.files())
        # Times follow from what the disk was set to, so that every demo measures the same thing;
        # bounds take the better of both.
        rate = self.settings["mbps"] * 1e6 if self.settings["mbps"] else measured
        pure_s = model / rate
        self.experiment.init_s = self.settings.get("init_s") or self.settings["init_share"] * pure_s
        workers = self.settings["workers"]
        # A fully cached load is to take load_share of the pure disk time: each worker takes its
        # part of the tensors (and all that is replicated, which is next to nothing).  0: the device
        # takes no time.
        share = self.settings["load_share"]
        self.experiment.device_mbps = model / workers / (share * pure_s) / 1e6 if share else 0.0
        self.say(f"disk {measured / 1e6:.0f} MB/s, model {model / 1e6:.0f} MB, pure disk time "
                 f"{pure_s:.1f} s; init {self.experiment.init_s:.1f} s, device "
                 f"{self.experiment.device_mbps:.0f} MB/s per worker")
        try:
            cached = self.attempt(systems.CACHED, "none", 1, None)
        except (RuntimeError, OSError) as error:
            raise SessionError(f"the fully cached load failed: {error}") from None
        stat = self._loader_peak(cached)
        self.raw["measured"] = {
            "disk_bytes_per_s": max(rate, measured), "disk_measured": measured,
            "model_bytes": model, "pure_disk_s": pure_s,
            "device_mbps": self.experiment.device_mbps, "cached": cached,
            "cached_init_s": cached["init_s"], "cached_load_s": cached["load_s"],
            "cached_startup_s": cached["startup_s"], "cpu_s": cached["report"]["cpu_s"],
            "loader_bytes": stat, "checksum": cached["report"]["checksum"]}
        self.say(f"fully cached: init {cached['init_s']:.1f} s, load {cached['load_s']:.1f} s; the "
                 f"loader's own memory {stat / 1e6:.0f} MB")
        self.save()

    def measure_disk(self, _when):
        """Bytes per second that many reads at once get."""
        return machine.measure_disk(self.files())

    def attempt(self, system, memory, rep, limit):
        """A run that counts."""
        return self.experiment.run(system, memory, rep, limit)

    def _loader_peak(self, run):
        """Largest anonymous and kernel memory of the loader's group, from the samples."""
        peak = 0
        with open(os.path.join(self.settings["out"], run["samples"]), encoding="utf-8") as lines:
            for line in lines:
                group = json.loads(line).get("cg")
                if group:
                    peak = max(peak, group["anon"] + group["kernel"])
        return peak

    def limit(self):
        """Of the limited case: the loader's own memory and its share of the model."""
        measured = self.raw["measured"]
        limit = (measured["loader_bytes"] + self.settings["margin_bytes"] +
                 int(self.settings["limit_share"] * measured["model_bytes"]))
        return limit // 4096 * 4096

    def one(self, system, memory, rep, limit):
        self.say(f"{memory}: {system.name}" + (f", run {rep}" if rep > 1 else "") + " ...")
        try:
            run = self.attempt(system, memory, rep, limit)
        except SessionError:
            raise
        except Exception as error:  # one system's failure is a row, not the end of the demo
            if not isinstance(error, (control.PpcError, RuntimeError, OSError)):
                traceback.print_exc()
            self.say(f"{memory}: {system.name} FAILED: {error}")
            self.raw["errors"].append({"system": system.key, "name": system.name, "memory": memory,
                                       "rep": rep, "error": str(error)})
            self._recover()
            run = None
        else:
            share = run["bytes_from_disk"] / self.raw["measured"]["model_bytes"]
            self.say(f"{memory}: {system.name}: start-up {run['startup_s']:.1f} s, load "
                     f"{run['load_s']:.1f} s, {share:.3f} x model from disk")
            self.raw["runs"].append(run)
        self.save()
        return run

    def _recover(self):
        """After a failed run: nothing of it is left behind."""
        if self.has_ppc:
            try:
                self.ppc.use(None)
            except control.PpcError as error:
                self.say(f"cleaning up: {error}")
        time.sleep(0.5)

    def before_case(self, memory):
        """What has to be known before a table's runs."""

    def case(self, memory, limit, order):
        """Runs in an order that spreads the repeated ones over the whole case."""
        count = {}
        for system in order:
            if system.policy and not self.has_ppc:
                continue
            count[system.key] = count.get(system.key, 0) + 1
            self.one(system, memory, count[system.key], limit)

    def start_ppc(self):
        try:
            self.ppc.start()
            self.has_ppc = True
        except (control.PpcError, OSError) as error:
            self.say(f"no PPC on this machine: {error}")
            self.raw["errors"].append({"system": "all", "error": str(error)})

    def main(self):
        self.measure()
        if not self.settings["systems"] or any(
                key not in systems.WITHOUT_PPC for key in self.settings["systems"]):
            self.start_ppc()
        repeats = self.settings["repeats"]
        maio = [systems.MAIO] * repeats
        rich = [systems.NATIVE, systems.RECORD, *maio[:1], systems.NATIVE_RA, *maio[1:2],
                systems.EAGER, *maio[2:], systems.PRECACHE, systems.EARLY]
        limited = [system for system in rich if system is not systems.RECORD]
        limit = self.raw["limit_bytes"] = self.limit()
        chosen = set(self.settings["systems"])
        cases = self.settings.get("cases")
        for memory, bytes_limit, order in (("rich", None, rich), ("limit", limit, limited)):
            keep = [system for system in order if not chosen or system.key in chosen]
            if cases and memory not in cases:  # what the other case follows is recorded all the same
                keep = [system for system in keep if system.is_recording]
            if keep:
                self.before_case(memory)
                self.case(memory, bytes_limit, keep)
        if self.has_ppc:
            self.ppc.stop()
        self.raw["wall_s"] = time.monotonic() - self.started
        self.raw["median_hook_s"] = statistics.median(
            [run["hook_s"] for run in self.raw["runs"] if "hook_s" in run] or [0])
        self.save()
        self.say("all runs done")
