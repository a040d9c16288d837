# SPDX-License-Identifier: Apache-2.0
"""The project's own parts in the guest: mount, daemon, policies, services."""
import glob
import json
import os
import subprocess
import time

from . import machine


class PpcError(Exception):
    """A part of the project refused or failed; one line."""


class Ppc:
    """One ppc mount with its daemon."""

    def __init__(self, base, mount, out):
        self.base, self.mount, self.out = base, mount, out
        self.daemon = None
        self.policy = None

    def start(self):
        os.makedirs(self.mount, exist_ok=True)
        self._run(["modprobe", "ppc"])
        self._run(["mount", "-t", "ppc", self.base, self.mount])
        log = open(f"{self.out}/ppcd.log", "w", encoding="utf-8")
        self.daemon = subprocess.Popen(["ppcd"], stdout=log, stderr=subprocess.STDOUT)
        for _ in range(100):
            if self._try(["ppcctl", "list"]).returncode == 0:
                return
            if self.daemon.poll() is not None:
                raise PpcError(f"ppcd ended with status {self.daemon.returncode}; see ppcd.log")
            time.sleep(0.1)
        raise PpcError("ppcd does not answer; see ppcd.log")

    def stop(self):
        self.use(None)
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait(30)
        self._run(["umount", self.mount])

    def use(self, policy, config=None):
        """Registers a policy on the mount in place of the one before; None: the kernel's.
        Always anew, so that nothing is remembered from an earlier run but templates."""
        if self.policy:
            self._run(["ppcctl", "rm_policy", self.mount])
        self.policy = policy
        if policy:
            self._run(["ppcctl", "reg_policy", self.mount, policy, json.dumps(config or {})])

    def service_command(self, verb, params, *options):
        words = [f"--param={key}={value}" for key, value in params.items()]
        return ["ppcctl", "service", verb, *words, *options, self.mount]

    def service(self, verb, params, *options):
        """ppcctl service start|ready|stop; what start answers as an object."""
        done = self._run(self.service_command(verb, params, *options))
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {}

    def status(self):
        done = self._try(["ppcctl", "status", "--json", self.mount])
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"error": (done.stderr or done.stdout).strip()}

    def runner_cpu_s(self, status):
        """CPU seconds of this mount's runner since it was started (each run starts one)."""
        for mount in status.get("mounts", []):
            if mount.get("mount") == self.mount:
                return machine.process_cpu_s(mount.get("pid"))
        return None

    def lost_events(self):
        """Events the kernel could not queue, since the mount was made."""
        for path in glob.glob("/sys/fs/ppc/*/events_dropped"):
            return int(machine.read_text(path))
        return None

    @staticmethod
    def _try(command):
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _run(self, command):
        done = self._try(command)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise PpcError(f"{' '.join(command[:3])}: {said[-1]}")
        return done
