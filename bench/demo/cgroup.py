# SPDX-License-Identifier: Apache-2.0
"""A control group for one run's memory, in the hierarchy that this machine has (v2, or v1 beside it)."""
import glob
import os
import time

from .machine import die_with_parent, flat, read_text, write_text

ROOT = "/sys/fs/cgroup"
PREFIX = "ppc-demo-"


class Cgroup:
    """Made for one run; v2."""

    ROOT = ROOT
    LIMIT = "memory.max"

    def __init__(self, name, limit_bytes=None):
        self.path = os.path.join(self.ROOT, name)
        self.remove()
        os.mkdir(self.path)
        if limit_bytes:
            write_text(f"{self.path}/{self.LIMIT}", str(limit_bytes))

    def remove(self):
        if not os.path.isdir(self.path):
            return
        # What is still charged after this stays with the parent; the drop before made it nothing.
        for _ in range(100):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{self.path}: processes are still in it")

    def enter(self):
        """For the child of a fork, before exec."""
        die_with_parent()
        write_text(f"{self.path}/cgroup.procs", str(os.getpid()))

    def memory(self):
        events = flat(read_text(f"{self.path}/memory.events"))
        peak = f"{self.path}/memory.peak"
        return {"current": int(read_text(f"{self.path}/memory.current")),
                "peak": int(read_text(peak)) if os.path.exists(peak) else None,
                "events_max": events["max"], "oom_kill": events["oom_kill"],
                "stat": flat(read_text(f"{self.path}/memory.stat"))}


class CgroupV1(Cgroup):
    """The same where the memory controller has a hierarchy of its own; failcnt counts hits of the limit."""

    ROOT = os.path.join(ROOT, "memory")
    LIMIT = "memory.limit_in_bytes"

    def memory(self):
        def number(name):
            return int(read_text(f"{self.path}/memory.{name}"))

        return {"current": number("usage_in_bytes"), "peak": number("max_usage_in_bytes"),
                "events_max": number("failcnt"),
                "oom_kill": flat(read_text(f"{self.path}/memory.oom_control")).get("oom_kill", 0),
                "stat": flat(read_text(f"{self.path}/memory.stat"))}


class Cpus(Cgroup):
    """Limits what its processes compute, as a container's limit does; v2."""

    CONTROLLERS = f"{ROOT}/cgroup.subtree_control"
    PERIOD_US = 20000  # shorter than a token takes

    @classmethod
    def is_here(cls):
        return os.path.exists(cls.CONTROLLERS) and "cpu" in read_text(cls.CONTROLLERS).split()

    def limit(self, cpus):
        write_text(f"{self.path}/cpu.max", f"{int(cpus * self.PERIOD_US)} {self.PERIOD_US}")


class CpusV1(Cpus):
    """The same where the controller has a hierarchy of its own."""

    ROOT = os.path.join(ROOT, "cpu")

    @classmethod
    def is_here(cls):
        return os.path.isdir(cls.ROOT)

    def limit(self, cpus):
        write_text(f"{self.path}/cpu.cfs_period_us", str(self.PERIOD_US))
        write_text(f"{self.path}/cpu.cfs_quota_us", str(int(cpus * self.PERIOD_US)))


def limited_cpus(name, cpus):
    """Returns a group that limits its processes to so many CPUs; None: no control group here can."""
    chosen = next((one for one in (CpusV1, Cpus) if one.is_here()), None)
    if chosen is None:
        return None
    group = chosen(name)
    group.limit(cpus)
    return group


def kind(root=ROOT):
    """The class for this machine; None: nobody here can limit memory."""
    if os.path.exists(f"{root}/memory/memory.limit_in_bytes"):
        return CgroupV1
    controllers = f"{root}/cgroup.subtree_control"
    if os.path.exists(controllers) and "memory" in read_text(controllers).split():
        return Cgroup
    return None


def make(limit_bytes=None, prefix=PREFIX):
    """This program's group; those of its kind that were killed go."""
    chosen = kind()
    if chosen is None and limit_bytes:
        raise RuntimeError("no control group here can limit memory")
    chosen = chosen or Cgroup
    for path in glob.glob(os.path.join(chosen.ROOT, prefix + "[0-9]*")):
        if not os.path.exists("/proc/" + path.rpartition("-")[2]):
            try:
                os.rmdir(path)
            except OSError:
                pass  # somebody is still in it
    return chosen(f"{prefix}{os.getpid()}", limit_bytes)
