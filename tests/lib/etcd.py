# SPDX-License-Identifier: Apache-2.0
"""What suites with a real etcd share: one of their own, waiting, checks that are told, and the end of processes."""
import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

results = []


def check(name, is_good, why=""):
    results.append(is_good)
    print(f"ok {name}" if is_good else f"not ok {name} - {why}", flush=True)


def verdict():
    """The exit status."""
    print(f"{sum(results)} of {len(results)} passed")
    return 0 if all(results) else 1


def refuses(suite, programs, path, what_root_does):
    """Says why this host cannot, if so."""
    why = next((f"no {program}" for program in programs if shutil.which(program, path=path) is None), "")
    if not why and os.geteuid() != 0:
        why = f"root alone {what_root_does}"
    if why:
        print(f"skip {suite} - this host cannot: {why}")
    return bool(why)


def wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.2)
    return False


def end(process):
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
            return
        process.kill()
    process.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Etcd:
    """It lives until the stack unwinds.  url: where nodes reach it."""

    def __init__(self, stack, data, url=""):
        self.url, peer = url or f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        with open(f"{data}.log", "ab") as log:
            self.process = subprocess.Popen(
                ["etcd", "--data-dir", data, "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
                 f"default={peer}"], stdout=log, stderr=log)
        stack.callback(end, self.process)

    def ask(self, path, request):
        body = urllib.request.Request(self.url + path, json.dumps(request).encode())
        with urllib.request.urlopen(body, timeout=2) as reply:
            return json.loads(reply.read())

    def put(self, key, value, lease="0"):
        def text(raw):
            return base64.b64encode(raw).decode()
        return self.ask("/v3/kv/put", {"key": text(key.encode()), "value": text(value), "lease": lease})

    def is_up(self):
        with contextlib.suppress(OSError, urllib.error.URLError):
            return bool(self.put("ping", b"PING"))
        return False
