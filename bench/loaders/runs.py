# SPDX-License-Identifier: Apache-2.0
"""One cold run of one loader: started, timed, its output taken, its reads counted."""
import glob
import hashlib
import os
import selectors
import signal
import subprocess
import time

from demo import machine

from . import environment
from .environment import ROOT, SuiteError

TIMEOUT_S = 240


def clear_tmp():
    for path in glob.glob(f"{ROOT}/tmp/*"):
        if os.path.isfile(path):
            os.unlink(path)


class Output:
    """Reads a process's output as it comes; knows when it said READY."""

    def __init__(self, process, started):
        self.process, self.started = process, started
        self.ready_s, self.text = None, {"stdout": "", "stderr": ""}

    def take(self, limit_s):
        selector = selectors.DefaultSelector()
        for name in self.text:
            selector.register(getattr(self.process, name), selectors.EVENT_READ, name)
        while selector.get_map():
            left = self.started + limit_s - time.monotonic()
            if left <= 0:
                raise SuiteError(f"not done after {limit_s} s")
            for key, _ in selector.select(left):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                self.text[key.data] += data.decode(errors="replace")
                if self.ready_s is None and "READY\n" in self.text["stdout"]:
                    self.ready_s = time.monotonic() - self.started
        self.process.wait()


def answer(loader, output):
    """What the loader computed, as text that must be the same in every cell."""
    if loader.state_file:
        path = f"{ROOT}/{loader.state_file}"
        if not os.path.exists(path) or os.path.getsize(path) == 0:
            return ""
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    return "".join(line for line in output["stdout"].splitlines() if line.startswith("DIGEST"))


def execute(loader, prefix=(), own=False, limit_s=TIMEOUT_S):
    """Runs the loader; prefix is put before its command.  Seconds from exec until it is done, and its answer."""
    clear_tmp()
    words, variables = loader.own if own else (loader.command, loader.environment)
    command = [*prefix, *environment.inside(words, variables)]
    started = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        output = Output(process, started)
        try:
            output.take(limit_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        seconds = time.monotonic() - started
    if process.returncode != 0:
        said = output.text["stderr"].strip().splitlines() or ["no message"]
        raise SuiteError(f"status {process.returncode}: {said[-1][:200]}")
    if loader.state_file is None:
        seconds = output.ready_s
    text = answer(loader, output.text)
    if seconds is None or not text:
        raise SuiteError("it ended without saying that it was done")
    return seconds, text


def timed_run(disk, loader, prefix=(), own=False):
    """On a disk that was made cold.  A dict: seconds, digest, bytes read, requests, how busy the machine was."""
    counters = disk.counters()
    bytes_before, requests_before, busy = counters.read_bytes(), counters.requests(), machine.cpu_busy_s()
    started = time.monotonic()
    seconds, digest = execute(loader, prefix, own)
    disk.check()
    return {"seconds": round(seconds, 3), "digest": digest,
            "disk_bytes": counters.read_bytes() - bytes_before,
            "requests": counters.requests() - requests_before,
            "cpu_busy": round((machine.cpu_busy_s() - busy) / (time.monotonic() - started) / os.cpu_count(), 2),
            "load": os.getloadavg()[0], "at": int(time.time())}
