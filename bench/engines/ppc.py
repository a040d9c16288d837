# SPDX-License-Identifier: Apache-2.0
"""How a program is started: natively, by ppcctl run, beside a plain registration, or as the paper does.

A way is a context manager around the starts of one program in one directory.  It gives the words before the
command, the variables, and what is to be done when the program is ready.  Each has a ppcd of its own, if any.
"""
import glob
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

from .store import Missing, SuiteError

PROGRAMS = ("ppcd", "ppc-runner", "ppcctl")


class Build:
    """The programs of one build directory."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.bin, self.policies = os.path.join(self.folder, "bin"), os.path.join(self.folder, "policies")

    def check(self):
        missing = [name for name in PROGRAMS if not os.access(f"{self.bin}/{name}", os.X_OK)]
        if not os.path.exists(f"{self.policies}/libppc_maio.so"):
            missing.append("libppc_maio.so")
        if missing:
            raise Missing(f"{self.folder} lacks {', '.join(missing)}; build it or give another --build")

    def key(self):
        """Of all that is measured."""
        total = hashlib.sha256()
        for path in [*(f"{self.bin}/{name}" for name in PROGRAMS), f"{self.policies}/libppc_maio.so",
                     *sorted(glob.glob(f"{self.folder}/lib/*observer*"))]:
            with open(path, "rb") as file:
                total.update(file.read())
        return total.hexdigest()[:12]


class Native:
    NAME = "native"

    def __init__(self, build, folder, directory, workers=1):
        self.build, self.folder, self.directory, self.workers = build, folder, directory, workers
        self.socket = os.path.join(folder, "sock")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def environment(self):
        return {}

    def prefix(self):
        return []

    def ready(self):
        """The program is ready."""

    def ended(self):
        """The program has ended; the next start may follow."""

    def ahead_bytes(self):
        """What was loaded ahead of the last start; None: not known."""


class Plain(Native):
    """`ppcctl reg_policy DIR maio`, and the command as it is."""
    NAME = "plain"
    CONFIG = None

    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        self.daemon = None
        self.loaded = 0  # before the last start

    def _variables(self):
        return {"PPC_SOCKET": self.socket, "PPC_RUNNER": f"{self.build.bin}/ppc-runner",
                "PPC_POLICY_DIR": self.build.policies, "PPC_TEMPLATE_DIR": f"{self.folder}/templates"}

    def _fresh(self):
        self.build.check()
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("state", "templates"):
            os.makedirs(f"{self.folder}/{name}", mode=0o700)

    def __enter__(self):
        self._fresh()
        with open(f"{self.folder}/ppcd.log", "w", encoding="utf-8") as log:
            self.daemon = subprocess.Popen(
                [f"{self.build.bin}/ppcd", "--socket", self.socket, "--state-dir", f"{self.folder}/state",
                 "--template-dir", f"{self.folder}/templates"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self._variables()})
        try:
            self._wait()
            words = [json.dumps(self.CONFIG | {"workers": self.workers})] if self.CONFIG else []
            self.ctl("reg_policy", "--backend", "observer", self.directory, "maio", *words)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.daemon.poll() is None:
            self._try("rm_policy", self.directory)
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(20)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()

    def status(self):
        return json.loads(self.ctl("status", "--json", self.directory))

    def ended(self):
        """Its processes' end is seen, and what was learnt is stored."""
        time.sleep(1)

    def ahead_bytes(self):
        loaded, self.loaded = self.loaded, loaded_bytes(self.status())
        return self.loaded - loaded

    def _wait(self):
        for _ in range(200):
            if self.daemon.poll() is not None:
                raise SuiteError(f"ppcd ended with status {self.daemon.returncode}; see {self.folder}/ppcd.log")
            if self._try("list").returncode == 0:
                return
            time.sleep(0.05)
        raise SuiteError(f"ppcd does not answer; see {self.folder}/ppcd.log")

    def _try(self, *words):
        return subprocess.run([f"{self.build.bin}/ppcctl", *words], env={**os.environ, **self._variables()},
                              capture_output=True, text=True, check=False)

    def ctl(self, *words):
        done = self._try(*words)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise SuiteError(f"ppcctl {words[0]}: {said[-1]}")
        return done.stdout


class Paper(Plain):
    """The registration names the service; `service ready` ends its load."""
    NAME = "paper"
    SERVICE = "engine"
    CONFIG = {"service_id": SERVICE}

    def ready(self):
        self.ctl("service", "ready", "--id", self.SERVICE, self.directory)


class Run(Plain):
    """`ppcctl run DIR -- COMMAND` with a ppcd for the life of the command; templates stay between starts."""
    NAME = "run"

    def __enter__(self):
        self._fresh()
        return self

    def __exit__(self, *_):
        pass

    def environment(self):
        return self._variables()

    def ended(self):
        pass  # its ppcd is gone

    def ahead_bytes(self):
        """Its ppcd cannot be asked any more."""

    def prefix(self):
        return [f"{self.build.bin}/ppcctl", "run", self.directory, "--"]


def loaded_bytes(status):
    """All that policies had loaded, of `ppcctl status --json`."""
    if isinstance(status, list):
        return sum(loaded_bytes(one) for one in status)
    if not isinstance(status, dict):
        return 0
    return sum(value if key == "loaded" and isinstance(value, int) else loaded_bytes(value)
               for key, value in status.items())


WAYS = {way.NAME: way for way in (Native, Run, Plain, Paper)}
