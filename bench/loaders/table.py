# SPDX-License-Identifier: Apache-2.0
"""The table of all that has been measured, as Markdown."""
import os
import platform
import statistics

import tables

from . import catalog, experiment, judge, unit_tests
from .disk import LAT_US, MBPS, READ_AHEAD_KB
from .environment import OUT, TOP
from .results import Kept, Results

PAGE, COMMAND, NAME = "docs/loaders.md", "tests/all/loaders --docs", "loaders"
HEAD = ("loader", "version", "Native", "bound", "own prefetch", "MAIO from headers", "MAIO recorded",
        "headers cover", "too much")


def median(runs):
    return statistics.median(run["seconds"] for run in runs)


def time_text(runs, native):
    """Seconds, and how they compare."""
    if not runs:
        return "not run"
    found = judge.ratios(runs, native)
    pairs = f", {len(found)} pairs" if len(found) > 1 else ""
    return f"{median(runs):.1f} s, {statistics.median(found):.2f} x{pairs}"


def row(loader, results):
    key, native = results.get("key"), results.rounds("native")
    version = (key or {}).get("versions", {}).get(loader.package, "").replace(", commit Debian", "")
    if loader.not_run:
        return [loader.title, version, results.get("not-run") or "not tried"] + ["-"] + ["not run"] * 3 + ["-"] * 2
    if not native:
        return [loader.title, version, "not run", "-"] + ["not run"] * 3 + ["-"] * 2
    covered = results.get("ahead") or results.get("template")
    shares = [f"{covered['coverage']:.1%}", f"{covered['over']:.2%}"] if covered else ["-", "-"]
    bound = f"{found['seconds']:.1f} s" if (found := results.get("bound")) else "-"
    own = time_text(results.rounds("own"), native) if loader.own else loader.own_note
    cells = [time_text(results.rounds(cell), native) for cell in ("headers", "recorded")]
    return [loader.title, version, f"{median(native):.1f} s", bound, own, *cells, *shares]


def measured(why_not):
    """Raw: what lines() is made of."""
    names = [loader.name for loader in catalog.LOADERS] + [unit_tests.NAME]
    return {"machine": {"cpus": os.cpu_count(), "linux": platform.release().partition("-")[0],
                        "disk": [MBPS, LAT_US, READ_AHEAD_KB], "why_not": why_not},
            "loaders": {name: {run: without_status(value) for run, value in Results(name).all().items()}
                        for name in names}}


def without_status(value):
    """What ppcd said of itself at the end is long, and nothing of it is shown."""
    return {key: one for key, one in value.items() if key != "status"} if isinstance(value, dict) else value


def lines(raw):
    machine, results = raw["machine"], {name: Kept(values) for name, values in raw["loaders"].items()}
    versions = next((key["versions"] for found in results.values() if (key := found.get("key"))), {})
    mbps, lat_us, read_ahead_kb = machine["disk"]
    yield (f"Disk {mbps} MB/s, {lat_us / 1000:g} ms, `read_ahead_kb` {read_ahead_kb}; {machine['cpus']} CPUs; Linux "
           f"{machine['linux']}; torch {versions.get('torch', 'not there')}. "
           "Times are medians; x is the median of each round's ratio to Native. Bound: the disk's time for "
           "the bytes, or the loader's with everything cached, whichever is more.")
    yield ""
    yield from tables.markdown(HEAD, [row(loader, results[loader.name]) for loader in catalog.LOADERS])
    if machine["why_not"]:
        yield ""
        yield f"MAIO has not run: {machine['why_not']}."
    yield ""
    yield unit_tests.sentence(results[unit_tests.NAME])


def write(why_not, into_docs):
    """into_docs: the page has the table then, and bench/results what it is made of."""
    raw = measured(why_not)
    path = os.path.join(OUT, "table.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines(raw)) + "\n")
    experiment.say(f"table: {os.path.relpath(path, TOP)}")
    if into_docs:
        tables.keep(NAME, raw)
        tables.write(PAGE, COMMAND, lines(raw))
