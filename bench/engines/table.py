# SPDX-License-Identifier: Apache-2.0
"""The engines' table in docs/engines.md, from kept results; and the table of cases."""
import functools

import tables

from . import catalog, intervals
from .records import Records

COMMAND, PAGE = "tests/all/engines --docs", "docs/engines.md"
RATIO, ALL, NOISE = 1.03, 1.01, 0.015
PAIRS = 3  # fewer decide nothing
JUDGED = ("first", "second", "plain", "plain-again")
CELLS = ("native-again", *JUDGED)
TITLES = {"native-again": "native again", "first": "`run`, first", "second": "`run`, second",
          "plain": "registered, first", "plain-again": "registered, second"}
HEAD = ["engine", "memory", "native: ready, step, read", *(TITLES[cell] for cell in CELLS)]


def ready(found):
    return found.get("ready_s")


def step(found):
    steps = found.get("steps_ms")
    return sum(steps) / len(steps) if steps else None


def read(found):
    return found.get("disk_bytes")


VALUES = {"ready": ready, "step": step, "read": read}


def memory(share):
    return "no limit" if share is None else f"{share}%"


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None


def native_text(found):
    good = [one for one in found if "failed" not in one]
    if not good:
        return f"fails: {found[0]['failed']}" if found else "-"
    steps = median([value for one in good if (value := step(one))])
    return (f"{median([ready(one) for one in good]):.1f} s, {f'{steps:,.0f} ms' if steps else '-'}, "
            f"{median([read(one) for one in good]) / (1 << 20):,.0f} MiB")


def starts(records, engine, share, cell):
    return [found for (name, group, _, of), found in sorted(records.mine.items(), key=str)
            if (name, group, of) == (engine.name, share, cell)]


def cell_text(records, engine, share, cell):
    found = starts(records, engine, share, cell)
    if not found:
        return "-"
    if all("failed" in one for one in found):
        return "fails"
    texts = [intervals.told(records.ratios(engine.name, share, cell, value)) for value in VALUES.values()]
    if not all(is_same(records, engine, share, one) for one in found):
        texts.append("**other output**")
    return "; ".join(texts)


def is_same(records, engine, share, found):
    native = starts(records, engine, share, "native")
    return "failed" in found or not native or found["digest"] == native[0].get("digest")


def rows(records):
    for engine in catalog.ENGINES:
        for share in engine.shares:
            native = starts(records, engine, share, "native")
            if native:
                yield [engine.title, memory(share), native_text(native),
                       *(cell_text(records, engine, share, cell) for cell in CELLS)]


def means(records, cell, value, least=1):
    """The geometric mean of each engine's and group's own, one each however many pairs there are."""
    found = []
    for engine in catalog.ENGINES:
        for share in engine.shares:
            ratios = records.ratios(engine.name, share, cell, value)
            if len(ratios) >= least:
                found.append(intervals.mean(ratios))
    return found


def verdicts(records, engines=catalog.ENGINES):
    """(ok, not ok or skip, name, reason) of each cell of these that was run, and of all together."""
    for engine in engines:
        for share in engine.shares:
            for cell in CELLS:
                yield from judged(records, engine, share, cell)
    for cell in JUDGED:
        for name in ("ready", "step"):
            found = means(records, cell, VALUES[name], PAIRS)
            if found:
                whole = intervals.mean(found)
                yield ("ok" if whole <= ALL else "not ok", f"all/{cell}/{name}",
                       "" if whole <= ALL else f"geometric mean {whole:.3f}")


def judged(records, engine, share, cell):
    found = starts(records, engine, share, cell)
    name = f"{engine.name}/{memory(share)}/{cell}"
    for one in found:
        if "failed" in one:
            yield "not ok", name, one["failed"]
        elif not is_same(records, engine, share, one):
            yield "not ok", name, "other output than natively"
    for what in ("ready", "step"):
        ratios = records.ratios(engine.name, share, cell, VALUES[what])
        if ratios:
            yield judge(cell, ratios, f"{name}/{what}")


def judge(cell, ratios, name):
    """Two native starts must be alike; of the others the interval's lower end counts."""
    if len(ratios) < PAIRS:
        return "skip", name, f"{len(ratios)} of {PAIRS} pairs"
    middle, ends = intervals.mean(ratios), intervals.interval(ratios)
    if cell == "native-again":
        good = abs(middle - 1) <= NOISE
        return ("ok", name, "") if good else ("not ok", name, f"native to native {middle:.3f}: the machine is not quiet")
    return ("ok", name, "") if ends[0] <= RATIO else ("not ok", name, f"{middle:.2f}, at least {ends[0]:.2f}")


def phases(records):
    """The phases that engines tell themselves, as vLLM's weights."""
    for engine in catalog.ENGINES:
        for share in engine.shares:
            names = {name for found in starts(records, engine, share, "native") for name in found.get("notes", {})}
            for name in sorted(names):
                texts = [f"{TITLES[cell]} {intervals.told(ratios)}" for cell in CELLS if
                         (ratios := records.ratios(engine.name, share, cell, functools.partial(note, name)))]
                if texts:
                    yield f"- {engine.title}, {memory(share)}, time of {name} by its own log: {'; '.join(texts)}."


def note(name, found):
    return found.get("notes", {}).get(name)


def most_pairs(records):
    return max((pair + 1 for _, _, pair, _ in records.mine), default=0)


def lines(records):
    yield (f"{records.machine}; commit {records.commit}. Disk 300 MB/s, 2 ms, `read_ahead_kb` 128. Cells are ratios to the "
           "native start of the same pair: time to ready; time per step; bytes of the disk. Each is a geometric mean "
           "(its interval of 95%, pairs).")
    yield ""
    yield from tables.markdown(HEAD, list(rows(records)))
    yield ""
    for cell in CELLS:
        texts = [f"{name} {intervals.mean(found):.3f}" for name, value in VALUES.items()
                 if (found := means(records, cell, value))]
        if texts:
            yield f"- {TITLES[cell]}, geometric mean of all: {', '.join(texts)}."
    yield from phases(records)
    if most_pairs(records) < PAIRS:
        yield f"- Fewer than {PAIRS} pairs: no cell is judged."


def newest(kept):
    """Records of a machine and a commit, one for each that has the latest three pairs of an engine, with those engines alone."""
    pairs = {}
    for one in (one for one in kept.all if one["cell"] == "native"):
        found, key = pairs.setdefault(one["engine"], {}), (one["machine"], one["commit"])
        found[key] = max(found.pop(key, 0), one["pair"] + 1)  # the latest stands last
    chosen = {engine: next((key for key in reversed(found) if found[key] >= PAIRS), list(found)[-1])
              for engine, found in pairs.items()}
    for key in dict.fromkeys(chosen.values()):
        part = Records(kept.path, *key)
        part.mine = {of: found for of, found in part.mine.items() if chosen.get(of[0]) == key}
        yield part


def write(kept):
    text = []
    for part in newest(kept):
        text += [*lines(part), ""]
    text += [f"- {name} is not run: {reason}." for name, reason in catalog.NOT_RUN.items()]
    tables.write(PAGE, COMMAND, text)
