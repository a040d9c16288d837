# SPDX-License-Identifier: Apache-2.0
"""The folder with all that the suite unpacks, makes and runs on, and the commands that need it."""
import contextlib
import fcntl
import os
import subprocess

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
BUILD = os.path.join(TOP, "build")
INSIDE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "inside")


class SuiteError(Exception):
    """A run that cannot be had or does not count; one line."""


class Missing(SuiteError):
    """A program or a model that is not there: what needs it is skipped."""


class Store:
    """Below one folder; the runs of one process at a time use its disk."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.programs = self.path("bin")
        self.images = self.path("images")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    @contextlib.contextmanager
    def alone(self):
        """Waits until no other process runs on it."""
        os.makedirs(self.folder, exist_ok=True)
        with open(self.path("lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def program(self, name):
        """A program of the archive's, made to run outside of its suite."""
        found = os.path.join(self.programs, name)
        if not os.access(found, os.X_OK):
            raise Missing(self._why("programs") or f"{found} is not there (tests/all/engines unpacks it)")
        return found

    def python(self, site):
        """The interpreter of a virtual environment."""
        found = self.path("site", site, "bin", "python3")
        if not os.path.exists(self.path("site", site, ".complete")):
            raise Missing(self._why(site) or f"{self.path('site', site)} is not there (tests/all/engines unpacks it)")
        return found

    def _why(self, part):
        """What the unpacking said when it failed."""
        path = self.path(f"{part}.why")
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return (file.read().strip().splitlines() or [""])[-1]


def quietly(command, what, **options):
    """Its output; the last line of what it said on failure is the reason."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise SuiteError(f"{what}: {said[-1]}")
    return done.stdout
