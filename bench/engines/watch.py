# SPDX-License-Identifier: Apache-2.0
"""What a program under way tells: when it is ready, how long each step takes, what it computed.

A watcher has one method, follow(process, started, limit_s, log, ready): an Outcome.  The process has pipes for stdout
and stderr, started is its exec in CLOCK_MONOTONIC, and ready is called once, when the program can compute.
"""
import dataclasses
import hashlib
import os
import re
import selectors
import time

from .store import SuiteError


@dataclasses.dataclass
class Outcome:
    ready_s: float = None  # from exec until it can compute
    steps_ms: list = dataclasses.field(default_factory=list)  # tokens or inferences after that
    digest: str = ""  # of all outputs
    notes: dict = dataclasses.field(default_factory=dict)  # other times that the program tells, in seconds


def short(data):
    return hashlib.sha256(data).hexdigest()[:12]


class Pipes:
    """Both outputs as they come, until they are closed; take(name, data, now) for each piece."""

    def __init__(self, process, started, limit_s):
        self.process, self.until, self.limit_s = process, started + limit_s, limit_s
        self.started = started

    def drain(self, take, stop=lambda: False):
        selector = selectors.DefaultSelector()
        for name in ("stdout", "stderr"):
            stream = getattr(self.process, name)
            if not stream.closed:
                selector.register(stream, selectors.EVENT_READ, name)
        with selector:
            while selector.get_map() and not stop():
                left = self.until - time.monotonic()
                if left <= 0:
                    raise SuiteError(f"not done after {self.limit_s} s")
                for key, _ in selector.select(min(left, 0.2)):
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        selector.unregister(key.fileobj)
                    else:
                        take(key.data, data, time.monotonic() - self.started)


class Lines:
    """Of the suite's own scripts: READY, `STEP MILLISECONDS`, `NOTE NAME SECONDS`, `DIGEST HEX`, one a line."""

    def follow(self, process, started, limit_s, log, ready):
        outcome, rest = Outcome(), b""

        def take(name, data, now):
            nonlocal rest
            log.write(data)
            if name == "stdout":
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    told(outcome, line.decode(errors="replace"), now)
                    if line == b"READY":
                        ready()

        Pipes(process, started, limit_s).drain(take)
        return outcome


def told(outcome, line, now):
    word, _, value = line.partition(" ")
    if word == "READY":
        outcome.ready_s = now
    elif word == "STEP":
        outcome.steps_ms.append(float(value))
    elif word == "NOTE":
        name, _, seconds = value.partition(" ")
        outcome.notes[name] = float(seconds)
    elif word == "DIGEST":
        outcome.digest = value


EVALUATED = re.compile(r" eval time = +([0-9.]+) ms / +([0-9]+) runs")


class Completion:
    """llama-completion: ready when the first text comes, the mean time of a token from its own account."""

    def follow(self, process, started, limit_s, log, ready):
        outcome, text = Outcome(), {"stdout": b"", "stderr": b""}

        def take(name, data, now):
            log.write(data)
            text[name] += data
            if name == "stdout" and outcome.ready_s is None:
                outcome.ready_s = now
                ready()

        Pipes(process, started, limit_s).drain(take)
        found = EVALUATED.search(text["stderr"].decode(errors="replace"))
        if found:
            outcome.steps_ms = [float(found[1]) / int(found[2])]
        outcome.digest = short(text["stdout"])
        return outcome
