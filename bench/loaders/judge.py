# SPDX-License-Identifier: Apache-2.0
"""What the figures of a cell mean.  Threads: none; nothing here measures."""
import statistics

PAIRS = 5  # of a cell that is near Native
PAIRS_BELOW = 3  # of one that is near its limit, and that is far below Native
NEAR = 0.85
NEVER_ABOVE = 1.03
MAPPED_AT_MOST = 0.50
BOUND_AT_MOST = 1.10
COVERAGE_AT_LEAST = 0.98
OVER_AT_MOST = 0.02
SPREAD = 0.10  # native runs that differ by more say that the machine was disturbed


def ratios(runs, native):
    return [run["seconds"] / base["seconds"] for run, base in zip(runs, native)]


def limit(loader, native, bound):
    """Most that a cell may take of Native's time.  Half of it, of a loader that maps its model, unless
    nothing could be that fast: then a tenth more than what could."""
    if not loader.is_mapped:
        return NEVER_ABOVE
    reachable = BOUND_AT_MOST * bound / statistics.median(run["seconds"] for run in native)
    return min(NEVER_ABOVE, max(MAPPED_AT_MOST, reachable))


def needs_more(loader, runs, native, bound):
    """Whether the cell wants another round: one pair says little near what it is judged by."""
    if not runs:
        return True
    found = ratios(runs, native)
    median = statistics.median(found)
    if median > NEAR:
        return len(found) < PAIRS
    return median > NEAR * limit(loader, native, bound) and len(found) < PAIRS_BELOW


def cell(loader, runs, native, bound):
    """(ok, not ok or skip; why)"""
    if any(run["digest"] != native[0]["digest"] for run in runs + native):
        return "not ok", "other results than natively"
    found = ratios(runs, native)
    median, most = statistics.median(found), limit(loader, native, bound)
    if median <= most:
        return "ok", ""
    times = [run["seconds"] for run in native[:len(found)]]
    spread = max(times) / min(times) - 1
    why = f"{median:.2f} x Native, at most {most:.2f}; "
    why += f"{len(found)} rounds, {min(found):.2f} to {max(found):.2f}"
    if spread > SPREAD and median <= most * (1 + spread):
        return "skip", f"undecided, Native's own times differ by {spread:.0%}: {why}"
    return "not ok", why


def template(coverage, over):
    if coverage >= COVERAGE_AT_LEAST and over <= OVER_AT_MOST:
        return "ok", ""
    return "not ok", (f"coverage {coverage:.1%} (at least {COVERAGE_AT_LEAST:.0%}), "
                      f"over-prefetch {over:.1%} (at most {OVER_AT_MOST:.0%})")
