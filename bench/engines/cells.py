# SPDX-License-Identifier: Apache-2.0
"""Starts at random, natively and with PPC: how an engine reads, its memory group, a neighbour, a fault, a policy that means
harm.  No start may read more than natively beyond a credit.  One that does is made smaller, and told.

A cell is a dict of plain values; one of a seed and a number is always the same.
"""
import contextlib
import dataclasses
import glob
import json
import os
import random
import signal
import threading
import time

from demo import machine

from . import cases, disk, models, neighbours, ppc, runs
from .store import SuiteError

MIB = 1 << 20
MOST_BYTES = 1.05
CREDIT_BYTES = 128 * MIB  # of a policy's first mistakes: 64 for loads, 64 for drops
LEAST_GROUP = 64 * MIB
SHRINK_TRIES = 10
# Members of a cell where it has nothing special.
PLAIN = {"reader": {}, "files": "abcd", "share": None, "neighbour": "", "fault_s": 0, "recorded": {}}
WAYS = ("run", "run", "run", "plain", "plain", "paper", "paper", "drops", "unread", "waited", "random")
HOSTILE = ("drops", "unread", "waited", "random")
# Images, and which of their files are read in which order.
IMAGES = {"files-440": ("abcd",), "flat": ("a", "b", "c", "ab", "abc", "abab")}


def draw(seed, number):
    lots = random.Random(f"{seed}/{number}")
    cell = {"image": lots.choice(sorted(IMAGES)), "way": lots.choice(WAYS)}
    cell["files"] = lots.choice(IMAGES[cell["image"]])
    reader = cell["reader"] = {}
    if lots.random() < 0.6:
        reader["passes"] = lots.choice((2, 3, 6))
        reader["pause_ms"] = lots.choice((0, 100, 700))
    reader |= lots.choice(({}, {}, {}, {"populates": 1}, {"reads": 1}, {"workers": 2}, {"threads": 2}, {"threads": 8}))
    for chance, name, values in ((0.2, "order", (1, 2)), (0.5, "before_ms", (300, 2000)), (0.2, "us_per_mib", (1000, 10000)),
                                 (0.1, "part", (25, 50, 90)), (0.15, "grows_mib", (50, 200))):
        if lots.random() < chance:
            reader[name] = lots.choice(values)
    if lots.random() < 0.1:
        reader |= {"stop_at": lots.choice((10, 50, 90)), "stop_ms": lots.choice((1000, 12000))}
    if lots.random() < 0.65:
        cell["share"] = lots.choice((150, 120, 110, 105, 100, 95, 85, 70, 50, 40))
    if lots.random() < 0.25:
        cell["neighbour"] = lots.choice(("drop_caches", "dontneed", "cat"))
    if cell["way"] == "plain" and lots.random() < 0.2:
        cell["fault_s"] = lots.choice((0.3, 1.0, 3.0))
    if cell["way"] == "paper" and lots.random() < 0.4:
        cell["recorded"] = lots.choice(({"part": 50}, {"files": "a"}, {"files": "c"}, {"order": 2}))
    return {**PLAIN, **cell}


# Commands of a cell.


def paths(cell, directory, files):
    found = cases.shards_of(directory)
    return [found["abcd".index(letter)] for letter in files if "abcd".index(letter) < len(found)]


def command(cell, is_recording):
    reader = dict(cell["reader"])
    files = cell["files"]
    if is_recording:
        other = dict(cell["recorded"])
        files = other.pop("files", files)
        reader |= other
        reader["passes"] = 1

    def words(store, directory):
        return [cases.compiled(store, "reader"), *(f"{name}={value}" for name, value in reader.items()),
                *paths(cell, directory, files)]

    return words


def group_bytes(cell, directory):
    """None without a limit.  Of the bytes that are read, and the process's own memory."""
    if cell["share"] is None:
        return None
    files = set(paths(cell, directory, cell["files"]))
    read = sum(os.path.getsize(path) for path in files) * cell["reader"].get("part", 100) // 100
    own = (8 + cell["reader"].get("grows_mib", 0)) * MIB * cell["reader"].get("workers", 1)
    return max(LEAST_GROUP, read * cell["share"] // 100) + own


@contextlib.contextmanager
def after(seconds, action):
    timer = threading.Timer(seconds, action)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def read_all(paths_of):
    for path in paths_of:
        with open(path, "rb") as file:
            while file.read(MIB):
                pass


def kill_runners(folder):
    """Of the ppcd that works there."""
    for path in glob.glob("/proc/[0-9]*/environ"):
        with contextlib.suppress(OSError, ValueError):
            if machine.read_text(os.path.join(os.path.dirname(path), "comm")).strip() == "ppc-runner" and \
                    f"{folder}/" in machine.read_text(path):
                os.kill(int(path.split("/")[2]), signal.SIGKILL)


def beside(cell, folder):
    """The neighbour of a start, and its fault."""

    @contextlib.contextmanager
    def both(directory):
        with contextlib.ExitStack() as stack:
            if cell["neighbour"] == "cat":
                stack.enter_context(after(0.3, lambda: read_all(paths(cell, directory, sorted(set(cell["files"]))))))
            elif cell["neighbour"]:
                stack.enter_context(getattr(neighbours, cell["neighbour"])(directory))
            if cell["fault_s"]:
                stack.enter_context(after(cell["fault_s"], lambda: kill_runners(folder)))
            yield

    return both


class NativeFails(SuiteError):
    """A cell that says nothing: its group is too small without PPC, too."""


class Cells:
    """Runs cells on one store and build."""

    def __init__(self, store, build):
        self.store, self.build = store, build

    def starts(self, cell, slow, mode, is_recorded):
        """Found of each start of a mode; the first of `recorded` counts for nothing."""
        directory = os.path.join(slow.mount, "model")
        limit = group_bytes(cell, directory)
        recordings = 1 if is_recorded and cell["recorded"] else 0
        number = 1 if mode == "native" or mode in HOSTILE else 2
        with ppc.WAYS[mode](self.build, self.store.path("ppc"), directory, cell["reader"].get("workers", 1)) as way:
            for start in range(recordings + number):
                program = runs.Program(command(cell, start < recordings), cases.LINES)
                found = runs.execute(self.store, program, way, slow, None if start < recordings else limit, "cell",
                                     beside(cell if mode != "native" else {**cell, "fault_s": 0}, way.folder))
                if start >= recordings:
                    yield found

    def measure(self, cell):
        """{"native": bytes, "with": [bytes, ...], "ratio": the worst's, beyond the credit}"""
        with disk.Slow(models.ensure(self.store, cell["image"]), self.store.path("disk")) as slow:
            try:
                (native,) = self.starts(cell, slow, "native", False)
            except SuiteError as error:
                raise NativeFails(str(error)) from error
            found = list(self.starts(cell, slow, cell["way"], True))
            if any(one["digest"] != native["digest"] for one in found):
                raise SuiteError("other output than natively")
            most = max(one["disk_bytes"] for one in found)
            natives = [native["disk_bytes"]]
            # The kernel keeps more or less from start to start.
            while ratio(most, max(natives)) > MOST_BYTES and len(natives) < 3:
                (again,) = self.starts(cell, slow, "native", False)
                natives.append(again["disk_bytes"])
        return {"native": max(natives), "with": [one["disk_bytes"] for one in found],
                "ratio": round(ratio(most, max(natives)), 3),
                "seconds": [round(one["total_s"], 1) for one in (native, *found)]}

    def judged(self, cell):
        """What was measured, and why it is a harm, or an empty text."""
        try:
            found = self.measure(cell)
        except NativeFails as error:
            return {"native_fails": str(error)}, ""
        except SuiteError as error:
            return {"failed": str(error)}, str(error)
        return found, f"{found['ratio']:.2f} of the bytes beyond the credit" if found["ratio"] > MOST_BYTES else ""

    def shrunk(self, cell):
        """A smaller one with a harm."""
        tries = 0
        for smaller in edits(cell):
            if tries == SHRINK_TRIES:
                break
            candidate = smaller(cell)
            if candidate == cell:
                continue
            tries += 1
            if self.judged(candidate)[1]:
                cell = candidate
        return cell


def ratio(most, native):
    return max(0, most - CREDIT_BYTES) / max(native, 1)


def edits(cell):
    """What makes a cell smaller, one after the other."""
    for name in ("neighbour", "fault_s", "recorded", "share"):
        yield lambda one, name=name: {**one, name: PLAIN[name]}
    for name in sorted(cell["reader"], key=lambda name: name == "passes"):
        yield lambda one, name=name: {**one, "reader": {key: value for key, value in one["reader"].items() if key != name}}


@dataclasses.dataclass
class Options:
    seed: int
    first: int
    number: int
    minutes: float


def sitting(options, cells, kept):
    """True where no cell does harm.  kept: records by seed and number."""
    until, good = time.monotonic() + options.minutes * 60, True
    for number in range(options.first, options.first + options.number):
        name = f"cell {options.seed}/{number}"
        found = kept.get(options.seed, number)
        if found is None:
            if time.monotonic() > until:
                print(f"# the time is up before {name}; the same command goes on", flush=True)
                return good
            cell = draw(options.seed, number)
            found, harm = cells.judged(cell)
            if harm:
                found["smallest"] = cells.shrunk(cell)
            found["harm"] = harm
            kept.add(options.seed, number, found)
        if found.get("native_fails"):
            print(f"skip {name} - natively: {found['native_fails']}", flush=True)
            continue
        good = good and not found["harm"]
        print(f"not ok {name} - {found['harm']}: --cell '{json.dumps(found['smallest'], sort_keys=True)}'" if found["harm"] else
              f"ok {name} - {found['ratio']:.2f}", flush=True)
    return good
