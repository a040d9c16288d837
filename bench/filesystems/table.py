# SPDX-License-Identifier: Apache-2.0
"""The table of file systems, from pairs of a Native start and one with MAIO."""
import os
import platform
import statistics

import tables

PAGE, COMMAND, NAME = "docs/backends.md", "tests/all/observer-files --docs", "filesystems"
TITLES = {"ext4": "ext4", "xfs": "xfs", "btrfs": "btrfs", "overlay": "overlay on ext4",
          "fuse-keep": "FUSE (bindfs) that keeps its cache", "fuse-drop": "FUSE that drops it at every open",
          "direct": "a loader with O_DIRECT (ext4, no initialisation)"}


def raw(native_runs, runs):
    """Seconds, and the disk's share of the model's bytes, of each pair."""
    return {"machine": {"cpus": os.cpu_count(), "linux": platform.release().partition("-")[0]},
            "pairs": [{kind: {"s": round(run["s"], 3), "disk": round(run["disk"] / run["bytes"], 4)}
                       for kind, run in (("native", one), ("maio", other))}
                      for one, other in zip(native_runs, runs)]}


def row(title, pairs):
    def middle(kind, what):
        return statistics.median(pair[kind][what] for pair in pairs)
    ratios = sorted(pair["maio"]["s"] / pair["native"]["s"] for pair in pairs)
    shares = f"{middle('maio', 'disk'):.2f}"
    if middle("native", "disk") >= 1.01:
        shares += f", Native {middle('native', 'disk'):.2f}"
    spread = f" ({ratios[0]:.3f} to {ratios[-1]:.3f})" if len(ratios) > 1 else ""
    return [title, f"{middle('native', 's'):.2f}", f"{middle('maio', 's'):.2f}",
            f"{statistics.median(ratios):.3f}{spread}", shares]


def lines(cases):
    known = [name for name in TITLES if name in cases]
    machines = {(one["machine"]["linux"], one["machine"]["cpus"], len(one["pairs"]))
                for one in (cases[name] for name in known)}
    yield "; ".join(f"Linux {linux}, {cpus} CPUs, {pairs} pair{'s' if pairs > 1 else ''} each" for linux, cpus, pairs in sorted(machines)) + (
        ". Start-up of Native's is the median of the pairs, in brackets the least and the greatest.")
    yield ""
    yield from tables.markdown(("", "Native, s", "MAIO, s", "start-up, of Native's", "disk read, of the model"),
                               [row(TITLES[name], cases[name]["pairs"]) for name in known])


def write(measured):
    """Cases that were not measured now keep what they had."""
    cases = {**(tables.kept(NAME) if os.path.exists(tables.kept_path(NAME)) else {}),
             **{name: one for name, one in measured.items() if name in TITLES}}
    tables.keep(NAME, cases)
    tables.write(PAGE, COMMAND, lines(cases))
