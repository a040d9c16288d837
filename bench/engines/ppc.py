# SPDX-License-Identifier: Apache-2.0
"""How a program is started: natively, by ppcctl run, beside a plain registration, or as the paper does.

A way is a context manager around the starts of one program in one directory.  It gives the words before the
command, the variables, and what is to be done when the program is ready.  Each has a ppcd of its own, if any.
"""
import os
import shutil
import time

from demo import private_ppcd

from .store import Missing, SuiteError


class Build:
    """The programs of one build directory."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.bin = os.path.join(self.folder, "bin")

    def check(self):
        if lacks := private_ppcd.missing(self.folder):
            raise Missing(f"{self.folder} lacks {', '.join(lacks)}; build it or give another --build")

    def key(self):
        """Of all that is measured."""
        return private_ppcd.fingerprint(self.folder)[:12]


class Native:
    NAME = "native"

    def __init__(self, build, folder, directory, workers=1):
        self.build, self.folder, self.directory, self.workers = build, folder, directory, workers

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
    POLICY = "maio"
    CONFIG = None

    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        self.ppcd = private_ppcd.Ppcd(self.folder, self.build.folder, error=SuiteError)
        self.loaded = 0  # before the last start

    def _fresh(self):
        self.build.check()
        shutil.rmtree(self.folder, ignore_errors=True)
        for folder in (f"{self.folder}/state", self.ppcd.templates):
            os.makedirs(folder, mode=0o700)

    def __enter__(self):
        self._fresh()
        self.ppcd.serve(self.directory, self.policy(), self.config() if self.CONFIG else None)
        return self

    def __exit__(self, *_):
        self.ppcd.stop()

    def policy(self):
        return self.POLICY

    def config(self):
        return self.CONFIG | {"workers": self.workers}

    def status(self):
        return self.ppcd.status_of(self.directory)

    def ended(self):
        """Its processes' end is seen, and what was learnt is stored."""
        time.sleep(1)

    def ahead_bytes(self):
        loaded, self.loaded = self.loaded, loaded_bytes(self.status())
        return self.loaded - loaded


class Paper(Plain):
    """The registration names the service; `service ready` ends its load."""
    NAME = "paper"
    SERVICE = "engine"
    CONFIG = {"service_id": SERVICE}

    def ready(self):
        self.ppcd.ctl("service", "ready", "--id", self.SERVICE, self.directory)


class Drops(Plain):
    """A policy that harms: what is mapped is dropped, without end."""
    NAME = "drops"
    CONFIG = {"progress": True}

    def policy(self):
        return f"{self.build.bin}/libppc_sim_hostile.so"

    def config(self):
        return self.CONFIG | {"way": self.NAME}

    def ended(self):
        """Says what the guard made of it."""
        for service in guards(self.status()):
            print(f"# {self.NAME}: guard {service['state']}: {service['reason']}", flush=True)
        super().ended()


class Unread(Drops):
    """The same: what nobody reads is loaded, and room is made for it."""
    NAME = "unread"


class Waited(Drops):
    """The same: at each miss others are loaded as if a reader waited for them."""
    NAME = "waited"


class Random(Drops):
    """The same: ranges are loaded and dropped at random."""
    NAME = "random"


class Run(Plain):
    """`ppcctl run DIR -- COMMAND` with a ppcd for the life of the command; templates stay between starts."""
    NAME = "run"

    def __enter__(self):
        self._fresh()
        return self

    def environment(self):
        return {key: value for key, value in self.ppcd.environment.items() if key.startswith("PPC_")}

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


def guards(status):
    """The guard of each service, of `ppcctl status --json`."""
    if isinstance(status, list):
        return [guard for one in status for guard in guards(one)]
    if not isinstance(status, dict):
        return []
    return [value for key, value in status.items() if key == "guard"] + [
        guard for value in status.values() for guard in guards(value)]


WAYS = {way.NAME: way for way in (Native, Run, Plain, Paper, Drops, Unread, Waited, Random)}
