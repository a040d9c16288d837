# SPDX-License-Identifier: Apache-2.0
"""Makes a results directory with small made-up runs of plausible shape, for tests of the renderer
and for looking at its pictures:  python3 synthetic_results.py DIR && tools/report DIR"""
import json
import os
import sys

SECOND = 10**9
START = 100 * SECOND
DISK = 200e6
MODEL = 2272644296
FILES = 37
INIT = 5.7

# system, name, load seconds (rich, limit), cache seconds, lead seconds
SYSTEMS = [("native", "Native", 57.0, 58.5, 0, 0),
           ("native-ra", "Native, 4 MiB read-ahead", 16.5, 21.0, 0, 0),
           ("eager", "EagerLoad", 8.9, 49.0, 0, 0), ("precache", "PreCache", 8.7, 55.0, 11.8, 0),
           ("maio-record", "MAIO, recording run", 38.0, None, 0, 0),
           ("maio", "MAIO", 8.7, 8.9, 0, 0), ("maio-early", "MAIO, started 3 s earlier", 8.6, 8.8, 0, 3)]


def position(system, memory, time, load_s):
    """Bytes read from the disk by `time` since exec."""
    if system in ("native", "native-ra", "maio-record") or (system, memory) == ("precache", "limit"):
        return min(1, max(0, (time - INIT) / load_s)) * MODEL
    return min(MODEL, max(0, time) * DISK * 0.97)


def write_series(folder, run, memory, load_s):
    lead, cache_s = run["lead_s"], run["cache_s"]
    end = cache_s + INIT + load_s
    zero = run["zero_ns"]
    with open(os.path.join(folder, run["samples"]), "w", encoding="utf-8") as out:
        files = [{"name": f"model-{i + 1:05d}-of-00037.safetensors", "bytes": MODEL // FILES}
                 for i in range(FILES)] + [{"name": "config.json", "bytes": 500}]
        out.write(json.dumps({"version": 1, "interval_ms": 250, "buckets": 64, "pages": 8,
                              "files": files}) + "\n")
        time = -lead
        while time <= end + 0.5:
            at = time + lead
            read = min(MODEL, max(0, at) * DISK) if cache_s and time < cache_s else (
                MODEL if cache_s else position(run["system"], memory, at, load_s))
            front = min(1, max(0, (time - cache_s - INIT) / load_s)) * MODEL
            evicted = max(0, front - 130e6) if memory == "limit" else 0
            limit = 1.02e9
            kept = min(read, evicted + limit) if memory == "limit" else read
            stamp = zero + int(time * SECOND)
            out.write(json.dumps({"t": stamp, "node_file": [int(kept / 2)] * 2, "reads": 1,
                                  "read_bytes": int(min(read, evicted + limit)
                                                    if run["system"].startswith("maio") and
                                                    memory == "limit" else read),
                                  "cg": {"file": int(kept - evicted), "anon": 1}}) + "\n")
            if abs(time - round(time)) < 1e-9:
                digits = []
                for index in range(FILES):
                    text = ""
                    for bucket in range(64):
                        offset = (index + bucket / 64) * MODEL / FILES
                        text += "8" if evicted <= offset < kept else "0"
                    digits.append(text)
                out.write(json.dumps({"t": stamp, "resident": digits + ["8" * 64]}) + "\n")
            time += 0.25
    if run.get("trace"):
        with open(os.path.join(folder, run["trace"]), "w", encoding="utf-8") as out:
            for tick in range(int((INIT + load_s + lead) * 10)):
                time = tick / 10 - lead
                for group in (0, 1):
                    total = MODEL // 2
                    front = min(1, max(0, (time - INIT) / load_s)) * total
                    evict = max(0, front - 64e6) if memory == "limit" else 0
                    ahead = min(total, (time + lead) * DISK / 2)
                    if memory == "limit":
                        ahead = min(ahead, evict + 0.5e9)
                    out.write(json.dumps({"t": zero + int(time * SECOND), "service": "demo",
                                          "group": group, "front": int(front),
                                          "prefetch": int(max(ahead, front)), "evict": int(evict),
                                          "total": total, "state": "SYNC"}) + "\n")


def make_run(system, name, memory, load_s, cache_s, lead_s, rep):
    zero = START + rep * SECOND * 1000
    exec_ns = zero + int(cache_s * SECOND)
    load_ns = exec_ns + int(INIT * SECOND)
    run = {"id": f"{memory}-{system}-{rep}", "system": system, "name": name, "memory": memory,
           "rep": rep, "zero_ns": zero, "exec_ns": exec_ns, "load_ns": load_ns,
           "ready_ns": load_ns + int(load_s * SECOND),
           "end_ns": load_ns + int((load_s + 0.5) * SECOND), "startup_s": cache_s + INIT + load_s,
           "init_s": INIT, "load_s": load_s, "cache_s": cache_s, "lead_s": lead_s}
    run["samples"] = run["id"] + ".samples.jsonl"
    if system.startswith("maio"):
        run["trace"] = run["id"] + ".trace.jsonl"
    return run


def make_row(run, native, bound):
    constrained = run["memory"] == "limit"
    return {"system": run["system"], "name": run["name"], "memory": run["memory"],
            "runs": 3 if run["system"] == "maio" else 1, "startup_s": run["startup_s"],
            "startup_min": run["startup_s"] - 0.3, "startup_max": run["startup_s"] + 0.4,
            "init_s": INIT, "load_s": run["load_s"], "cache_s": run["cache_s"], "load_min": run["load_s"],
            "load_max": run["load_s"], "bound_s": bound, "bound_ratio": run["startup_s"] / bound,
            "native_startup_ratio": run["startup_s"] / native["startup_s"],
            "native_load_ratio": run["load_s"] / native["load_s"], "bandwidth_share": 0.42,
            "disk_ratio": 1.004, "peak_cache_bytes": 1.0e9 if constrained else 2.27e9,
            "events_max": 0, "oom_kill": 0, "placed_share": 0.996, "lost_events": 0,
            "checksum_ok": True, "is_ours": run["system"] in ("maio", "maio-early"),
            "is_note": run["system"] == "maio-record"}


def make(folder):
    os.makedirs(folder, exist_ok=True)
    runs, rows = [], []
    for memory, column in (("rich", 2), ("limit", 3)):
        native = None
        for system in SYSTEMS:
            if system[column] is None:
                continue
            run = make_run(system[0], system[1], memory, system[column], system[4], system[5],
                           len(runs))
            write_series(folder, run, memory, system[column])
            native = native or run
            runs.append(run)
            rows.append(make_row(run, native, 14.3))
    results = {
        "version": 1, "title": "Synthetic results", "lead": "Made-up numbers & shapes <only>.",
        "settings": {"model": "Qwen2.5-72B at 1:64", "disk": "200 MB/s, 4 ms"},
        "measured": {"disk_mbps": 200.0, "limit_bytes": 1.06e9},
        "bounds": {"rich": {"startup_s": 14.3}, "limit": {"startup_s": 14.3}},
        "case_names": {"limit": "loader's own memory + 45% of the model"},
        "group_names": {}, "residency_of": {"rich": ["maio"], "limit": ["native", "eager", "maio"]},
        "runs": runs, "rows": rows,
        "claims": [{"text": "MAIO's start-up <= 1.15 x bound", "value": "1.01", "ok": True},
                   {"text": "something else < 1", "value": "1.20", "ok": False}],
        "notes": ["An emulated machine."]}
    with open(os.path.join(folder, "results.json"), "w", encoding="utf-8") as out:
        json.dump(results, out, indent=1)


if __name__ == "__main__":
    make(sys.argv[1])
