# SPDX-License-Identifier: Apache-2.0
"""The table of all that has been measured, as Markdown."""
import os
import platform
import statistics

from . import catalog, experiment, judge, unit_tests
from .disk import LAT_US, MBPS, READ_AHEAD_KB
from .environment import OUT, TOP
from .results import Results

DOCS = os.path.join(TOP, "docs", "loaders.md")
BEGIN, END = "<!-- written by tests/all/loaders --docs -->", "<!-- end -->"
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


def row(loader):
    results = Results(loader.name)
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


def lines(why_not):
    versions = next((key["versions"] for loader in catalog.LOADERS
                     if (key := Results(loader.name).get("key"))), {})
    yield (f"Disk {MBPS} MB/s, {LAT_US / 1000:g} ms, `read_ahead_kb` {READ_AHEAD_KB}; {os.cpu_count()} CPUs; Linux "
           f"{platform.release().partition('-')[0]}; torch {versions.get('torch', 'not there')}. "
           "Times are medians; x is the median of each round's ratio to Native. Bound: the disk's time for "
           "the bytes, or the loader's with everything cached, whichever is more.")
    yield ""
    yield "| " + " | ".join(HEAD) + " |"
    yield "|" + "---|" * len(HEAD)
    for loader in catalog.LOADERS:
        yield "| " + " | ".join(row(loader)) + " |"
    if why_not:
        yield ""
        yield f"MAIO has not run: {why_not}."
    yield ""
    yield unit_tests.sentence(Results(unit_tests.NAME))


def write(why_not, into_docs):
    text = "\n".join(lines(why_not)) + "\n"
    path = os.path.join(OUT, "table.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    experiment.say(f"table: {os.path.relpath(path, TOP)}")
    if not into_docs:
        return
    with open(DOCS, encoding="utf-8") as file:
        page = file.read()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    with open(DOCS, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n\n{text}\n{END}{after}")
