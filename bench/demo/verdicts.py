# SPDX-License-Identifier: Apache-2.0
"""MAIO against its rivals, and MAIO's switches against each other: tables and claims (on the host)."""
import statistics

from . import evaluate, pairs, systems

# What has to hold; numbers are those of the project's contract.
OVER_RIVAL, OVER_DIRECT, OVER_FREE = 1.05, 1.10, 0.8
# Where the bound itself is no further below the best of the others: what of the bound is asked instead.
OVER_BOUND = 1.05
BOUND = {"rich": 1.05, "limit": 1.10}
# With as many workers as the paper's best cases have; its numbers.
LOAD_WORKERS, LOAD = 4, {"rich": 0.21, "limit": 0.26}
LIMIT_EVENTS, STOLEN = 10, 0.01
CASE_NAMES = {"rich": "enough memory", "limit": "constrained (the loader's own memory + 45% of the "
                                                "model)"}


def median(runs, key):
    return statistics.median(run[key] for run in runs)


def stolen_share(run):
    """Pages the kernel reclaimed from the service / pages that were loaded."""
    stolen = run["memory_counters"]["stat"].get("pgsteal", 0) * 4096
    return stolen / max(run["bytes_from_disk"], 1)


def is_equal(run, measured):
    """None: a loader of its own format, whose bytes have another order."""
    checksum = run["report"].get("checksum")
    return None if checksum is None else checksum == measured["checksum"]


def rows(runs, measured, case, keys, pair):
    """One line for each system: medians, worst counts, and the ratios of its pair(key): two systems."""
    bound = evaluate.bounds({"measured": measured, "cpus": measured["cpus"],
                             "limit_bytes": measured["limit_bytes"]})[case]["startup_s"]
    result = []
    for key in keys:
        mine = [run for run in runs if (run["memory"], run["system"]) == (case, key)]
        if not mine:
            continue
        equal = [is_equal(run, measured) for run in mine]
        placed = [right / sampled for right, sampled in
                  filter(None, map(evaluate.placed, mine)) if sampled]
        result.append({
            "system": key, "name": mine[0]["name"], "memory": case, "runs": len(mine),
            "startup_s": median(mine, "startup_s"), "load_s": median(mine, "load_s"),
            "bound_ratio": median(mine, "startup_s") / bound,
            "startup": pairs.of(runs, case, *pair(key), "startup_s"),
            "load": pairs.of(runs, case, *pair(key), "load_s"),
            "disk_ratio": median(mine, "bytes_from_disk") / measured["model_bytes"],
            "events_max": max(run["memory_counters"]["events_max"] for run in mine),
            "oom_kill": max(run["memory_counters"]["oom_kill"] for run in mine),
            "stolen": max(map(stolen_share, mine)),
            "placed": min(placed, default=None),
            "is_equal": None if equal[0] is None else all(equal)})
    return result


class Claims:
    def __init__(self):
        self.results = []

    def add(self, text, value, is_true):
        """is_true None: too few pairs to say."""
        self.results.append({"text": text, "value": value, "ok": is_true})

    def case(self, case, table, workers=2):
        lines = {line["system"]: line for line in table}
        maio = lines.get("maio")
        if not maio:
            return
        is_enough = True if maio["runs"] >= pairs.ENOUGH else None

        def judged(is_true):
            return is_enough and is_true

        self.add(f"{case}: MAIO's start-up / bound <= {BOUND[case]:g}", f"{maio['bound_ratio']:.3f}",
                 judged(maio["bound_ratio"] <= BOUND[case]))
        if workers == LOAD_WORKERS and "native" in lines:
            load = lines["native"]["load"]
            self.add(f"{case}: MAIO's load / Native's <= {LOAD[case]:g}", str(load),
                     load.at_most(LOAD[case]))
        for key, line in lines.items():
            if key == "maio":
                continue
            most = OVER_DIRECT if key in systems.UNCACHED else OVER_RIVAL
            self.add(f"{case}: MAIO's start-up / that of '{line['name']}' <= {most:g}",
                     str(line["startup"]), line["startup"].at_most(most))
        free = [lines[key] for key in systems.FREE if key in lines]
        if case == "limit":
            if free:
                self._free(case, maio, min(free, key=lambda line: line["startup_s"]))
            self.add(f"{case}: MAIO's memory.events max <= {LIMIT_EVENTS}, oom_kill 0",
                     f"{maio['events_max']} / {maio['oom_kill']}",
                     judged(maio["events_max"] <= LIMIT_EVENTS and maio["oom_kill"] == 0))
            self.add(f"{case}: pages reclaimed by the kernel / loaded, with MAIO < {STOLEN:g}",
                     f"{maio['stolen']:.4f}", judged(maio["stolen"] < STOLEN))

    def _free(self, case, maio, best):
        """Nobody is faster than the bound: a rival near it cannot be beaten by more than that leaves."""
        name = f"the best without a changed framework ('{best['name']}')"
        self.add(f"{case}: MAIO's load / that of {name} <= {OVER_FREE:g}", str(best["load"]),
                 best["load"].at_most(OVER_FREE))
        floor = maio["startup_s"] / maio["bound_ratio"] / best["startup_s"]
        most, why = OVER_FREE, ""
        if OVER_BOUND * floor > OVER_FREE:
            most, why = OVER_BOUND * floor, f" ({OVER_FREE:g} is out of reach: the bound is at {floor:.3f})"
        self.add(f"{case}: MAIO's start-up / that of {name} <= {most:.3g}{why}", str(best["startup"]),
                 best["startup"].at_most(most))

    def finished(self, table, left, problems):
        wrong = [f"{line['name']} ({line['memory']})" for line in table if line["is_equal"] is False]
        self.add("every worker of every run got the right bytes", ", ".join(wrong) or "yes", not wrong)
        self.add("every run finished", f"{left} are missing" if left else "yes", left == 0)
        self.add("no guest ended badly", "; ".join(problems) or "yes", not problems)


def _percent(value):
    return "-" if value is None else f"{100 * value:.1f}%"


COLUMNS = [
    ("system", lambda line: line["name"]),
    ("runs", lambda line: str(line["runs"])),
    ("start-up s", lambda line: f"{line['startup_s']:.1f}"),
    ("load s", lambda line: f"{line['load_s']:.1f}"),
    ("x bound", lambda line: f"{line['bound_ratio']:.2f}"),
    ("{start-up}", lambda line: str(line["startup"])),
    ("{load}", lambda line: str(line["load"])),
    ("disk/model", lambda line: f"{line['disk_ratio']:.3f}"),
    ("max/oom", lambda line: f"{line['events_max']}/{line['oom_kill']}"),
    ("reclaimed", lambda line: _percent(line["stolen"])),
    ("on its node", lambda line: _percent(line["placed"])),
    ("bytes", lambda line: {None: "-", True: "equal", False: "WRONG"}[line["is_equal"]]),
]


def plain(table, case, ratio):
    """Aligned text: one case; ratio: what a ratio is called, with a place for what it is of."""
    heads = [ratio.format(name[1:-1]) if name[0] == "{" else name for name, _ in COLUMNS]
    grid = [heads]
    grid += [[cell(line) for _, cell in COLUMNS] for line in table]
    widths = [max(len(line[i]) for line in grid) for i in range(len(COLUMNS))]
    lines = [CASE_NAMES[case]]
    for line in grid:
        cells = [line[0].ljust(widths[0])] + [text.rjust(w) for text, w in zip(line[1:], widths[1:])]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)
