# SPDX-License-Identifier: Apache-2.0
"""From what the guest measured to bounds, rows and claims (runs on the host)."""
import json
import os
import statistics

# What the demo has to show; numbers are those of the project's contract.
RICH_BOUND, LIMIT_BOUND = 1.15, 1.25
RICH_LOAD, LIMIT_LOAD = 0.35, 0.45
BEST_OTHER = 1.05
OVER_BLIND = 0.6
DISK_RATIO = 1.03
PLACED = 0.99


def bounds(raw):
    """{memory: {startup_s, why}}: no system can start faster (docs: how results are stated)."""
    measured = raw["measured"]
    rate, size = measured["disk_bytes_per_s"], measured["model_bytes"]
    init, load = measured["cached_init_s"], measured["cached_load_s"]
    floor = measured["cpu_s"] / raw["cpus"]
    cache = raw["limit_bytes"] - measured["loader_bytes"]
    # What init lets in: it may be too short to fill the memory.
    filled = min(cache, init * rate)
    rich = max(init + load, size / rate, floor)
    limited = max(init + max(load, (size - filled) / rate), floor)
    return {"rich": {"startup_s": rich, "load_s": load,
                     "why": f"max(init {init:.1f} s + cached load {load:.1f} s, "
                            f"model / disk {size / rate:.1f} s)"},
            "limit": {"startup_s": limited, "load_s": max(load, (size - filled) / rate),
                      "why": f"init {init:.1f} s + max(cached load {load:.1f} s, (model - cache "
                             f"filled in init) / disk {(size - filled) / rate:.1f} s)"}}


def peak_cache(folder, run):
    """Largest growth of the machine's page cache during the run, from its samples."""
    totals = []
    path = os.path.join(folder, run.get("samples") or "none")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                value = json.loads(line)
                if "node_file" in value:
                    totals.append(sum(value["node_file"]))
    return max(totals) - totals[0] if totals else None


def placed(run):
    """(right, sampled) pages of all workers, or None."""
    counts = [w["placement"] for w in run["report"].get("workers", []) if "placement" in w]
    if not counts:
        return None
    return sum(c["right"] for c in counts), sum(c["sampled"] for c in counts)


def spread(values):
    return {"": statistics.median(values), "_min": min(values), "_max": max(values)}


def row(runs, raw, folder, native):
    """One line of the table from the runs of one system in one case."""
    first, measured = runs[0], raw["measured"]
    out = {key: first[key] for key in ("system", "name", "memory")}
    for key in ("startup_s", "load_s", "init_s", "cache_s"):
        for suffix, value in spread([run[key] for run in runs]).items():
            out[key.replace("_s", suffix) if suffix else key] = value
    out["runs"] = len(runs)
    out["bound_s"] = raw["bounds"][first["memory"]]["startup_s"]
    out["bound_ratio"] = out["startup_s"] / out["bound_s"]
    if native:
        out["native_startup_ratio"] = out["startup_s"] / native["startup_s"]
        out["native_load_ratio"] = out["load_s"] / native["load_s"]
    moved = [run["bytes_from_disk"] for run in runs]
    rate = measured["disk_bytes_per_s"]
    out["disk_ratio"] = max(moved) / measured["model_bytes"]
    out["bandwidth_share"] = statistics.median(
        [run["bytes_from_disk"] / (rate * (run["startup_s"] + run["lead_s"])) for run in runs])
    peaks = [peak for peak in (peak_cache(folder, run) for run in runs) if peak is not None]
    out["peak_cache_bytes"] = max(peaks) if peaks else None
    for key in ("events_max", "oom_kill"):
        out[key] = max(run["memory_counters"][key] for run in runs)
    counts = [count for count in map(placed, runs) if count]
    out["placed_share"] = min((r / s for r, s in counts if s), default=None)
    lost = [run["lost_events"] for run in runs if run.get("lost_events") is not None]
    out["lost_events"] = max(lost) if lost else None
    out["checksum_ok"] = all(run["report"]["checksum"] == measured["checksum"] for run in runs)
    out["is_ours"] = first["is_ours"]
    out["is_note"] = first["is_recording"]
    return out


def rows(raw, folder):
    result = []
    for memory in ("rich", "limit"):
        order = list(dict.fromkeys(r["system"] for r in raw["runs"] if r["memory"] == memory))
        order.sort(key=lambda key: ["native", "native-ra", "eager", "precache", "maio-record", "maio",
                                    "maio-early"].index(key))
        native = None
        for system in order:
            runs = [r for r in raw["runs"] if r["memory"] == memory and r["system"] == system]
            line = row(runs, raw, folder, native)
            if system == "native":
                native = line
                line["native_startup_ratio"] = line["native_load_ratio"] = 1.0
            result.append(line)
    return result


class Claims:
    """Checks the rows and keeps one sentence each."""

    def __init__(self, table):
        self.table = table
        self.results = []

    def find(self, memory, system):
        for line in self.table:
            if (line["memory"], line["system"]) == (memory, system):
                return line
        return None

    def add(self, text, value, ok, shown=None):
        self.results.append({"text": text, "ok": bool(ok),
                             "value": shown if shown is not None else
                             "not measured" if value is None else f"{value:.3f}"})

    def at_most(self, text, value, limit):
        self.add(f"{text} <= {limit:g}", value, value is not None and value <= limit)

    def case(self, memory, where, bound, load):
        maio = self.find(memory, "maio") or {}
        self.at_most(f"{where}: MAIO's start-up / bound", maio.get("bound_ratio"), bound)
        self.at_most(f"{where}: MAIO's load / Native's", maio.get("native_load_ratio"), load)
        others = [line["startup_s"] for line in self.table if line["memory"] == memory and
                  line["system"] in ("native", "native-ra", "eager", "precache")]
        ratio = maio["startup_s"] / min(others) if maio and others else None
        self.at_most(f"{where}: MAIO's start-up / the best other system's", ratio, BEST_OTHER)

    def blind(self):
        for other, name in (("eager", "EagerLoad"), ("precache", "PreCache with its caching")):
            maio, line = self.find("limit", "maio"), self.find("limit", other)
            ratio = maio["startup_s"] / line["startup_s"] if maio and line else None
            self.at_most(f"with the limit: MAIO's start-up / {name}'s", ratio, OVER_BLIND)

    def ours(self):
        lines = [line for line in self.table if line["is_ours"]]
        if not lines:
            self.add("MAIO ran", None, False)
            return
        self.at_most("MAIO's bytes from the disk / the model's, at most",
                     max(line["disk_ratio"] for line in lines), DISK_RATIO)
        hits = sum(line["events_max"] + line["oom_kill"] for line in lines)
        self.add("MAIO never hits the limit (memory.events max and oom_kill are 0)", hits, hits == 0,
                 str(hits))
        shares = [line["placed_share"] for line in lines if line["placed_share"] is not None]
        if shares:
            self.add(f"MAIO's exclusive pages on their worker's node >= {PLACED:g}, at least",
                     min(shares), min(shares) >= PLACED)

    def equal(self, errors):
        wrong = [f"{line['name']} ({line['memory']})" for line in self.table
                 if not line["checksum_ok"]]
        self.add("every worker of every run got the right bytes", 0, not wrong,
                 ", ".join(wrong) or "yes")
        failed = [f"{error.get('name', error['system'])}: {error['error']}" for error in errors]
        self.add("every run finished", 0, not failed, "; ".join(failed) or "yes")


def claims(table, errors, is_partial=False):
    """is_partial: only some systems were asked for; what was not measured is not judged."""
    check = Claims(table)
    check.case("rich", "memory-rich", RICH_BOUND, RICH_LOAD)
    check.case("limit", "with the limit", LIMIT_BOUND, LIMIT_LOAD)
    check.blind()
    check.ours()
    check.equal(errors)
    return [c for c in check.results if not is_partial or c["value"] != "not measured"]


def headline(table):
    """One sentence with the most telling numbers."""
    parts = []
    for memory, where in (("rich", "with enough memory"), ("limit", "with memory for 45% of it")):
        line = next((r for r in table if (r["memory"], r["system"]) == (memory, "maio")), None)
        if line and line.get("native_startup_ratio"):
            parts.append(f"{where} ready {1 / line['native_startup_ratio']:.1f} times as fast as "
                         f"natively ({line['startup_s']:.1f} s, {line['bound_ratio']:.2f} x what this "
                         f"machine allows)")
    return "Through PPC with MAIO the model is " + " and ".join(parts) + "." if parts else ""
