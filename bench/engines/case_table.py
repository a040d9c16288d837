# SPDX-License-Identifier: Apache-2.0
"""Cases by themselves, and the table of those that take less than two minutes."""
import os

from demo.slowdisk import DiskError

from . import disk, intervals, models, ppc, runs
from .store import Missing, SuiteError

TIME, BYTES, SHORT_S, SHORT_MORE_S = 1.03, 1.05, 2.0, 0.06


def of(case, store):
    """Its disk, mounted while it is entered."""
    kind = disk.Memory if case.in_memory else disk.Slow
    return kind(models.ensure(store, case.image), store.path("disk"))


def starts(case, mode, number, limit_bytes, store, build, slow):
    """Found of each of so many starts, one after the other, as they end."""
    directory = os.path.join(slow.mount, case.program.directory)
    with ppc.WAYS[mode](build, store.path("ppc"), directory, case.program.workers) as way:
        for start in range(1, number + 1):
            name = f"{case.name} {mode} {start}"
            found = runs.execute(store, case.program, way, slow, limit_bytes, name.replace(" ", "-"), case.neighbour)
            print(runs.line(name, found, case.program.unit), flush=True)
            yield found


def one(case, mode, number, limit_mib, store, build):
    limit = case.limit_bytes if limit_mib is None else (limit_mib << 20) or None
    with of(case, store) as slow:
        for _ in starts(case, mode, number, limit, store, build, slow):
            pass


def of_cases(wanted, rounds, store, build):
    """True when none is worse with PPC."""
    rows, good = [], True
    for case in wanted:
        try:
            found = by_turns(case, rounds, store, build)
        except Missing as reason:
            print(f"skip {case.name} - {reason}", flush=True)
            continue
        except (SuiteError, DiskError) as error:
            print(f"not ok {case.name} - {error}", flush=True)
            good = False
            continue
        for cell, pairs in found.items():
            reason = judged(pairs)
            good = good and not reason
            print(f"{'not ok' if reason else 'ok'} {case.name}/{cell}{' - ' + reason if reason else ''}", flush=True)
            rows.append(row(case, cell, pairs))
    print("\n| tried | start | without | with | time x | bytes x |\n|---|---|---|---|---|---|")
    for words in rows:
        print("| " + " | ".join(words) + " |")
    return good


def by_turns(case, rounds, store, build):
    """{cell: [(native, with PPC)]}"""
    found = {}
    with of(case, store) as slow:
        if case.in_memory:  # the first start after a mount takes twice as long, in either way
            list(starts(case, "native", 1, case.limit_bytes, store, build, slow))
        for _ in range(rounds):
            (native,) = starts(case, "native", 1, case.limit_bytes, store, build, slow)
            for mode, number in case.ways:
                for start, one_found in enumerate(
                        starts(case, mode, number, case.limit_bytes, store, build, slow), 1):
                    found.setdefault(f"{mode} {start}", []).append((native, one_found))
    return found


def ratios(pairs, key):
    least = 1 if isinstance(pairs[0][0][key], int) else 0.001  # a byte, or a millisecond
    return [max(other[key], least) / max(native[key], least) for native, other in pairs]


def judged(pairs):
    """Why it does not pass, or an empty text."""
    if any(native["digest"] != other["digest"] for native, other in pairs):
        return "other output than natively"
    reasons = []
    native_s = sum(native["total_s"] for native, _ in pairs) / len(pairs)
    other_s = sum(other["total_s"] for _, other in pairs) / len(pairs)
    slower = other_s - native_s > SHORT_MORE_S if native_s < SHORT_S else other_s > TIME * native_s
    if slower:
        reasons.append(f"{other_s:.1f} s instead of {native_s:.1f}")
    read = intervals.mean(ratios(pairs, "disk_bytes"))
    if read > BYTES:
        reasons.append(f"{read:.2f} times the bytes")
    return ", ".join(reasons)


def text(found):
    steps = found["steps_ms"]
    mean = f", {sum(steps) / len(steps):,.0f} ms a step" if steps else ""
    ahead = f", {found['ahead_bytes'] >> 20:,} ahead" if found["ahead_bytes"] is not None else ""
    return f"{found['total_s']:.1f} s{mean}, {found['disk_bytes'] >> 20:,} MiB{ahead}"


def row(case, cell, pairs):
    native, other = pairs[-1]
    return [case.title, cell, text(native), text(other), f"{intervals.mean(ratios(pairs, 'total_s')):.2f}",
            f"{intervals.mean(ratios(pairs, 'disk_bytes')):.2f}"]
