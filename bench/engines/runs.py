# SPDX-License-Identifier: Apache-2.0
"""One cold start of one program: its times, what the disk read, what the memory group says."""
import contextlib
import dataclasses
import os
import signal
import subprocess
import time

from demo import cgroup

from . import disk as disks
from .neighbours import nobody
from .store import SuiteError


@dataclasses.dataclass(frozen=True)
class Program:
    """command(store, directory): its words.  directory: of the model, below the mount."""
    command: object
    watcher: object
    directory: str = "model"
    unit: str = "token"
    workers: int = 1
    environment: dict = dataclasses.field(default_factory=dict)
    limit_s: int = 300


BASE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "2",
        "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def environment(store, program, way):
    home = store.path("home")
    os.makedirs(home, exist_ok=True)
    return {**BASE, "HOME": home, "TMPDIR": "/tmp", **program.environment, **way.environment()}


def started(store, program, words, way, box, log):
    """Its Outcome and exit status."""
    begin = time.monotonic()
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(store, program, way), cwd=store.path("home"), preexec_fn=box.enter,
                          start_new_session=True) as process:
        try:
            outcome = program.watcher.follow(process, begin, program.limit_s, log, way.ready)
            process.wait(60)
            total_s = time.monotonic() - begin
            way.ended()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return outcome, process.returncode, total_s


def execute(store, program, way, disk, limit_bytes=None, name="run", neighbour=None):
    """A dict of plain values.  disk is mounted; the way has been entered; the neighbour is there meanwhile."""
    directory = os.path.join(disk.mount, program.directory)
    words = [*way.prefix(), *program.command(store, directory)]
    disks.make_cold(directory)
    os.makedirs(store.path("logs"), exist_ok=True)
    box = cgroup.make(limit_bytes, "ppc-engines-")
    disk.check()
    counters = disk.counters()
    before = counters.read_bytes(), counters.requests()
    try:
        with open(store.path("logs", f"{name}.log"), "wb") as log, (neighbour or nobody)(directory):
            outcome, status, total_s = started(store, program, words, way, box, log)
        memory = box.memory()
    finally:
        box.remove()
    disk.check()
    if memory["oom_kill"]:
        raise SuiteError(f"{name}: out of memory with {limit_bytes >> 20} MiB")
    if status != 0 and not outcome.was_ended or outcome.ready_s is None or not outcome.digest:
        raise SuiteError(f"{name}: status {status}; see {store.path('logs', name)}.log")
    return {"ready_s": round(outcome.ready_s, 3), "total_s": round(total_s, 3),
            "steps_ms": [round(step, 3) for step in outcome.steps_ms],
            "notes": {key: round(value, 3) for key, value in outcome.notes.items()},
            "disk_bytes": counters.read_bytes() - before[0], "requests": counters.requests() - before[1],
            "hits": memory["events_max"], "peak": memory["peak"], "digest": outcome.digest,
            "ahead_bytes": way.ahead_bytes(),
            "load": os.getloadavg()[0], "at": int(time.time())}


def line(name, found, unit="token"):
    """One start for people."""
    steps = found["steps_ms"]
    mean = f", {sum(steps) / len(steps):,.1f} ms per {unit}" if steps else ""
    ahead = "" if found["ahead_bytes"] is None else f", {found['ahead_bytes'] / (1 << 20):,.0f} MiB loaded ahead"
    return (f"{name}: ready {found['ready_s']:.1f} s{mean}, {found['disk_bytes'] / (1 << 20):,.0f} MiB read, "
            f"{found['hits']:,} hits of the limit, {found['total_s']:.1f} s in all{ahead}, output {found['digest']}")
