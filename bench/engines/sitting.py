# SPDX-License-Identifier: Apache-2.0
"""One sitting: starts that have not been recorded, pair by pair, until the time is up."""
import os
import time

from demo.slowdisk import DiskError

from . import disk, models, ppc, runs
from .store import Missing, SuiteError

# (cell of the first start, of the second, ...) of each way.
WAYS = ((ppc.Native, ("native",)), (ppc.Run, ("first", "second")), (ppc.Plain, ("plain", "plain-again")),
        (ppc.Native, ("native-again",)))
CELLS = tuple(cell for _, cells in WAYS for cell in cells)


def order(pair):
    """Every other pair begins at the other end, so that what drifts favours no way."""
    return WAYS if pair % 2 == 0 else tuple(reversed(WAYS))


class Sitting:
    def __init__(self, store, build, records, minutes):
        self.store, self.build, self.records = store, build, records
        self.until = time.monotonic() + 60 * minutes
        self.failed = []
        self.skipped = set()

    def is_over(self):
        return time.monotonic() > self.until

    def measure(self, engines, shares, pairs):
        """True when all is recorded."""
        for pair in range(pairs):
            for engine in (one for one in engines if one.name not in self.skipped):
                for share in (share for share in engine.shares if share in shares):
                    try:
                        if not self._pair(engine, share, pair):
                            return False
                    except Missing as reason:
                        self.skipped.add(engine.name)
                        print(f"skip {engine.name} - {reason}", flush=True)
                        break
        return True

    def _wanted(self, engine, share, pair):
        return [(way, cells) for way, cells in order(pair)
                if any(self.records.get(engine.name, share, pair, cell) is None for cell in cells)]

    def _pair(self, engine, share, pair):
        """False when the time is up before its end."""
        wanted = self._wanted(engine, share, pair)
        if not wanted:
            return True
        if self.is_over():
            return False
        limit = self._limit(engine, share)
        with disk.Slow(models.ensure(self.store, engine.image), self.store.path("disk")) as slow:
            for way, cells in wanted:
                if self.is_over():
                    return False
                self._starts(engine, share, pair, slow, way, cells, limit)
        return True

    def _limit(self, engine, share):
        """The share of what the first native start took without a limit."""
        if share is None:
            return None
        whole = self.records.get(engine.name, None, 0, "native")
        if not whole or "peak" not in whole:
            raise Missing("its start without a limit is not recorded, so that its groups have no size")
        return whole["peak"] * share // 100

    def _starts(self, engine, share, pair, slow, way, cells, limit):
        program = engine.program_for(share)
        directory = os.path.join(slow.mount, program.directory)
        name = f"{engine.name} {'no limit' if share is None else f'{share}%'} {pair}"
        try:
            with way(self.build, self.store.path("ppc"), directory, program.workers) as entered:
                for cell in cells:
                    found = runs.execute(self.store, program, entered, slow, limit,
                                         f"{engine.name}-{share}-{cell}")
                    self.records.add(engine.name, share, pair, cell, found)
                    print(runs.line(f"{name} {cell}", found, program.unit), flush=True)
        except Missing:
            raise
        except DiskError as error:
            # Not the engine's fault: the next sitting tries again.
            self.failed.append(f"{name} {cells[0]}")
            print(f"not ok {name} {cells[0]} - {error}", flush=True)
        except SuiteError as error:
            for cell in cells:
                if self.records.get(engine.name, share, pair, cell) is None:
                    self.records.add(engine.name, share, pair, cell, {"failed": str(error).replace(self.store.folder + "/", "")})
            self.failed.append(f"{name} {cells[0]}")
            print(f"not ok {name} {cells[0]} - {error}", flush=True)
