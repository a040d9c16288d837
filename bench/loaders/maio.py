# SPDX-License-Identifier: Apache-2.0
"""A private ppcd for one run, with MAIO on the slow disk by the observer."""
import os
import shutil
import signal
import subprocess
import time

from demo import private_ppcd

from . import environment
from .environment import BUILD, OUT, SuiteError

BIN = os.path.join(BUILD, "bin")
STATE = os.path.join(OUT, "ppcd")


def why_not():
    """Why MAIO cannot run here, or an empty text."""
    if missing := private_ppcd.missing(BUILD):
        return f"build lacks {', '.join(missing)}; build first (tools/test does)"
    said = subprocess.run([f"{BIN}/ppcctl", "reg_policy", "--help"], capture_output=True, text=True, check=False)
    if "--backend" not in said.stdout:
        return "this build has no observer (reg_policy knows no --backend)"
    return ""


def fingerprint():
    """Of the programs whose runs are to be compared."""
    return private_ppcd.fingerprint(BUILD)[:16]


class Maio:
    """Context manager: ppcd with MAIO on a directory.  templates: the directory that it learns into."""

    def __init__(self, directory, templates, backend="observer"):
        self.directory, self.backend = directory, backend
        self.ppcd = private_ppcd.Ppcd(STATE, BUILD, templates, error=SuiteError)

    def __enter__(self):
        shutil.rmtree(STATE, ignore_errors=True)
        os.makedirs(STATE, mode=0o700)
        self.ppcd.serve(self.directory, "maio", backend=self.backend)
        return self

    def __exit__(self, *_):
        self.ppcd.stop()

    def status(self):
        return self.ppcd.status_of(self.directory)

    def prefix(self, service):
        """Before a loader's command: the same service at each start, ready when the loader says so."""
        return ["/usr/bin/env", f"PPC_SOCKET={self.ppcd.environment['PPC_SOCKET']}", f"{BIN}/ppcctl", "run",
                "--required", "--id", service, "--workers", "1", "--ready-on", "READY", self.directory, "--"]


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
