# SPDX-License-Identifier: Apache-2.0
"""Reads a results file and the time series beside it.

A results file is a JSON object: title, settings, measured, bounds, runs, rows, claims, notes (see
bench/README.md).  A run names its series by file: `samples` (ppc-sample) and `trace` (positions a
policy reported).  Times in files are CLOCK_MONOTONIC ns; here they become seconds since the run's
zero_ns, the moment its clock starts.
"""
import bisect
import dataclasses
import json
import os


class ReportError(Exception):
    """One line for the user."""


@dataclasses.dataclass
class Samples:
    """What ppc-sample wrote, times in seconds."""

    times: list = dataclasses.field(default_factory=list)
    read_bytes: list = dataclasses.field(default_factory=list)
    cache_bytes: list = dataclasses.field(default_factory=list)  # page cache of the control group
    files: list = dataclasses.field(default_factory=list)  # [{name, bytes}]
    pages: int = 8
    residency: list = dataclasses.field(default_factory=list)  # [(time, [digits per file])]

    def bandwidth(self, step, end):
        """(time, bytes/s) at the end of each step from 0 on; from the counter, interpolated."""
        if len(self.times) < 2:
            return []
        result = []
        for index in range(1, int(end / step) + 2):
            later, earlier = self.bytes_at(index * step), self.bytes_at((index - 1) * step)
            result.append((index * step, (later - earlier) / step))
        return result

    def bytes_at(self, time):
        right = bisect.bisect_left(self.times, time)
        if right == 0:
            return self.read_bytes[0]
        if right == len(self.times):
            return self.read_bytes[-1]
        span = self.times[right] - self.times[right - 1]
        share = (time - self.times[right - 1]) / span if span else 1
        gain = self.read_bytes[right] - self.read_bytes[right - 1]
        return self.read_bytes[right - 1] + share * gain


def json_lines(path):
    """Objects of a JSON-lines file; a torn last line (a killed writer) is skipped."""
    result = []
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                result.append(value)
    return result


def read_samples(path, zero_ns):
    samples = Samples()
    for line in json_lines(path):
        if "files" in line:
            samples.files = line["files"]
            samples.pages = line.get("pages", 8)
        elif "resident" in line:
            samples.residency.append(((line["t"] - zero_ns) / 1e9, line["resident"]))
        elif "read_bytes" in line:
            samples.times.append((line["t"] - zero_ns) / 1e9)
            samples.read_bytes.append(line["read_bytes"])
            samples.cache_bytes.append(line.get("cg", {}).get("file"))
    return samples


def read_trace(path, zero_ns):
    """{group: [(seconds, front, prefetch, evict, total, state)]} in bytes, by time."""
    groups = {}
    for line in json_lines(path):
        if not {"t", "group", "front", "prefetch", "evict"} <= line.keys():
            continue
        point = ((line["t"] - zero_ns) / 1e9, line["front"], line["prefetch"], line["evict"],
                 line.get("total", 0), line.get("state", ""))
        groups.setdefault(line["group"], []).append(point)
    for points in groups.values():
        points.sort()
    return dict(sorted(groups.items()))


class Results:
    """A results file; series are read when asked for."""

    def __init__(self, path):
        if os.path.isdir(path):
            path = os.path.join(path, "results.json")
        try:
            with open(path, encoding="utf-8") as file:
                self.data = json.load(file)
        except OSError as error:
            raise ReportError(f"{path}: {error.strerror}") from error
        except ValueError as error:
            raise ReportError(f"{path}: not JSON ({error})") from error
        if not isinstance(self.data, dict) or not isinstance(self.data.get("runs"), list):
            raise ReportError(f"{path}: has no list of runs; give a results.json")
        self.folder = os.path.dirname(os.path.abspath(path))

    def __getitem__(self, key):
        return self.data.get(key) or {}

    @property
    def runs(self):
        return self.data["runs"]

    def samples(self, run):
        return self._series(run, "samples", read_samples, Samples())

    def trace(self, run):
        return self._series(run, "trace", read_trace, {})

    def _series(self, run, key, reader, empty):
        if not run.get(key):
            return empty
        path = os.path.join(self.folder, run[key])
        return reader(path, run["zero_ns"]) if os.path.exists(path) else empty

    def shown_runs(self, memory):
        """One measured run a system: the one of median start-up, in order of the rows."""
        shown = []
        for row in self.data.get("rows", []):
            runs = [r for r in self.runs if r["system"] == row["system"] and r["memory"] == memory]
            if row["memory"] != memory or not runs:
                continue
            runs.sort(key=lambda run: run["startup_s"])
            shown.append(runs[(len(runs) - 1) // 2])
        return shown
