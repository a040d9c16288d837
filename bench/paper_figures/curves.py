# SPDX-License-Identifier: Apache-2.0
"""Figures 1, 8 and 12: bandwidth over time, and throughput by the interval between starts."""
import csv
import os

import tables
from report import fig_bandwidth, runs as report_runs, svg

from . import bars, catalog, shown
from .results import spread

STEP_S = 0.5
# Several systems' lines lie upon each other: the later ones leave gaps.
DASHES = {"native": None, "maio": None, "precache": "7 5", "eager": "2 4"}
INTERVALS_S = (5, 10, 15, 20, 30, 45, 60, 90, 120)


def _run(results, model, system, memory, name):
    found = results.get("8", model, system, memory)
    return found and {**found, "system": system, "name": name, "zero_ns": 0, "lead_s": 0}


def samples(run):
    return report_runs.Samples(times=[t for t, _ in run["samples"]], read_bytes=[count for _, count in run["samples"]])


def _bandwidth(results, runs, label):
    runs = [run for run in runs if run]
    disk = max((known["disk_bytes_per_s"] for model in catalog.LARGE
                if (known := results.get("6", model, "measured", ""))), default=3e8) / 1e6
    end = max(run["ready_ns"] for run in runs) / 1e9
    return bars.document(*fig_bandwidth.parts(runs, samples, disk, (0, end + 0.5), STEP_S), label)


def figure_1(results):
    return _bandwidth(results, [_run(results, model, "native", "rich", f"{catalog.TITLES[model]}, Native")
                                for model in catalog.LARGE], "Disk bandwidth of native starts, as Figure 1")


def _figure_8(results, memory, label):
    return _bandwidth(results, [_run(results, catalog.LARGE[0], key, memory, shown.NAMES[key]) for key in catalog.SERIES], label)


def figure_8_rich(results):
    return _figure_8(results, "rich", "Disk bandwidth with enough memory, as Figure 8(a)")


def figure_8_limit(results):
    return _figure_8(results, "limit", "Disk bandwidth with memory for 45%, as Figure 8(b)")


def _stages(results, model, key, case):
    """Share of the disk's bandwidth during initialisation, during the load, and of the whole start."""
    run, known = _run(results, model, key, case, ""), results.get("6", model, "measured", "")
    if not run or not known:
        return None
    at = samples(run).bytes_at
    load, ready = run["load_ns"] / 1e9, run["ready_ns"] / 1e9
    return [(at(end) - at(begin)) / (end - begin) / known["disk_bytes_per_s"] for begin, end in ((0, load), (load, ready), (0, ready))]


def _share_rows(results, wanted):
    for model, key, case in wanted:
        shares = _stages(results, model, key, case)
        if shares:
            yield [catalog.TITLES[model], shown.NAMES[key], "enough" if case == "rich" else "45%", *(f"{one:.0%}" for one in shares)]


def _shares(results, wanted):
    machine, commit, date = results.origins["8"]
    yield f"Share of the disk's bandwidth. One start each; {machine}; commit {commit}, {date}."
    yield ""
    yield from tables.markdown(["model", "system", "memory", "initialisation", "load", "whole start"], _share_rows(results, wanted))


def native_share(results):
    yield from _shares(results, [(model, "native", case) for model in catalog.LARGE for case in catalog.CASES])


def by_stage(results):
    yield from _shares(results, [(catalog.LARGE[0], key, case) for case in catalog.CASES for key in catalog.SERIES])


def write_csv(results, folder):
    """All series in one file: model, system, memory, seconds, bytes read so far."""
    with open(os.path.join(folder, "bandwidth.csv"), "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["model", "system", "memory", "seconds", "bytes"])
        for (figure, model, system, memory, _), found in results.of.items():
            if figure == "8":
                out.writerows([model, system, memory, *point] for point in found["samples"])


# Services that come and go.


def total_s(found):
    return sum(shown.startup(start) for start in found["starts"])


def throughput(starts_s, interval_s):
    """Share of the time in which a service answers, of as many intervals as there were starts."""
    served = interval_s * len(catalog.SEQUENCE)
    return served / (served + starts_s)


def _starts(results, key, case):
    return results.spread("12", "sequence", key, case, total_s)


def elastic(results):
    rows = []
    for case in catalog.CASES:
        native = _starts(results, "native", case)
        for key in catalog.ELASTIC:
            found = results.rounds("12", "sequence", key, case)
            if found and native:
                each = [f"{spread([shown.startup(one['starts'][index]) for one in found]).median:.1f}"
                        for index in range(len(catalog.SEQUENCE))]
                mine = _starts(results, key, case).median
                rows.append(["enough" if case == "rich" else "45%", shown.NAMES[key], *each,
                             *(f"{throughput(mine, t) / throughput(native.median, t):.2f}" for t in (15, 30, 120))])
    yield f"Start-ups in their order, s, and the throughput relative to Native's. Medians of {results.origin('12')}."
    yield ""
    yield from tables.markdown(["memory", "system", *(catalog.TITLES[model] for model in catalog.SEQUENCE),
                                "interval 15 s", "30 s", "120 s"], rows)


def _line(panel, results, key, case):
    found = _starts(results, key, case)
    if not found:
        return ""
    points = [(panel.x(t), panel.y(throughput(found.median, t))) for t in INTERVALS_S]
    return svg.polyline(points, shown.colour(key), 2.2, stroke_dasharray=DASHES[key])


def figure_12(results):
    width, each = 900, 390
    body = [svg.legend(bars.LEFT, 18, [(shown.colour(key), shown.NAMES[key], "dash" if dash else "line")
                                       for key, dash in DASHES.items()])]
    for index, case in enumerate(catalog.CASES):
        panel = svg.Panel(bars.LEFT + index * (each + 44), bars.TOP, each, bars.HEIGHT, (0, INTERVALS_S[-1]), (0, 1))
        body.append(panel.frame(svg.ticks(0, 1, 5), x_ticks=svg.ticks(0, INTERVALS_S[-1], 6)))
        body += [_line(panel, results, key, case) for key in DASHES]
        body.append(svg.text(panel.left, bars.TOP - 12, shown.CASE_NAMES[case], 11.5, svg.INK, font_weight=700))
        body.append(panel.x_title("seconds that each service answers"))
        if index == 0:
            body.append(panel.y_title("throughput, share of the most"))
    return bars.document(width, bars.TOP + bars.HEIGHT + 40, body, "Throughput of services that follow each other, as Figure 12")
