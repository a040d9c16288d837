# SPDX-License-Identifier: Apache-2.0
"""Ratios of paired measurements and their 90% interval.

One round runs every system once; two systems' times in the same round are a pair.  Their ratio is the
geometric mean of the pairs' ratios, its interval Student's t over their logarithms.
"""
import math

# Student's t, 95th percentile (two-sided 90%), by degrees of freedom from 1 on.
T95 = (6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331, 1.8125, 1.7959,
       1.7823, 1.7709, 1.7613, 1.7531, 1.7459, 1.7396, 1.7341, 1.7291, 1.7247, 1.7207, 1.7171,
       1.7139, 1.7109, 1.7081, 1.7056, 1.7033, 1.7011, 1.6991, 1.6973)
ENOUGH = 7  # pairs that a claim needs


class Interval:
    """A ratio with its interval; low and high are None with fewer than two pairs."""

    def __init__(self, ratios):
        self.count = len(ratios)
        logs = [math.log(ratio) for ratio in ratios]
        mean = sum(logs) / len(logs) if logs else math.nan
        self.ratio = math.exp(mean)
        self.low = self.high = None
        if len(logs) > 1:
            variance = sum((value - mean) ** 2 for value in logs) / (len(logs) - 1)
            # Beyond the table its last value is a little too wide.
            half = T95[min(len(logs) - 1, len(T95)) - 1] * math.sqrt(variance / len(logs))
            self.low, self.high = math.exp(mean - half), math.exp(mean + half)

    def __str__(self):
        if not self.count:
            return "-"
        if self.low is None:
            return f"{self.ratio:.3f}"
        return f"{self.ratio:.3f} [{self.low:.3f}..{self.high:.3f}]"

    def at_most(self, limit):
        """True, False, or None: too few pairs to say."""
        if self.count < ENOUGH:
            return None
        return self.high <= limit


def of(runs, case, ours, other, key):
    """The interval of ours / other for one number of the runs, paired by round; none with itself."""
    if ours == other:
        return Interval([])
    value = {(run["rep"], run["system"]): run[key] for run in runs if run["memory"] == case}
    rounds = sorted({number for number, system in value if system == ours})
    return Interval([value[number, ours] / value[number, other] for number in rounds
                     if (number, other) in value])
