# SPDX-License-Identifier: Apache-2.0
"""Figure 12: services that follow each other on one machine, whose page cache is dropped before the first one alone."""
import contextlib
import os
import time

from demo import cgroup, machine

from . import catalog, sitting


class Disks:
    """Several slow disks, watched as one."""

    def __init__(self, disks):
        self.disks = disks

    def pids(self):
        return [pid for disk in self.disks for pid in disk.pids()]

    def problems(self):
        return [problem for disk in self.disks for problem in disk.problems()]


class Sequence(sitting.Sitting):
    """places: model -> (settings of its session, its disk)."""

    def __init__(self, places, records, until):
        self.places = places
        settings = dict(next(iter(places.values()))[0])
        super().__init__(settings, Disks([disk for _, disk in places.values()]), records, until)

    def turn_to(self, model):
        settings = self.places[model][0]
        self.settings.update({key: settings[key] for key in ("model_dir", "model_name")})
        self.experiment.model_dir = self.ppc.directory = settings["model_dir"]
        self.experiment.params["model"] = settings["model_name"]
        self.experiment.disk = machine.Disk(settings["model_dir"])
        self.know(model)

    def begin(self, starts):
        for model in self.places:
            self.turn_to(model)

    def start(self, start):
        system = catalog.SYSTEMS[start.system]
        self.settings["has_series"] = self.settings["keeps_cache"] = False
        for model in self.places:
            self.turn_to(model)
            if system.policy == "maio":
                self.record(model)
            machine.drop_caches(self.settings["model_dir"])
        self.settings["keeps_cache"] = True
        with self.one_group(start.memory):
            runs = self.services(system, start)
        if runs:
            self.records.add(*start, {"date": runs[0]["date"], "pause_s": catalog.PAUSE_S, "starts": runs})

    @contextlib.contextmanager
    def one_group(self, memory):
        """What an earlier service left in the cache counts against the limit, as on a machine without more memory."""
        limits = []
        for model in self.places:
            self.turn_to(model)
            limits.append(self.raw["limit_bytes"])
        self.experiment.group = cgroup.make(max(limits)) if memory == "limit" else None
        try:
            yield
        finally:
            group, self.experiment.group = self.experiment.group, None
            if group:
                for model in self.places:
                    machine.drop_caches(self.places[model][0]["model_dir"])
                group.remove()

    def services(self, system, start):
        """Runs in their order; none when one failed."""
        runs = []
        for model in catalog.SEQUENCE:
            self.turn_to(model)
            limit = self.raw["limit_bytes"] if start.memory == "limit" else None
            run = self.one(system, start.memory, start.round, limit)
            if not run:
                self.failed += 1
                return []
            runs.append({"model": model, **sitting.found(run, self.raw["measured"])})
            time.sleep(catalog.PAUSE_S)
        return runs


@contextlib.contextmanager
def on_disks(out, cache):
    with contextlib.ExitStack() as stack:
        yield {model: stack.enter_context(sitting.on_disk(model, catalog.MODELS[model], os.path.join(out, "sequence"), cache))
               for model in dict.fromkeys(catalog.SEQUENCE)}
