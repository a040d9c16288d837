# SPDX-License-Identifier: Apache-2.0
"""From what was measured to bounds and rows (runs on the host)."""
import json
import os
import statistics

from . import disturbance


def bounds(raw, lead_s=0.0):
    """{memory: {startup_s, why}}: no system can start faster (docs: how results are stated), even if it
    is told lead_s before."""
    measured = raw["measured"]
    rate, size = measured["disk_bytes_per_s"], measured["model_bytes"]
    init, load = measured["cached_init_s"], measured["cached_load_s"]
    floor = measured["cpu_s"] / raw["cpus"]
    cache = raw["limit_bytes"] - measured["loader_bytes"]
    # What init lets in: it may be too short to fill the memory.
    filled = min(cache, (init + lead_s) * rate)
    rich = max(init + load, size / rate - lead_s, floor)
    limited = max(init + max(load, (size - filled) / rate), floor)
    return {"rich": {"startup_s": rich, "load_s": load,
                     "why": f"max(init {init:.1f} s + cached load {load:.1f} s, "
                            f"model / disk {size / rate:.1f} s)"},
            "limit": {"startup_s": limited, "load_s": max(load, (size - filled) / rate),
                      "why": f"init {init:.1f} s + max(cached load {load:.1f} s, (model - cache "
                             f"filled in init) / disk {(size - filled) / rate:.1f} s)"}}


def peak_cache(folder, run, is_charged=False):
    """Largest growth of the machine's page cache during the run, from its samples; is_charged: the
    largest page cache of its control group, where others use the machine, too."""
    totals = [0] if is_charged else []
    path = os.path.join(folder, run.get("samples") or "none")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                value = json.loads(line)
                if is_charged and "cg" in value:
                    totals.append(value["cg"]["file"])
                elif not is_charged and "node_file" in value:
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
    """One line of the table from the runs of one system in one case.  Times are those of the runs that
    nobody disturbed, if there are any; counts are of all."""
    first, measured = runs[0], raw["measured"]
    calm = [run for run in runs if not disturbance.is_disturbed(run)] or runs
    out = {key: first[key] for key in ("system", "name", "memory")}
    for key in ("startup_s", "load_s", "init_s", "cache_s"):
        for suffix, value in spread([run[key] for run in calm]).items():
            out[key.replace("_s", suffix) if suffix else key] = value
    out["runs"] = len(runs)
    out["disturbed"] = max(map(disturbance.share, calm))
    out["bound_s"] = bounds(raw, first["lead_s"])[first["memory"]]["startup_s"]
    out["bound_ratio"] = out["startup_s"] / out["bound_s"]
    if native:
        out["native_startup_ratio"] = out["startup_s"] / native["startup_s"]
        out["native_load_ratio"] = out["load_s"] / native["load_s"]
    moved = [run["bytes_from_disk"] for run in runs]
    rate = measured["disk_bytes_per_s"]
    out["disk_ratio"] = max(moved) / measured["model_bytes"]
    out["bandwidth_share"] = statistics.median(
        [run["bytes_from_disk"] / (rate * (run["startup_s"] + run["lead_s"])) for run in runs])
    is_charged = raw.get("settings", {}).get("is_cache_charged", False)
    peaks = [peak for peak in (peak_cache(folder, run, is_charged) for run in runs)
             if peak is not None]
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
