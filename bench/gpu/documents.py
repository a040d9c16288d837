# SPDX-License-Identifier: Apache-2.0
"""What came out, in README.md beside this file: written from results that are kept in bench/results."""
import json

import tables

from . import table

PAGE, COMMAND, NAME = "bench/gpu/README.md", "bench/gpu/run --docs", "gpu"
OF_A_RUN = ("cell", "round", "framework", "processes", "row", "startup_s", "init_s", "load_s", "bytes", "device_bytes_per_s",
            "disk_bytes", "checksum", "cache", "bindings")


def _kept_of(data):
    """One file of results without what no table shows."""
    runs = [{**{key: run[key] for key in OF_A_RUN if key in run},
             "runner": {"device": {"events_lost": (run.get("runner", {}).get("device") or {}).get("events_lost", 0)}}}
            for run in data["runs"]]
    ppc = {key: value for key, value in data["ppc"].items() if key != "xpus"}
    return {**{key: data[key] for key in ("device", "cuda", "machine", "model", "disk", "cells", "problems")},
            "ppc": {**ppc, "limits": []}, "runs": runs}


def write(paths):
    """Keeps the results in these files, of `run` and of `compile`, in the place of those before."""
    raw = {"loads": [], "compiles": []}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        if "colds" in data:
            raw["compiles"].append(data)
        else:
            raw["loads"].append(_kept_of(data))
    tables.keep(NAME, raw)
    tables.write(PAGE, COMMAND, lines(raw))


def lines(raw):
    parts = [table.page(data).splitlines() for data in raw["loads"]]
    parts += [list(compiled(data)) for data in raw["compiles"]]
    return [line for index, part in enumerate(parts) for line in ([""] if index else []) + part]


def compiled(data):
    yield f"Compiling: torch {data['colds'][0]['torch']}, {data['colds'][0]['device']}."
    yield ""
    rows = [("cold, then captured", start) for start in data["colds"]]
    rows += [("restored", start) for start in data["restoreds"]]
    rows += [("natively, caches still there", data["warm"]), ("another `--key`", data["other"])]
    yield from tables.markdown(
        ["start", "to compile, s", "kernels assembled", "graph cache", "autograd cache"],
        [[name, f"{start['seconds']:.2f}", str(start["kernels"]),
          *(f"{start[f'{what}_hit']} hit, {start[f'{what}_miss']} missed" for what in ("graph", "autograd"))]
         for name, start in rows])
