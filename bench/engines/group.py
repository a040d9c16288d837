# SPDX-License-Identifier: Apache-2.0
"""The memory group of one run."""
import glob
import os

from demo import cgroup

PREFIX = "ppc-engines-"


def make(limit_bytes=None):
    """Those of runs that were killed go."""
    chosen = cgroup.kind()
    if chosen is None:
        raise RuntimeError("this machine's groups do not limit memory; none of these runs can be made here")
    for path in glob.glob(os.path.join(chosen.ROOT, PREFIX + "[0-9]*")):
        if not os.path.exists("/proc/" + path.rpartition("-")[2]):
            try:
                os.rmdir(path)
            except OSError:
                pass  # a process is still in it
    return chosen(f"{PREFIX}{os.getpid()}", limit_bytes)
