# SPDX-License-Identifier: Apache-2.0
"""Ratios of pairs: their geometric mean and its interval of 95%."""
import math

# Student's t for 95%, by degrees of freedom; beyond the last one the last.
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
     2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def mean(ratios):
    """Geometric; None of nothing."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def interval(ratios):
    """(lower, upper) end; None for fewer than two."""
    if len(ratios) < 2:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    middle = sum(logs) / len(logs)
    deviation = math.sqrt(sum((value - middle) ** 2 for value in logs) / (len(logs) - 1))
    half = T[min(len(logs) - 2, len(T) - 1)] * deviation / math.sqrt(len(logs))
    return math.exp(middle - half), math.exp(middle + half)


def told(ratios):
    """For a table: `0.61 (0.58 to 0.64, 3)`; one pair has no interval."""
    if not ratios:
        return "-"
    ends = interval(ratios)
    return f"{mean(ratios):.2f} ({ends[0]:.2f} to {ends[1]:.2f}, {len(ratios)})" if ends else f"{mean(ratios):.2f} (1)"
