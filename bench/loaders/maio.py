# SPDX-License-Identifier: Apache-2.0
"""A private ppcd for one run, with MAIO on the slow disk by the observer."""
import glob
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

from . import environment
from .environment import BUILD, OUT, SuiteError

BIN = os.path.join(BUILD, "bin")
POLICIES = os.path.join(BUILD, "policies")
STATE = os.path.join(OUT, "ppcd")
PROGRAMS = ("ppcd", "ppc-runner", "ppcctl")


def why_not():
    """Why MAIO cannot run here, or an empty text."""
    missing = [name for name in PROGRAMS if not os.access(f"{BIN}/{name}", os.X_OK)]
    if missing or not os.path.exists(f"{POLICIES}/libppc_maio.so"):
        return f"build/bin lacks {', '.join(missing) or 'the policies'}; build first (tools/test does)"
    said = subprocess.run([f"{BIN}/ppcctl", "reg_policy", "--help"], capture_output=True, text=True, check=False)
    if "--backend" not in said.stdout:
        return "this build has no observer (reg_policy knows no --backend)"
    return ""


def fingerprint():
    """Of the programs whose runs are to be compared."""
    total = hashlib.sha256()
    for path in [*(f"{BIN}/{name}" for name in PROGRAMS), f"{POLICIES}/libppc_maio.so",
                 *sorted(glob.glob(f"{BUILD}/lib/*observer*"))]:
        with open(path, "rb") as file:
            total.update(file.read())
    return total.hexdigest()[:16]


class Maio:
    """Context manager: ppcd with MAIO on a directory.  templates: the directory that it learns into."""

    def __init__(self, directory, templates, backend="observer"):
        self.directory, self.templates, self.backend = directory, templates, backend
        self.environment = {**os.environ, "PPC_SOCKET": f"{STATE}/sock", "PPC_RUNNER": f"{BIN}/ppc-runner",
                            "PPC_POLICY_DIR": POLICIES}
        self.daemon = None

    def __enter__(self):
        shutil.rmtree(STATE, ignore_errors=True)
        os.makedirs(f"{STATE}/state", mode=0o700)
        os.makedirs(self.templates, mode=0o700, exist_ok=True)
        with open(f"{OUT}/ppcd.log", "a", encoding="utf-8") as log:
            self.daemon = subprocess.Popen(
                [f"{BIN}/ppcd", "--socket", f"{STATE}/sock", "--state-dir", f"{STATE}/state",
                 "--template-dir", self.templates], stdout=log, stderr=log, env=self.environment)
        try:
            self._wait()
            self.ctl("reg_policy", self.directory, "maio", "--backend", self.backend)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.daemon.poll() is None:
            subprocess.run([f"{BIN}/ppcctl", "rm_policy", self.directory], env=self.environment,
                           capture_output=True, check=False)
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(20)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()

    def _wait(self):
        for _ in range(100):
            if self.daemon.poll() is not None:
                raise SuiteError(f"ppcd ended with status {self.daemon.returncode}; see build/loaders/ppcd.log")
            if self._try("list").returncode == 0:
                return
            time.sleep(0.05)
        raise SuiteError("ppcd does not answer; see build/loaders/ppcd.log")

    def _try(self, *words):
        return subprocess.run([f"{BIN}/ppcctl", *words], env=self.environment, capture_output=True, text=True,
                              check=False)

    def ctl(self, *words):
        done = self._try(*words)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise SuiteError(f"ppcctl {words[0]}: {said[-1]}")
        return done.stdout

    def status(self):
        return json.loads(self.ctl("status", "--json", self.directory))

    def prefix(self, service):
        """Before a loader's command: the same service at each start, ready when the loader says so."""
        words = [f"{key}={self.environment[key]}" for key in ("PPC_SOCKET",)]
        return ["/usr/bin/env", *words, f"{BIN}/ppcctl", "run", "--required", "--id", service, "--workers", "1",
                "--ready-on", "READY", self.directory, "--"]


def load_ahead(directory, templates, service, counters, limit_s=60):
    """Starts the service without a loader; returns when MAIO loads no more.  The disk's bytes say when."""
    with Maio(directory, templates) as maio:
        waiter = subprocess.Popen([*maio.prefix(service), "sleep", str(limit_s)], stdout=subprocess.DEVNULL)
        try:
            quiet, last, deadline = 0, counters.read_bytes(), time.monotonic() + limit_s
            while quiet < 12 and time.monotonic() < deadline:
                time.sleep(0.25)
                now = counters.read_bytes()
                quiet, last = (quiet + 1 if now == last else 0), now
        finally:
            waiter.send_signal(signal.SIGTERM)
            waiter.wait()


def template_store(loader, kind):
    return os.path.join(environment.OUT, "templates", f"{loader.name}-{kind}")
