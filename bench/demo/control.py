# SPDX-License-Identifier: Apache-2.0
"""The project's own parts on the machine under test: daemon, policies, services."""
import glob
import json
import os
import shutil
import subprocess

from . import machine, private_ppcd
from .private_ppcd import PpcError


class Ppc(private_ppcd.Daemon):
    """A daemon and one registered directory."""

    BACKEND = None  # what the machine has

    def __init__(self, directory, out, *options):
        super().__init__(f"{out}/ppcd.log", *options)
        self.directory = directory

    def path(self, path):
        """Where a service finds what lies at this path, once a policy is registered."""
        return path

    def use(self, policy, config=None):
        """Replaces the registered policy; with None the kernel alone serves the directory."""
        if policy:
            self.register(self.directory, policy, config or {}, self.BACKEND)
        else:
            self.remove()

    def service_command(self, verb, params, *options):
        words = [f"--param={key}={value}" for key, value in params.items()]
        return ["ppcctl", "service", verb, *words, *options, self.directory]

    def service(self, verb, params, *options):
        """ppcctl service start|ready|stop; what start answers as an object."""
        try:
            return json.loads(self.ctl(*self.service_command(verb, params, *options)[1:]))
        except ValueError:
            return {}

    def status(self):
        done = self.ask("status", "--json", self.directory)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"error": (done.stderr or done.stdout).strip()}

    def _runner(self, status):
        """The process of this directory's runner (each run starts one), or None."""
        return next((mount.get("pid") for mount in status.get("mounts", [])
                     if mount.get("mount") == self.directory), None)

    def runner_cpu_s(self, status):
        """CPU seconds of the runner since it was started."""
        pid = self._runner(status)
        return pid and machine.process_cpu_s(pid)

    def runner_kib(self, status):
        """The runner's own memory, and the most that it had mapped, programs included."""
        pid = self._runner(status)
        return pid and machine.process_kib(pid, ("RssAnon", "VmHWM"))

    def lost_events(self):
        """Events that could not be queued, counted from some start on."""
        raise NotImplementedError


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PpcError(f"{' '.join(command[:3])}: {(done.stderr or done.stdout).strip()}")


class OnMount(Ppc):
    """With the module: a ppc mount over the model's file system."""

    def __init__(self, base, mount, out):
        super().__init__(mount, out)
        self.base = base

    def path(self, path):
        return os.path.join(self.directory, os.path.relpath(path, self.base))

    def start(self):
        os.makedirs(self.directory, exist_ok=True)
        _run("modprobe", "ppc")
        _run("mount", "-t", "ppc", self.base, self.directory)
        super().start()

    def stop(self):
        super().stop()
        _run("umount", self.directory)

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

    BACKEND = "observer"

    def __init__(self, directory, out, state):
        # ppcctl and the services find this daemon, not one that the machine may have.
        os.environ["PPC_SOCKET"] = os.path.join(state, "ppcd.sock")
        super().__init__(directory, out, f"--socket={os.environ['PPC_SOCKET']}", f"--state-dir={state}",
                         f"--template-dir={os.path.join(state, 'templates')}")
        self.state = state

    def start(self):
        shutil.rmtree(self.state, ignore_errors=True)
        os.makedirs(os.path.join(self.state, "templates"), mode=0o755)
        super().start()

    def lost_events(self):
        return find_key(self.status(), "events_lost")
