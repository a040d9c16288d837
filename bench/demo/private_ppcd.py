# SPDX-License-Identifier: Apache-2.0
"""A ppcd for one run: socket, state and templates in a folder of its own, gone with this program."""
import contextlib
import glob
import hashlib
import json
import os
import signal
import subprocess
import time

from . import machine

PROGRAMS = ("ppcd", "ppc-runner", "ppcctl")


class PpcError(Exception):
    """A part of the project refused or failed; one line."""


def missing(build):
    """What a build tree lacks for it."""
    lacks = [name for name in PROGRAMS if not os.access(f"{build}/bin/{name}", os.X_OK)]
    return lacks if os.path.exists(f"{build}/policies/libppc_maio.so") else [*lacks, "libppc_maio.so"]


def fingerprint(build):
    """Of the programs whose runs are to be compared."""
    total = hashlib.sha256()
    for path in [*(f"{build}/bin/{name}" for name in PROGRAMS), f"{build}/policies/libppc_maio.so",
                 *sorted(glob.glob(f"{build}/lib/*observer*"))]:
        with open(path, "rb") as file:
            total.update(file.read())
    return total.hexdigest()


def variables(work, build="", templates=""):
    """The environment of a private ppcd and of what talks to it.  build: "" for what PATH has."""
    own = {"PPC_SOCKET": f"{work}/ppcd.sock", "PPC_TEMPLATE_DIR": templates or f"{work}/templates"}
    if build:
        own |= {"PATH": f"{build}/bin:{os.environ['PATH']}:/sbin:/usr/sbin", "PPC_RUNNER": f"{build}/bin/ppc-runner",
                "PPC_POLICY_DIR": f"{build}/policies"}
    return os.environ | own


class Daemon:
    """Context manager: a ppcd that this program starts.  error: what is raised, with a line.  inside: before each command."""

    def __init__(self, log, *options, environment=None, error=PpcError, limit_s=20, inside=()):
        self.log, self.options, self.environment = log, options, environment
        self.error, self.limit_s, self.inside = error, limit_s, inside
        self.process = self.registered = None

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([*self.inside, "ppcd", *self.options], env=self.environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=machine.die_with_parent)
        deadline = time.monotonic() + self.limit_s
        while self.ask("list").returncode:
            if self.process.poll() is not None:
                raise self.error(f"ppcd ended with status {self.process.returncode}; see {self.log}")
            if time.monotonic() > deadline:
                self.stop()
                raise self.error(f"ppcd does not answer; see {self.log}")
            time.sleep(0.05)

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGCONT)
        if self.registered:
            self.ask("rm_policy", self.registered)
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def ask(self, *words):
        """ppcctl, whatever it says."""
        try:
            return subprocess.run([*self.inside, "ppcctl", *words], env=self.environment, capture_output=True,
                                  text=True, errors="replace", check=False, timeout=100)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, 1, "", f"{words[0]}: no answer in 100 s")

    def ctl(self, *words):
        """What ppcctl says; an error where it fails."""
        done = self.ask(*words)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise self.error(f"ppcctl {words[0]}: {said[-1]}")
        return done.stdout

    def register(self, directory, policy, config=None, backend="observer"):
        """In place of the policy before, so that nothing is remembered from earlier runs but templates."""
        self.remove()
        how = ["--backend", backend] if backend else []
        self.ctl("reg_policy", *how, directory, policy, *([] if config is None else [json.dumps(config)]))
        self.registered = directory

    def remove(self):
        if self.registered:
            self.ctl("rm_policy", self.registered)
        self.registered = None

    def serve(self, *registration, **options):
        """Starts, and registers; leaves nothing behind where that fails."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.stop)
            self.start()
            self.register(*registration, **options)
            stack.pop_all()
        return self

    def status_of(self, directory):
        return json.loads(self.ctl("status", "--json", directory))


class Ppcd(Daemon):
    """The same with all that it owns in `work`."""

    def __init__(self, work, build="", templates="", environment=None, **options):
        super().__init__(f"{work}/ppcd.log", "--state-dir", f"{work}/state",
                         environment=environment or variables(work, build, templates), **options)
        self.work, self.templates = work, self.environment["PPC_TEMPLATE_DIR"]

    def start(self):
        for folder in (f"{self.work}/state", self.templates):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        super().start()
