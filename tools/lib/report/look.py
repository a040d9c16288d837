# SPDX-License-Identifier: Apache-2.0
"""Colours and names shared by all pictures.  Distinguishable for colour-blind readers."""

SYSTEMS = {
    "native": "#7b8794",
    "native-ra": "#a8761b",
    "eager": "#e08e0b",
    "precache": "#3a9bd9",
    "maio-record": "#9b8fd0",
    "maio": "#0b6e4f",
    "maio-early": "#2fa36f",
}
OTHER = ["#b0436e", "#5a6ac0", "#8a6d3b", "#4b8b8b"]

STAGES = {"cache": "#bcdcf2", "lead": "#cfe8d9", "init": "#d9dee4", "load": "#f3d9a4"}
STAGE_NAMES = {"cache": "caching", "lead": "lead of the hook", "init": "init (no model reads)",
               "load": "load"}

MEMORY_NAMES = {"rich": "Memory-rich", "limit": "With a memory limit"}


def colour(system):
    if system in SYSTEMS:
        return SYSTEMS[system]
    return OTHER[sum(map(ord, system)) % len(OTHER)]


def stages(run):
    """[(stage, begin, end)] in seconds of the run's clock."""
    zero = run["zero_ns"]
    out, at = [], 0.0
    exec_s = (run["exec_ns"] - zero) / 1e9
    if run.get("cache_s"):
        out.append(("cache", 0.0, run["cache_s"]))
        at = exec_s
    if run.get("lead_s"):
        out.append(("lead", -run["lead_s"], 0.0))
    load_s, ready_s = ((run[key] - zero) / 1e9 for key in ("load_ns", "ready_ns"))
    out.append(("init", at, load_s))
    out.append(("load", load_s, ready_s))
    return out
