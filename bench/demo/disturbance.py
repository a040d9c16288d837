# SPDX-License-Identifier: Apache-2.0
"""What others took of the CPUs while something was measured."""
import glob
import os
import time

KERNEL_THREAD = 0x00200000  # PF_KTHREAD
# More than this share of the CPUs, and times prove nothing.
TOLERATED = 0.05
# Bandwidths of one disk that are further apart were not measured on the same disk, so to speak.
DISK_TOLERATED = 0.05


def parse_stat(text):
    """(pid, parent, is a kernel thread, CPU ticks with those of ended children) of /proc/PID/stat."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return (int(head.split()[0]), int(fields[1]), bool(int(fields[6]) & KERNEL_THREAD),
            sum(map(int, fields[11:15])))


def foreign_ticks(processes, ours):
    """Sum over the processes that are neither of the kernel nor below one of ours."""
    parents = {pid: parent for pid, parent, _, _ in processes}

    def is_ours(pid):
        for _ in range(len(parents) + 1):
            if pid in ours:
                return True
            if pid not in parents:
                return False
            pid = parents[pid]
        return False

    return sum(ticks for pid, _, is_kernel, ticks in processes if not is_kernel and not is_ours(pid))


def _processes():
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                found.append(parse_stat(file.read()))
        except OSError:
            continue  # it has ended
    return found


def _stolen_ticks():
    with open("/proc/stat", encoding="utf-8") as file:
        fields = file.readline().split()
    return int(fields[8]) if len(fields) > 8 else 0


class Watch:
    """From its making to end().  A process that ends meanwhile counts through its parent, which gets its
    time; one that nobody waits for is missed."""

    def __init__(self, ours):
        self.ours = set(ours)
        self.started = time.monotonic()
        self.before = self._now()

    def _now(self):
        return foreign_ticks(_processes(), self.ours), _stolen_ticks()

    def end(self):
        """{"others", "stolen"}: shares of all CPUs' time."""
        wall = max(time.monotonic() - self.started, 1e-3)
        whole = wall * os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
        others, stolen = (max(0, now - before) / whole
                          for now, before in zip(self._now(), self.before))
        return {"others": others, "stolen": stolen}


def share(run):
    """What was taken from a run in all; 0 where nobody watched."""
    taken = run.get("disturbance") or {}
    return taken.get("others", 0.0) + taken.get("stolen", 0.0)


def is_disturbed(run):
    return share(run) > TOLERATED


def disk_doubt(measured, wanted=None):
    """Why one disk's measured bandwidths (bytes per second) cannot judge, or ""."""
    if not measured:
        return ""
    low, high = min(measured), max(measured)
    if wanted and low < (1 - DISK_TOLERATED) * wanted:
        return f"the disk gave {low / 1e6:.0f} MB/s of the {wanted / 1e6:.0f} it was set to"
    if low < (1 - DISK_TOLERATED) * high:
        return f"the disk gave {low / 1e6:.0f} to {high / 1e6:.0f} MB/s"
    return ""
