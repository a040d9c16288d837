# SPDX-License-Identifier: Apache-2.0
"""What is run, in which order, and how much of it fits into the time."""
import dataclasses

RESERVE_S = 15.0  # for the table and for giving everything back
SLACK = 1.1


@dataclasses.dataclass(frozen=True)
class Row:
    """One way of loading; what differs between two rows, and nothing else."""

    key: str
    name: str
    read_ahead_kb: int | None = None
    is_maio: bool = False
    is_fresh: bool = False  # without a recording: MAIO follows the headers, and records
    is_cached: bool = False
    memory: float | None = None  # of the service, as a part of the model's bytes


TIGHT = 0.45

# By what is to be known first, should time end early.  MAIO's recording comes from the row before it.
ROWS = (
    Row("native", "Native"),  # with the read_ahead_kb that the machine has
    Row("maio-headers", "MAIO, from headers (first start, recording)", is_maio=True, is_fresh=True),
    Row("maio", "MAIO, recorded", is_maio=True),
    Row("native-ra", "Native, `read_ahead_kb` 4096", read_ahead_kb=4096),
    Row("native-limit", f"Native, memory for {TIGHT:.0%} of the model", memory=TIGHT),
    Row("maio-headers-limit", f"MAIO, from headers, memory for {TIGHT:.0%} of the model", is_maio=True, is_fresh=True, memory=TIGHT),
    Row("maio-limit", f"MAIO, recorded, memory for {TIGHT:.0%} of the model", is_maio=True, memory=TIGHT),
    Row("native-128", "Native, `read_ahead_kb` 128", read_ahead_kb=128),
    Row("cached", "Native, all cached (what the device alone takes)", is_cached=True),
)


@dataclasses.dataclass(frozen=True)
class Cell:
    framework: str
    ranks: int
    row: Row

    def label(self):
        workers = "1 process" if self.ranks == 1 else f"{self.ranks} processes"
        return f"{self.framework}, {workers}, {self.row.name}"


def cells(frameworks, ranks, found_kb, keys=()):
    """One round, without rows that set read_ahead_kb to what it is.

    transformers loads whole models: several processes of it are no one service.
    """
    rows = [row for row in ROWS
            if row.key in keys or not keys and (row.read_ahead_kb is None or row.read_ahead_kb != found_kb)]
    return [Cell(framework, count, row) for framework in frameworks for count in ranks for row in rows
            if framework != "transformers" or count == 1]


class Budget:
    """The seconds that are left, and what a run is expected to take: what the longest like it took."""

    def __init__(self, seconds, clock):
        self.clock = clock
        self.end = clock() + seconds - RESERVE_S
        self.taken = {}

    def left(self):
        return self.end - self.clock()

    def took(self, cell, seconds):
        self.taken[cell] = max(seconds, self.taken.get(cell, 0.0))

    def expected(self, cell):
        return self.taken.get(cell, max(self.taken.values(), default=0.0))

    def fits(self, cell):
        return self.left() > 0 and self.expected(cell) * SLACK <= self.left()

    def count(self, wanted):
        """How many of these runs fit, by what is known."""
        left, count = self.left(), 0
        for cell in wanted:
            left -= self.expected(cell) * SLACK
            if left < 0:
                break
            count += 1
        return count
