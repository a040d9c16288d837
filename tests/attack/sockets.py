#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests that nobody sane sends, to ppcd's two sockets and to a runner's: every line is answered, in order, by one
JSON object; nothing dies, hangs or grows, and the services' socket does nothing that is root's.  On this machine, with
programs from PATH and directories of its own.

usage: sockets.py [count=N] [seed=N] [minutes=N] [state=FILE] [ppcd|service|runner]...
(count: lines to each, default 1000000; minutes: it ends sooner than that, default 28, and with the same state, programs and
count the next run goes on, unless a seed is given)
"""
import copy
import hashlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

BATCH = 256  # lines in flight: fewer than what a socket's buffers keep
SILENCE_S = 60  # longer without an answer is a hang
GROWTH_BYTES = 4 << 20  # of what a process keeps, between the first lines and the end
SETTLED = 50000  # lines after which nothing is to grow
MOST_LINE = 256 << 10  # of the protocol
MOST_SERVICE_LINE = 16 << 10  # on the services' socket
ROOTS = ("reg_policy", "rm_policy", "policy", "list", "log", "metrics")  # nobody else's


class Wrong(Exception):
    pass


VALUES = (None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 1e308, -0.0, "", " ", "\0", "a" * 300, "../..",
          "/proc/self/fd/0", "/proc", "\u202e", "\ud7ff", [], {}, [[]], {"": {}}, [1, "2", None], ["a"] * 500)


def valid_requests(directory):
    """One of each op, right as it stands, but for those that would end the session."""
    mount = {"v": 1, "mount": directory}
    service = {**mount, "service_id": "svc-fuzz"}
    return [
        {"v": 1, "op": "ping"}, {"v": 1, "op": "list"}, {**mount, "op": "status"},
        {"v": 1, "op": "service_id", "params": {"model": "m", "tp": 2}},
        {**service, "op": "service_start", "workers": 2, "xpus": [0], "pid": 0},
        {**mount, "op": "service_start", "params": {"model": "m"}},
        {**service, "op": "service_ready"}, {**service, "op": "service_stop"},
        {**mount, "op": "policy", "message": {"op": "explain_pid", "pid": 1}},
        {**mount, "op": "policy", "message": {"op": "bind_pid", "pid": 1, "worker": 0, "service_id": "svc-fuzz"}},
        {"v": 1, "op": "reg_policy", "mount": directory + "/none", "policy": "maio", "config": {"distance": "1G"}},
        {"v": 1, "op": "rm_policy", "mount": directory + "/none"},
    ]


def runner_requests():
    service = {"service_id": "svc-fuzz"}
    return [
        {"v": 1, "op": "status"},
        {"v": 1, "op": "control", "message": {**service, "op": "service_start", "service": 1, "workers": 2, "xpus": [0]}},
        {"v": 1, "op": "control", "message": {**service, "op": "service_ready", "service": 1}},
        {"v": 1, "op": "control", "message": {**service, "op": "service_stop", "service": 1}},
        {"v": 1, "op": "control", "message": {"op": "explain_pid", "pid": 1}},
        {"v": 1, "op": "control", "message": {"op": "unheard-of"}},
        {"v": 1, "op": "init", "mount": "/", "policy": "/none", "config": {}, "template_dir": "/none"},
    ]


class Mutator:
    def __init__(self, seed, seeds):
        self.random, self.seeds = random.Random(seed), seeds

    def value(self, depth=0):
        if depth < 3 and self.random.random() < 0.2:
            return {self.key(): self.value(depth + 1) for _ in range(self.random.randrange(4))}
        return copy.deepcopy(self.random.choice(VALUES))

    def key(self):
        return self.random.choice(("op", "v", "mount", "params", "pid", "workers", "xpus", "message", "config", "x", ""))

    def place(self, node):
        """A container within node, and one of its keys."""
        while True:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            if not keys:
                return None
            at = self.random.choice(list(keys))
            if not isinstance(node[at], (dict, list)) or not node[at] or self.random.random() < 0.5:
                return node, at
            node = node[at]

    def line(self):
        request = json.loads(json.dumps(self.random.choice(self.seeds)))
        kind = self.random.random()
        if kind < 0.05:
            pass  # right as it is
        elif kind < 0.75:
            for _ in range(self.random.randrange(1, 4)):
                spot = self.place(request)
                if spot is None:
                    break
                node, at = spot
                what = self.random.random()
                if what < 0.3:
                    del node[at]
                elif what < 0.8:
                    node[at] = self.value()
                elif isinstance(node, dict):
                    node[self.key()] = self.value()
        text = json.dumps(request, ensure_ascii=self.random.random() < 0.5).encode("utf-8", "surrogatepass")
        if kind >= 0.75:
            raw = bytearray(text)
            for _ in range(self.random.randrange(1, 5)):
                if not raw:
                    break
                at = self.random.randrange(len(raw))
                what = self.random.randrange(4)
                if what == 0:
                    raw[at] = self.random.randrange(256)
                elif what == 1:
                    del raw[at:at + self.random.randrange(1, 20)]
                elif what == 2:
                    raw[at:at] = raw[at:at + 10]
                else:
                    raw[at:at] = self.random.choice((b"[" * 2000, b'{"a":' * 500, b"1" * 500, b"\\ud800", b"1e999"))
            text = bytes(raw)
        # An empty line is no request.
        return text.replace(b"\n", b" ").replace(b"\r", b" ").strip() or b"{}"


class Lines:
    """A connection that sends lines and takes as many answers."""

    def __init__(self, connection):
        self.connection, self.buffer = connection, b""
        connection.settimeout(SILENCE_S)

    def answer(self):
        while b"\n" not in self.buffer:
            try:
                got = self.connection.recv(1 << 20)
            except TimeoutError:
                raise Wrong(f"no answer for {SILENCE_S} s") from None
            except ConnectionError:
                got = b""
            if not got:
                raise Wrong("the connection ended")
            self.buffer += got
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def exchange(self, lines, and_check=None):
        self.connection.sendall(b"\n".join(lines) + b"\n")
        for sent in lines:
            line = self.answer()
            while line.startswith(b'{"event"'):  # told without being asked
                line = self.answer()
            check(sent, line)
            if and_check:
                and_check(sent, line)


def check(sent, line):
    def wrong(why):
        raise Wrong(f"{why}: {line[:200]!r} to {sent[:200]!r}")
    try:
        answer = json.loads(line)
    except ValueError:
        wrong("no JSON")
    if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
        wrong("no answer with ok")
    if not answer["ok"]:
        error = answer.get("error")
        if not isinstance(error, str) or not error or "\n" in error or len(error) > 2000:
            wrong("no error of one line")


def kept_bytes(pid):
    """0 of a process that has ended: a runner is removed by a request that happens to be right."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            return next((int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0


def children(pid):
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


class Progress:
    """How many lines each has had, of the same programs; and when to stop for this time."""

    def __init__(self, count, seed, minutes, path):
        self.count, self.path = count, path
        self.end = time.monotonic() + 60 * minutes
        self.known = {"key": self._key(), "seed": seed}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                known = json.load(file)
            if known["key"] == self.known["key"]:
                self.known = {**known, "seed": known["seed"] + 1}  # other lines than before

    def _key(self):
        total = hashlib.sha256(str(self.count).encode())
        for path in (shutil.which("ppcd"), shutil.which("ppc-runner"), f"{policies()}/libppc_maio.so", __file__):
            with open(path, "rb") as file:
                total.update(file.read())
        return total.hexdigest()

    @property
    def seed(self):
        return self.known["seed"]

    def done(self, name):
        return self.known.get(name, 0)

    def is_over(self):
        return time.monotonic() > self.end

    def add(self, name, lines):
        self.known[name] = self.done(name) + lines
        if self.path:
            with open(f"{self.path}.new", "w", encoding="utf-8") as file:
                json.dump(self.known, file)
            os.rename(f"{self.path}.new", self.path)


def policies():
    return os.environ.get("PPC_POLICY_DIR") or "/usr/lib/ppc/policies"


def fuzz(name, progress, mutator, exchange, pids, most_line=MOST_LINE):
    """The batches; growth is checked from the first tenth on, which is no more than SETTLED."""
    early, done, left = {}, 0, progress.count - progress.done(name)
    settled = min(left // 10, SETTLED)
    while done < left and not progress.is_over():
        lines = [mutator.line() for _ in range(min(BATCH, left - done))]
        exchange([line[:most_line - 1] for line in lines])
        if done <= settled < done + len(lines):
            early = {pid: kept for pid in pids() if (kept := kept_bytes(pid))}
        done += len(lines)
        progress.add(name, len(lines))
    for pid, before in early.items():
        if (kept := kept_bytes(pid)) > before + GROWTH_BYTES:
            raise Wrong(f"process {pid} grew from {before} to {kept} bytes in {done} lines")
    if progress.done(name) >= progress.count:
        print(f"ok sockets/{name}", flush=True)
    else:
        print(f"skip sockets/{name} - so far {progress.done(name)} of {progress.count} lines; run it again", flush=True)


def connect(path):
    end = time.monotonic() + 20
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
            return connection
        except OSError:
            connection.close()
            if time.monotonic() > end:
                raise Wrong("ppcd does not listen") from None
            time.sleep(0.05)


def check_right(sent, line):
    """What is root's alone has not been done."""
    try:
        request = json.loads(sent)
    except (ValueError, RecursionError):
        return
    if isinstance(request, dict) and request.get("op") in ROOTS and json.loads(line)["ok"]:
        raise Wrong(f"done for anybody: {sent[:200]!r}")


def fuzz_ppcd(progress, top, is_service=False):
    directory = os.path.join(top, "models")
    os.makedirs(directory)
    with open(os.path.join(directory, "file"), "wb") as file:
        file.write(bytes(1 << 20))
    path = os.path.join(top, "socket")
    with open(os.path.join(top, "log"), "wb") as log:
        daemon = subprocess.Popen(["ppcd", "--socket", path, "--state-dir", os.path.join(top, "state"),
                                   "--template-dir", os.path.join(top, "templates")], stderr=log)
    try:
        lines = Lines(connect(path))
        registration = json.dumps({"v": 1, "op": "reg_policy", "mount": directory, "policy": "maio"}).encode()
        lines.exchange([registration])
        name, right, most_line = "ppcd", None, MOST_LINE
        if is_service:
            admin, path = lines, os.path.join(top, "service", "ppcd.sock")
            lines, name, right, most_line = Lines(connect(path)), "service", check_right, MOST_SERVICE_LINE

        def exchange(batch):
            lines.exchange(batch, right)
            # Clients come and go beside, in the middle of a line too.
            other = connect(path)
            other.sendall(batch[0][:len(batch[0]) // 2])
            other.close()
            if daemon.poll() is not None:
                raise Wrong(f"ppcd ended with {daemon.returncode}")

        fuzz(name, progress, Mutator(progress.seed, valid_requests(directory)), exchange,
             lambda: [daemon.pid, *children(daemon.pid)], most_line)
        # Too long a line ends the connection, and only that.
        long_one = connect(path)
        try:
            long_one.sendall(b"x" * (2 * MOST_LINE))
            ended = long_one.recv(1 << 16)
        except ConnectionError:
            ended = b""
        lines.exchange([b'{"v": 1, "op": "ping"}'])
        if ended and b'"ok":false' not in ended:
            raise Wrong(f"a line that is too long was answered: {ended[:100]!r}")
        print(f"ok sockets/{name}-long-line", flush=True)
        if is_service:
            def is_there(_, line):
                if not json.loads(line).get("existing"):
                    raise Wrong("the registration is not the one that was there")
            admin.exchange([registration], is_there)
            print("ok sockets/service-leaves-what-is-root's", flush=True)
    finally:
        daemon.terminate()
        daemon.wait(20)


def fuzz_service(progress, top):
    fuzz_ppcd(progress, top, is_service=True)


def start_runner(top, policy_dir):
    ours, its = socket.socketpair()
    with open(os.path.join(top, "runner.log"), "ab") as log:
        runner = subprocess.Popen(["sh", "-c", f"exec ppc-runner 3<&{its.fileno()}"], pass_fds=[its.fileno()], stderr=log)
    its.close()
    lines = Lines(ours)
    lines.exchange([json.dumps({"v": 1, "op": "init", "mount": os.path.join(top, "models"), "backend": "poll",
                                "policy": os.path.join(policy_dir, "libppc_maio.so"), "config": {},
                                "template_dir": os.path.join(top, "templates"), "lent": {}}).encode()])
    return runner, lines


def fuzz_runner(progress, top):
    os.makedirs(os.path.join(top, "models"), exist_ok=True)
    runner, lines = start_runner(top, policies())
    try:
        def exchange(batch):
            lines.exchange(batch)
            if runner.poll() is not None:
                raise Wrong(f"the runner ended with {runner.returncode}")
        fuzz("runner", progress, Mutator(progress.seed, runner_requests()), exchange, lambda: [runner.pid])
        lines.exchange([b'{"v": 1, "op": "stop"}'])
        if runner.wait(20) != 0:
            raise Wrong(f"the runner ended with {runner.returncode} when it was told to stop")
        print("ok sockets/runner-stops", flush=True)
    finally:
        runner.kill()
        runner.wait()


def main(words):
    count, seed, minutes, state, which = 1000000, random.randrange(1 << 30), 28, "", []
    for word in words:
        if word.startswith("count="):
            count = int(word[6:])
        elif word.startswith("seed="):
            seed = int(word[5:])
        elif word.startswith("minutes="):
            minutes = float(word[8:])
        elif word.startswith("state="):
            state = word[6:]
        else:
            which.append(word)
    is_repeated = any(word.startswith("seed=") for word in words)
    progress = Progress(count, seed, minutes, "" if is_repeated else state)
    print(f"# seed={progress.seed}", flush=True)
    failed = False
    for name, attack in (("ppcd", fuzz_ppcd), ("service", fuzz_service), ("runner", fuzz_runner)):
        if which and name not in which:
            continue
        with tempfile.TemporaryDirectory(prefix="ppc-fuzz-", dir="/var/tmp") as top:
            try:
                attack(progress, top)
            except (Wrong, OSError) as error:
                failed = True
                print(f"not ok sockets/{name} - seed={progress.seed}: {error}", flush=True)
                for log in ("log", "runner.log"):
                    if os.path.exists(os.path.join(top, log)):
                        with open(os.path.join(top, log), "rb") as file:
                            print(b"\n".join(b"    " + line for line in file.read().splitlines()[-15:]).decode("utf-8", "replace"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
