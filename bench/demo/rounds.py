# SPDX-License-Identifier: Apache-2.0
"""Which runs an experiment of interleaved rounds has, which of them are still to do (on the host)."""
import glob
import json
import os
import random
import statistics

# Seconds of a guest without its runs (boot, recording), and of a run beside its start-up (emptying
# the cache, registering): what the estimate takes them for.
GUEST_S, RUN_S = 60.0, 4.0


def order(seed, number, cases, keys):
    """The runs of a round: every system once in every case, in an order of its own."""
    runs = [(case, key) for case in cases for key in keys]
    random.Random(f"{seed}:{number}").shuffle(runs)
    return runs


def path(out, number, case, key):
    return os.path.join(out, "runs", f"{number:03d}-{case}-{key}.json")


def missing(out, seed, count, cases, keys):
    """{round: [(case, key)]} of what is not on disk."""
    todo = {}
    for number in range(1, count + 1):
        runs = [(case, key) for case, key in order(seed, number, cases, keys)
                if not os.path.exists(path(out, number, case, key))]
        if runs:
            todo[number] = runs
    return todo


def load(out):
    """All finished runs."""
    runs = []
    for name in sorted(glob.glob(os.path.join(out, "runs", "*.json"))):
        with open(name, encoding="utf-8") as file:
            runs.append(json.load(file))
    return runs


def estimate_s(todo, runs, pure_s):
    """Seconds that the missing runs will take: as long as before, or three times the pure disk time."""
    before = {}
    for run in runs:
        before.setdefault((run["memory"], run["system"]), []).append(run["startup_s"] + run["lead_s"])
    total = GUEST_S * len(todo)
    for wanted in todo.values():
        for key in wanted:
            total += RUN_S + (statistics.mean(before[key]) if key in before else 3 * pure_s)
    return total
