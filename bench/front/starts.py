# SPDX-License-Identifier: Apache-2.0
"""Pairs of start-ups, natively and with PPC, out of the kept results.  Nothing here measures."""
import os
import re
import statistics

import tables
from gpu import documents as gpu
from loaders import catalog, judge
from loaders import table as loaders
from loaders.results import Kept

FOLDER = os.path.join(tables.TOP, "bench", "results")
# Cases by the beginning of their title, the start that is shown, and the name here.
CASES = (
    ("two processes map, touch and keep all", "run 2", "two processes, memory for 45%"),
    ("ONNX Runtime, one external file", "run 2", "ONNX Runtime, one external file"),
    ("llama.cpp computes from 2,211 MiB of mapped weights, memory 2,450", "run 2", "llama.cpp computing, memory 111%"),
    ("`reg_policy DIR maio`, 440 MiB after 3 s of imports", "plain 3", "440 MiB after imports, registered directory"),
    ("a neighbour writes to drop_caches each second", "run 1", "neighbour drops the page cache, first start"),
)


class Start:
    """One service's start-up: seconds natively and with PPC, and their ratio as its table states it."""

    def __init__(self, name, native_s, ppc_s, ratio):
        self.name, self.native_s, self.ppc_s, self.ratio = name, native_s, ppc_s, ratio


def recorded(file):
    """The row of bench/results/README.md about a file: date, commit, machine."""
    with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as page:
        row = re.search(rf"^\| `{re.escape(file)}` \| (.*?) \| (.*?) \| (.*?) \|", page.read(), re.M)
    return row.groups()


def of_loaders():
    """Later starts of every loader that ran."""
    kept = tables.kept(loaders.NAME)["loaders"]
    for loader in catalog.LOADERS:
        results = Kept(kept[loader.name])
        native, runs = results.rounds("native"), results.rounds("recorded")
        if runs:
            yield Start(loader.title.replace("`", ""), loaders.median(native), loaders.median(runs),
                        statistics.median(judge.ratios(runs, native)))


def _cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def case(title, start):
    """(seconds natively, seconds with PPC, ratio of time, ratio of bytes) of one row of cases.md."""
    with open(os.path.join(FOLDER, "cases.md"), encoding="utf-8") as page:
        rows = [_cells(line) for line in page if line.startswith("|")]
    found = next((row for row in rows if row[0].startswith(title) and row[1] == start), None)
    if found is None:
        raise ValueError(f"bench/results/cases.md has no row '{title}', {start}; CASES in bench/front/starts.py names them")
    return (*(float(cell.split(" s")[0]) for cell in found[2:4]), float(found[4]), float(found[5]))


def of_cases():
    for title, start, name in CASES:
        native_s, ppc_s, ratio, _ = case(title, start)
        yield Start(name, native_s, ppc_s, ratio)


def gpu_start(session, row, processes):
    """Median seconds of one row of a GPU session."""
    runs = tables.kept(gpu.NAME)["loads"][session]["runs"]
    return statistics.median(run["startup_s"] for run in runs
                             if run["row"] == row and run["processes"] == processes)


def of_gpu():
    for session, end, name in ((0, "", ""), (1, "", ", disk of 4 to 5 GB/s"), (0, "-limit", ", memory for 45%")):
        for processes in (1, 2):
            native_s, ppc_s = (gpu_start(session, way + end, processes) for way in ("native", "maio"))
            yield Start(f"{processes} process{'es' if processes > 1 else ''}{name}", native_s, ppc_s, ppc_s / native_s)


GROUPS = (
    ("Loaders, 2.2 GB, memory for all", "loaders.json", of_loaders),
    ("Engines, and cases that once showed harm; the whole command", "cases.md", of_cases),
    ("safetensors to a GPU, 16 GB", "gpu.json", of_gpu),
)
