# SPDX-License-Identifier: Apache-2.0
"""Figures and tables that a program of their own measures: what it prints becomes a line of the results."""
import os
import re
import subprocess
import time

from demo import prepare

from . import catalog


def _said(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=prepare.TOP, **options)
    if done.returncode != 0:
        raise prepare.DemoError(f"{os.path.basename(command[0])} ended with status {done.returncode}")
    return done.stdout


def template_sizes(text):
    """{model: sizes} of the table of ppc-template-bench."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return {row[0]: {"workers": int(row[1]), "extents": int(row[2]), "bytes": int(row[3]), "paper_bytes": int(row[4])}
            for row in rows if row and row[0] in catalog.TITLES}


def runner_memory(text):
    """{way: KiB} of the table of bench/template/memory."""
    names = ("anon_before", "peak_before", "peak", "anon_settled")
    rows = [line.split() for line in text.splitlines()[1:]]
    return {row[0]: dict(zip(names, map(int, row[1:]))) for row in rows if len(row) == 5 and all(map(str.isdigit, row[1:]))}


ALONE = re.compile(r"^hot (.+): ([\d.]+) us with nothing attached|^(mapped passes .+): ([\d.]+) us with nothing attached")
ADDED = re.compile(r"^  (registered, nothing loads|one directory loads) +([+-][\d.]+) us \[([+-][\d.]+), ([+-][\d.]+)\]$")
ADDED_NAMES = {"registered, nothing loads": "idle", "one directory loads": "loads"}


def observer_costs(text):
    """{operation: us alone, and [median, low, high] that it takes longer} of what ppc-observer-cost prints."""
    costs, operation = {}, None
    for line in text.splitlines():
        if alone := ALONE.match(line):
            operation = costs.setdefault(alone[1] or alone[3], {"alone_us": float(alone[2] or alone[4])})
        elif added := ADDED.match(line):
            operation[ADDED_NAMES[added[1]]] = [float(one) for one in added.groups()[1:]]
    return costs


def _add(records, figure, key, values):
    records.add(*catalog.Start(figure, *key, "rich", 0), {"date": time.strftime("%Y-%m-%d"), **values})


def table_3(records):
    if records.get("table3", "deepseek-r1", "maio", "rich", 0):
        return
    for model, sizes in template_sizes(_said(["ppc-template-bench"])).items():
        _add(records, "table3", (model, "maio"), sizes)


def largest_runner(records):
    """Figure 10's last row: the layout with the most tensors."""
    if records.get("10", "deepseek-r1", "headers", "rich", 0):
        return
    said = _said([os.path.join(prepare.TOP, "bench", "template", "memory"), "--scratch", os.path.join(prepare.BUILD, "paper")])
    for way, sizes in runner_memory(said).items():
        _add(records, "10", ("deepseek-r1", way), sizes)


def observer(records):
    """Figure 9 for the observer, which has no file system of its own: readers of cached files, the dearest case."""
    if records.get("9", "cached", "1 MiB reads, inside", "rich", 0):
        return
    said = _said(["ppc-observer-cost", "--dir", os.path.join(prepare.BUILD, "paper"), "--rounds", "40", "--slice-ms", "20"])
    for operation, costs in observer_costs(said).items():
        _add(records, "9", ("cached", operation), costs)


def overhead(_records):
    """Figure 9 for the module: instructions, in a counting guest."""
    print(_said([os.path.join(prepare.TOP, "bench", "overhead")]))


def policy_skeleton(_records):
    """Figure 4 and Table 2: the paper's programs, compiled and registered."""
    prepare.step("building the test", ["cmake", "--build", prepare.BUILD, "--target", "policy_tests"])
    print(_said(["ctest", "--test-dir", prepare.BUILD, "-R", "^Figure4", "--output-on-failure"]))
