# SPDX-License-Identifier: Apache-2.0
"""Section 4.3: the largest model on two nodes, which are this machine twice, one after the other: each has its own disk."""
import dataclasses

from demo import systems

from . import catalog, sitting


class Nodes(sitting.Sitting):
    FIGURE = "4.3"

    def begin(self, starts):
        count = catalog.NODE_WORKERS
        self.settings.update(workers=count, xpu_nodes=[0] * count)
        self.know(catalog.NODES_MODEL[0])

    def system_of(self, start):
        return catalog.SYSTEMS[start.system.split("-")[0]]

    def start(self, start):
        system, node = self.system_of(start), int(start.system.split("-")[1])
        first, count = node * catalog.NODE_WORKERS, catalog.NODE_WORKERS
        ranks = ",".join(map(str, range(first, first + count)))
        options = (f"--tp={2 * count}", f"--ranks={ranks}")
        self.settings["has_series"] = False
        self.experiment.params.update(tp=2 * count, node=node)
        if system.policy and node not in self.recorded:
            self.must_run(dataclasses.replace(systems.RECORD, loader_options=options))
            self.recorded.add(node)
        run = self.one(dataclasses.replace(system, loader_options=options), start.memory, start.round, None)
        if run:
            self.records.add(*start, sitting.found(run, self.raw["measured"]) | {"equal": None})
        else:
            self.failed += 1
