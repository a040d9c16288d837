# SPDX-License-Identifier: Apache-2.0
"""The project's own parts on the machine under test: daemon, policies, services."""
import glob
import json
import os
import shutil
import subprocess
import time

from . import machine


class PpcError(Exception):
    """A part of the project refused or failed; one line."""


class Ppc:
    """A daemon and one registered directory."""

    ready_s = 10.0

    def __init__(self, directory, out):
        self.directory, self.out = directory, out
        self.daemon = None
        self.policy = None

    def path(self, path):
        """Where a service finds what lies at this path, once a policy is registered."""
        return path

    def start(self):
        log = open(f"{self.out}/ppcd.log", "w", encoding="utf-8")
        self.daemon = subprocess.Popen(self.daemon_command(), stdout=log, stderr=subprocess.STDOUT,
                                       preexec_fn=machine.die_with_parent)
        deadline = time.monotonic() + self.ready_s
        while time.monotonic() < deadline:
            if self._try(["ppcctl", "list"]).returncode == 0:
                return
            if self.daemon.poll() is not None:
                raise PpcError(f"ppcd ended with status {self.daemon.returncode}; see ppcd.log")
            time.sleep(0.1)
        raise PpcError("ppcd does not answer; see ppcd.log")

    def daemon_command(self):
        return ["ppcd"]

    def registration_options(self):
        return []

    def stop(self):
        self.use(None)
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait(30)
            self.daemon = None

    def use(self, policy, config=None):
        """Registers a policy on the directory in place of the one before; None: the kernel's.
        Always anew, so that nothing is remembered from an earlier run but templates."""
        if self.policy:
            self.policy = None
            self._run(["ppcctl", "rm_policy", self.directory])
        if policy:
            self._run(["ppcctl", "reg_policy", *self.registration_options(), self.directory, policy,
                       json.dumps(config or {})])
            self.policy = policy

    def service_command(self, verb, params, *options):
        words = [f"--param={key}={value}" for key, value in params.items()]
        return ["ppcctl", "service", verb, *words, *options, self.directory]

    def service(self, verb, params, *options):
        """ppcctl service start|ready|stop; what start answers as an object."""
        done = self._run(self.service_command(verb, params, *options))
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {}

    def status(self):
        done = self._try(["ppcctl", "status", "--json", self.directory])
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"error": (done.stderr or done.stdout).strip()}

    def runner_cpu_s(self, status):
        """CPU seconds of this directory's runner since it was started (each run starts one)."""
        for mount in status.get("mounts", []):
            if mount.get("mount") == self.directory:
                return machine.process_cpu_s(mount.get("pid"))
        return None

    def lost_events(self):
        """Events that could not be queued, counted from some start on."""
        raise NotImplementedError

    @staticmethod
    def _try(command):
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _run(self, command):
        done = self._try(command)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise PpcError(f"{' '.join(command[:3])}: {said[-1]}")
        return done


class OnMount(Ppc):
    """With the module: a ppc mount over the model's file system."""

    def __init__(self, base, mount, out):
        super().__init__(mount, out)
        self.base = base

    def path(self, path):
        return os.path.join(self.directory, os.path.relpath(path, self.base))

    def start(self):
        os.makedirs(self.directory, exist_ok=True)
        self._run(["modprobe", "ppc"])
        self._run(["mount", "-t", "ppc", self.base, self.directory])
        super().start()

    def stop(self):
        super().stop()
        self._run(["umount", self.directory])

    def lost_events(self):
        for path in glob.glob("/sys/fs/ppc/*/events_dropped"):
            return int(machine.read_text(path))
        return None


def find_key(value, key):
    """The first member of this name anywhere in a JSON value, or None."""
    if isinstance(value, dict) and key in value:
        return value[key]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for found in (find_key(part, key) for part in parts) if found is not None), None)


class OnDirectory(Ppc):
    """Without module and mount: the observer on a stock kernel, and a daemon of the demo's own."""

    def __init__(self, directory, out, state):
        super().__init__(directory, out)
        self.state = state
        # ppcctl and the services find this daemon, not one that the machine may have.
        os.environ["PPC_SOCKET"] = os.path.join(state, "ppcd.sock")

    def daemon_command(self):
        return ["ppcd", f"--socket={os.environ['PPC_SOCKET']}", f"--state-dir={self.state}",
                f"--template-dir={os.path.join(self.state, 'templates')}"]

    def registration_options(self):
        return ["--backend", "observer"]

    def start(self):
        shutil.rmtree(self.state, ignore_errors=True)
        os.makedirs(os.path.join(self.state, "templates"), mode=0o755)
        super().start()

    def lost_events(self):
        return find_key(self.status(), "events_lost")
