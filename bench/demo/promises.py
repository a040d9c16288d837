# SPDX-License-Identifier: Apache-2.0
"""What the demo has to show, and whether it did: true, false, or undecided where the measurement was
disturbed."""
import dataclasses

from . import disturbance

OTHERS = ("native", "native-ra", "eager", "precache")
WHERE = {"rich": "memory-rich", "limit": "with the limit"}


@dataclasses.dataclass(frozen=True)
class Promise:
    """Limits; None: nothing is promised there.  Pairs are memory-rich, with the limit."""

    bound: tuple = (None, None)
    native_startup: float = None
    native_load: tuple = (None, None)
    best_other: float = 1.05
    blind: float = None  # with the limit, over EagerLoad and PreCache
    disk: float = None  # bytes from the disk / the model's
    placed: float = None
    is_limit_kept: bool = False
    is_early: bool = False  # a start 3 s earlier reaches its own bound
    # Where ratios are of a dilated machine, doubt speaks against a miss alone.
    is_dilated: bool = False


# The numbers are those of the project's contract.
GUEST = Promise(bound=(1.15, 1.25), native_load=(0.35, 0.45), blind=0.6, disk=1.03, placed=0.99,
                is_limit_kept=True, is_dilated=True)
HOST = Promise(bound=(1.05, 1.10), native_startup=0.30, placed=0.99, is_early=True)
# Another disk allows amounts that are not known before.
OWN_DISK = Promise()


def of_host(settings):
    """What a native demo promises."""
    if not settings["mbps"]:
        return OWN_DISK
    if not settings.get("keeps_mapped"):
        return HOST
    # What several processes keep mapped stays without the module: measured, not promised.
    one = settings["workers"] == 1
    return dataclasses.replace(HOST, bound=(1.05, 1.15 if one else None), native_startup=None,
                               best_other=1.05 if one else None)


class Claims:
    """Checks the rows and keeps one sentence each.

    doubts: {memory: why no time of it can be judged}; bound_doubt: why the bounds may be too long.
    """

    def __init__(self, table, promise, doubts, bound_doubt):
        self.table, self.promise, self.doubts = table, promise, doubts
        self.bound_doubt = bound_doubt
        self.results = []

    def find(self, memory, system):
        for line in self.table:
            if (line["memory"], line["system"]) == (memory, system):
                return line
        return None

    def add(self, text, value, ok, shown=None, doubt=""):
        """doubt: why neither yes nor no can be said."""
        shown = shown if shown is not None else "not measured" if value is None else f"{value:.3f}"
        if doubt and value is not None:
            self.results.append({"text": text, "ok": None, "value": f"{shown} ({doubt})"})
        else:
            self.results.append({"text": text, "ok": bool(ok), "value": shown})

    def at_most(self, text, value, limit):
        self.add(f"{text} <= {limit:g}", value, value is not None and value <= limit)

    def time(self, text, over, under, limit, bound_doubt="", why=""):
        """The ratio of two times.  Who was disturbed took longer than it needs: over, and a ratio that is
        too large says nothing; under, and one that is small enough says nothing."""
        if not over or under is None:
            self.add(f"{text} <= {limit:.3g}{why}", None, False)
            return
        divisor = under["startup_s"] if isinstance(under, dict) else under
        value = over["startup_s"] / divisor
        ok = value <= limit
        doubt = "" if ok and self.promise.is_dilated else self.doubts.get(over["memory"], "")
        if not ok:
            doubt = doubt or _taken(over)
        elif isinstance(under, dict):
            doubt = doubt or _taken(under) or bound_doubt
        else:
            doubt = doubt or bound_doubt
        self.add(f"{text} <= {limit:.3g}{why}", value, ok, doubt=doubt)

    def native(self, where, maio, native, bound):
        """Nobody is faster than the bound: where Native's start-up is too near it, what of the bound is
        asked of MAIO is asked here."""
        limit, why = self.promise.native_startup, ""
        if maio and native:
            floor = maio["bound_s"] / native["startup_s"]
            if bound and bound * floor > limit:
                why = f" ({limit:g} is out of reach: the bound is at {floor:.3f})"
                limit = bound * floor
        self.time(f"{where}: MAIO's start-up / Native's", maio, native, limit,
                  self.bound_doubt if why else "", why)

    def case(self, memory, bound, load):
        where, maio = WHERE[memory], self.find(memory, "maio")
        native = self.find(memory, "native")
        if bound:
            self.time(f"{where}: MAIO's start-up / bound", maio, maio and maio["bound_s"], bound,
                      self.bound_doubt)
        if self.promise.native_startup:
            self.native(where, maio, native, bound)
        if load:
            ratio = (maio or {}).get("native_load_ratio")
            self.add(f"{where}: MAIO's load / Native's <= {load:g}", ratio,
                     ratio is not None and ratio <= load, doubt=self._if_missed(ratio, load, memory))
        others = [line for line in self.table
                  if line["memory"] == memory and line["system"] in OTHERS]
        best = min(others, key=lambda line: line["startup_s"], default=None)
        if self.promise.best_other:
            self.time(f"{where}: MAIO's start-up / the best other system's", maio, best,
                      self.promise.best_other)
        early = self.find(memory, "maio-early")
        if self.promise.is_early and bound:
            self.time(f"{where}: start-up of MAIO started 3 s earlier / its bound", early,
                      early and early["bound_s"], bound, self.bound_doubt)

    def _if_missed(self, value, limit, memory):
        return self.doubts.get(memory, "") if value is not None and value > limit else ""

    def blind(self):
        for other, name in (("eager", "EagerLoad"), ("precache", "PreCache with its caching")):
            self.time(f"with the limit: MAIO's start-up / {name}'s", self.find("limit", "maio"),
                      self.find("limit", other), self.promise.blind)

    def ours(self):
        lines = [line for line in self.table if line["is_ours"]]
        if not lines:
            self.add("MAIO ran", None, False)
            return
        if self.promise.disk:
            self.at_most("MAIO's bytes from the disk / the model's, at most",
                         max(line["disk_ratio"] for line in lines), self.promise.disk)
        if self.promise.is_limit_kept:
            hits = sum(line["events_max"] + line["oom_kill"] for line in lines)
            self.add("MAIO never hits the limit (memory.events max and oom_kill are 0)", hits,
                     hits == 0, str(hits))
        lost = [line["lost_events"] for line in lines if line["lost_events"] is not None]
        if lost:
            self.add("events lost by MAIO: 0", sum(lost), sum(lost) == 0, str(sum(lost)))
        self._placed([line for line in lines if line["placed_share"] is not None])

    def _placed(self, lines):
        """Where there is one node there is nothing to place."""
        if not lines or not self.promise.placed:
            return
        worst = min(lines, key=lambda line: line["placed_share"])
        value, limit = worst["placed_share"], self.promise.placed
        doubt = "" if value >= limit else self.doubts.get(worst["memory"], "") or _taken(worst)
        self.add(f"MAIO's exclusive pages on their worker's node >= {limit:g}, at least", value,
                 value >= limit, doubt=doubt)

    def equal(self, errors):
        wrong = [f"{line['name']} ({line['memory']})" for line in self.table
                 if not line["checksum_ok"]]
        self.add("every worker of every run got the right bytes", 0, not wrong,
                 ", ".join(wrong) or "yes")
        failed = [f"{error.get('name', error['system'])}: {error['error']}" for error in errors]
        self.add("every run finished", 0, not failed, "; ".join(failed) or "yes")


def _taken(line):
    """What a row was disturbed by, or ""."""
    if line.get("disturbed", 0.0) <= disturbance.TOLERATED:
        return ""
    return f"others took {line['disturbed']:.0%} of the CPUs from '{line['name']}'"


def claims(table, errors, is_partial=False, promise=GUEST, doubts=None, bound_doubt=""):
    """is_partial: only some systems were asked for; what was not measured is not judged."""
    check = Claims(table, promise, doubts or {}, bound_doubt)
    for index, memory in enumerate(WHERE):
        check.case(memory, promise.bound[index], promise.native_load[index])
    if promise.blind:
        check.blind()
    check.ours()
    check.equal(errors)
    return [c for c in check.results if not is_partial or c["value"] != "not measured"]
