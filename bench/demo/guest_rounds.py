# SPDX-License-Identifier: Apache-2.0
"""The guest's side of interleaved rounds:  python3 -m demo.guest_rounds SETTINGS.json

Runs what settings["plan"] lists, in its order, and writes one file for each run as soon as it ended.
What the first guest measured serves all later ones: settings["measured"].
"""
import json
import os
import sys

from . import machine, systems
from .guest import Guest


class RoundsGuest(Guest):
    def _measured(self):
        """Bounds, device and limit are the same in every guest."""
        known = self.settings.get("measured")
        if known:
            self.raw["measured"] = known
            pure_s = known["pure_disk_s"]
            self.experiment.init_s = self.settings["init_share"] * pure_s
            self.experiment.device_mbps = known["device_mbps"]
            self.experiment.service_init_s = known["cached_init_s"]
            return
        self.settings["has_series"] = True  # the loader's own memory comes from the samples
        self.measure()
        self.settings["has_series"] = False
        self.experiment.service_init_s = self.raw["measured"]["cached_init_s"]
        machine.write_text(os.path.join(self.settings["out"], "measured.json"),
                           json.dumps({**self.raw["measured"], "limit_bytes": self.limit(),
                                       "cpus": self.raw["cpus"], "kernel": self.raw["kernel"]}))

    def main(self):
        self._measured()
        known = {system.key: system
                 for system in (*systems.RIVALS, systems.MAIO,
                                *systems.breakdown(self.settings["remote_cost"]))}
        plan = [(entry["round"], entry["case"], known[entry["system"]])
                for entry in self.settings["plan"]]
        if any(system.policy for _, _, system in plan):
            self.start_ppc()
            if not self.has_ppc or not self.one(systems.RECORD, "rich", 0, None):
                raise SystemExit("demo: without a recording MAIO cannot be compared")
        for number, case, system in plan:
            limit = self.limit() if case == "limit" else None
            run = self.one(system, case, number, limit)
            if run:
                name = f"{number:03d}-{case}-{system.key}.json"
                path = os.path.join(self.settings["out"], "runs", name)
                run["host_load"] = self.settings["host_load"]
                machine.write_text(path + ".partial", json.dumps(run))
                os.replace(path + ".partial", path)
        if self.has_ppc:
            self.ppc.stop()
        self.say("this round is done")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as settings_file:
        RoundsGuest(json.load(settings_file)).main()
