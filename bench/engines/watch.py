# SPDX-License-Identifier: Apache-2.0
"""What a program under way tells: when it is ready, how long each step takes, what it computed.

A watcher has one method, follow(process, started, limit_s, log, ready): an Outcome.  The process has pipes for stdout
and stderr, started is its exec in CLOCK_MONOTONIC, and ready is called once, when the program can compute.
"""
import dataclasses
import hashlib
import json
import os
import re
import selectors
import signal
import threading
import time
import urllib.request

from .store import SuiteError


@dataclasses.dataclass
class Outcome:
    ready_s: float = None  # from exec until it can compute
    steps_ms: list = dataclasses.field(default_factory=list)  # tokens or inferences after that
    digest: str = ""  # of all outputs
    notes: dict = dataclasses.field(default_factory=dict)  # other times that the program tells, in seconds
    was_ended: bool = False  # by a signal, so that its status says nothing


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


class Logged:
    """Of programs that know nothing of the suite.  is_ready: what stderr says then; none: ready with the first text.
    step: an expression of its account, (milliseconds) in (number) steps.  The text on stdout is what it computed."""

    def __init__(self, step, is_ready=None):
        self.step, self.is_ready = re.compile(step), is_ready

    def follow(self, process, started, limit_s, log, ready):
        outcome, text = Outcome(), {"stdout": b"", "stderr": b""}

        def take(name, data, now):
            log.write(data)
            text[name] += data
            if outcome.ready_s is None and (self.is_ready in text["stderr"] if self.is_ready else text["stdout"]):
                outcome.ready_s = now
                ready()

        Pipes(process, started, limit_s).drain(take)
        found = self.step.search(text["stderr"].decode(errors="replace"))
        if found:
            outcome.steps_ms = [float(found[1]) / int(found[2])]
        outcome.digest = short(text["stdout"])
        return outcome



class Server:
    """Ready when its health answers; then asks it for texts one after the other, and ends it.

    ask: (path, body) of a request, answer(object): the text and its number of tokens.
    notes: {name: expression} of times in seconds that it writes to its log.
    """

    def __init__(self, port, health, ask, answer, requests=4, notes=None):
        self.address, self.health = f"http://127.0.0.1:{port}", health
        self.ask, self.answer, self.requests, self.notes = ask, answer, requests, notes or {}

    def follow(self, process, started, limit_s, log, ready):
        outcome, text = Outcome(), []

        def take(_, data, __):
            log.write(data)
            text.append(data)

        pipes = Pipes(process, started, limit_s)
        drain = threading.Thread(target=lambda: _until_closed(pipes, take), daemon=True)
        drain.start()
        self._wait(process, started, limit_s)
        outcome.ready_s = time.monotonic() - started
        ready()
        told_all = hashlib.sha256()
        for _ in range(self.requests):
            begin = time.monotonic()
            answer, tokens = self.answer(self._get(self.ask[0], self.ask[1], limit_s))
            outcome.steps_ms.append(1000 * (time.monotonic() - begin) / tokens)
            told_all.update(answer.encode())
        outcome.digest = told_all.hexdigest()[:12]
        process.send_signal(signal.SIGTERM)
        drain.join(60)
        whole = b"".join(text).decode(errors="replace")
        for name, expression in self.notes.items():
            found = re.search(expression, whole)
            if found:
                outcome.notes[name] = float(found[1])
        outcome.was_ended = True
        return outcome

    def _wait(self, process, started, limit_s):
        while True:
            try:
                self._get(self.health, None, 2)
                return
            except OSError:
                pass  # it does not listen yet, or says that it loads
            if process.poll() is not None:
                raise SuiteError(f"the server ended with status {process.returncode} before it was ready")
            if time.monotonic() > started + limit_s:
                raise SuiteError(f"the server is not ready after {limit_s} s")
            time.sleep(0.02)

    def _get(self, path, body, limit_s):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=limit_s) as answer:
            content = answer.read()
        return json.loads(content) if data else content


def _until_closed(pipes, take):
    try:
        pipes.drain(take)
    except SuiteError:
        pass  # whoever asks the server finds out
