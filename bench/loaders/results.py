# SPDX-License-Identifier: Apache-2.0
"""What has been measured: one JSON file per run in build/loaders/runs/LOADER, so that a command goes on."""
import json
import os
import shutil

from .environment import OUT


class Results:
    """Of one loader.  Results made with other programs, versions or disks are thrown away together, as
    rounds are only comparable when they were made with the same."""

    def __init__(self, name, key=None):
        self.folder = os.path.join(OUT, "runs", name)
        if key is not None and self.get("key") != key:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.put("key", key)

    def _path(self, name):
        return os.path.join(self.folder, f"{name}.json")

    def get(self, name):
        try:
            with open(self._path(name), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def put(self, name, value):
        os.makedirs(self.folder, exist_ok=True)
        with open(self._path(name) + ".new", "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
        os.rename(self._path(name) + ".new", self._path(name))
        return value

    def keep(self, name, make):
        """What is there under that name, else what make() returns."""
        there = self.get(name)
        return self.put(name, make()) if there is None else there

    def rounds(self, cell):
        """Its runs, in the order of the rounds."""
        return rounds(self, cell)

    def all(self):
        """{name: value}"""
        names = sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else []
        return {name.removesuffix(".json"): self.get(name.removesuffix(".json")) for name in names
                if name.endswith(".json")}


class Kept:
    """Of one loader, as Results.all told them."""

    def __init__(self, values):
        self.values = values

    def get(self, name):
        return self.values.get(name)

    def rounds(self, cell):
        return rounds(self, cell)


def rounds(results, cell):
    found = []
    while (run := results.get(f"{cell}-{len(found)}")) is not None:
        found.append(run)
    return found
