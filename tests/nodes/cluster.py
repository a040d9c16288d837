# SPDX-License-Identifier: Apache-2.0
"""What the tests of several nodes stand on: which guest this is, meeting the other one, one line per result."""
import os
import socket
import subprocess
import time

INDEX = int(socket.gethostname().removeprefix("node"))
OTHER = 1 - INDEX
MEET = "/out"  # one directory of the host's, for both
LONG_S = 300  # no limit of what is tested, but of a machine that is busy


class Failed(Exception):
    """The rest cannot be run; one line."""


def run(*command, **words):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, **words)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise Failed(f"{command[0]}: {said[-1]}")
    return done.stdout.strip()


def succeeds(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def wait_for(what, condition, seconds=LONG_S):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"waited {seconds} s for {what}")
        if os.path.exists(f"{MEET}/failed.{OTHER}"):
            raise Failed(f"node {OTHER} failed")
        time.sleep(0.2)


def meet(name, seconds=LONG_S):
    """Returns when both are here."""
    with open(f"{MEET}/{name}.{INDEX}", "w", encoding="utf-8"):
        pass
    wait_for(f"node {OTHER} at '{name}'", lambda: os.path.exists(f"{MEET}/{name}.{OTHER}"), seconds)


def together(name, who, action):
    """One node does it while the other waits."""
    meet(f"{name}-before")
    if who == INDEX:
        action()
    meet(f"{name}-after")


class Results:
    """One line each; failed: so many were wrong."""

    def __init__(self):
        self.failed = 0

    def check(self, is_right, name, why=""):
        self.failed += not is_right
        print(f"{'ok' if is_right else 'not ok'} {name}/node{INDEX}{' - ' + str(why) if why and not is_right else ''}", flush=True)


def say(text):
    print(f"# node{INDEX}: {text}", flush=True)
