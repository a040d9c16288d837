# SPDX-License-Identifier: Apache-2.0
"""One measured start-up (runs in the guest): a system, a memory case, one report."""
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import time

from . import machine

# What a service of this model is called; the same in every run, so that a template is found again.
RUN_TIMEOUT_S = 400
CAT_PROCESSES = 8


@dataclasses.dataclass(frozen=True)
class System:
    """One row of the table."""

    key: str
    name: str
    policy: str = ""  # through the ppc mount with this policy; empty: on the lower file system
    config: dict = dataclasses.field(default_factory=dict)
    read_ahead_kb: int = 128
    is_precached: bool = False
    lead_s: float = 0.0
    is_recording: bool = False
    is_ours: bool = False


NATIVE = System("native", "Native")
NATIVE_RA = System("native-ra", "Native, 4 MiB read-ahead", read_ahead_kb=4096)
# Blind, as the paper describes it: it overruns a limit and throws away what it has loaded.
EAGER = System("eager", "EagerLoad", policy="eager", config={"runtime": {"blind": True}})
PRECACHE = System("precache", "PreCache", is_precached=True)
RECORD = System("maio-record", "MAIO, recording run", policy="maio", is_recording=True)
MAIO = System("maio", "MAIO", policy="maio", is_ours=True)
EARLY = System("maio-early", "MAIO, started 3 s earlier", policy="maio", lead_s=3.0, is_ours=True)
CACHED = System("cached", "fully cached", is_precached=True)


class Experiment:
    """Knows the model, the machine and the settings; makes runs."""

    def __init__(self, settings, ppc, say):
        self.settings, self.ppc, self.say = settings, ppc, say
        self.model_dir = settings["model_dir"]
        self.disk = machine.Disk(self.model_dir)
        self.params = {"model": settings["model_name"], "tp": settings["workers"]}
        self.device_mbps = 0.0
        self.init_s = 0.0
        self.scratch = "/run/ppc-demo"
        os.makedirs(self.scratch, exist_ok=True)

    def run(self, system, memory, rep, limit_bytes=None):
        """Returns the run's record; its series are copied to the output folder."""
        run = {"id": f"{memory}-{system.key}-{rep}", "system": system.key, "name": system.name,
               "memory": memory, "rep": rep, "lead_s": system.lead_s, "cache_s": 0.0,
               "limit_bytes": limit_bytes, "is_recording": system.is_recording,
               "is_ours": system.is_ours}
        self.disk.set_read_ahead_kb(system.read_ahead_kb)
        machine.drop_caches(self.model_dir)
        group = machine.Cgroup("demo", limit_bytes)
        trace = f"{self.scratch}/trace.jsonl"
        if system.policy:
            self._register(system, trace)
        lost = self.ppc.lost_events() if system.policy else None
        sampler = machine.Sampler(f"{self.scratch}/samples.jsonl", self.disk, group, self.model_dir)
        before = (self.disk.read_bytes(), self.disk.requests(), machine.cpu_busy_s())
        try:
            self._start_up(system, group, run)
        finally:
            run["end_ns"] = machine.now_ns()
            run["bytes_from_disk"] = self.disk.read_bytes() - before[0]
            run["disk_requests"] = self.disk.requests() - before[1]
            run["cpu_busy_s"] = machine.cpu_busy_s() - before[2]
            run["memory_counters"] = group.memory()
            sampler.stop()
        if system.policy:
            run["lost_events"] = self.ppc.lost_events() - lost
            self.ppc.use(None)
        self._keep(run, "samples", f"{self.scratch}/samples.jsonl")
        if system.policy:
            self._keep(run, "trace", trace)
        group.remove()
        return run

    def _register(self, system, trace):
        if os.path.exists(trace):
            os.unlink(trace)
        runtime = {**system.config.get("runtime", {}), "trace_file": trace}
        self.ppc.use(system.policy, {**system.config, "runtime": runtime})

    def _start_up(self, system, group, run):
        """From the start of the clock to the end of the service."""
        run["zero_ns"] = machine.now_ns()
        if system.is_precached:
            self._cat(group if system is PRECACHE else None)
            run["cache_s"] = (machine.now_ns() - run["zero_ns"]) / 1e9
            if system is CACHED:  # measured alone: caching is no part of it
                run["zero_ns"], run["cache_s"] = machine.now_ns(), 0.0
        command = self._loader(system)
        if system.policy:
            begun = machine.now_ns()
            run["service"] = self.ppc.service(
                "start", self.params, "--json", f"--cgroup={group.path}",
                f"--workers={self.settings['workers']}",
                "--xpu=" + ",".join(map(str, range(self.settings["workers"]))))
            run["hook_s"] = (machine.now_ns() - begun) / 1e9
            if system.lead_s:
                time.sleep(max(0.0, system.lead_s - run["hook_s"]))
                run["zero_ns"] = machine.now_ns()
        try:
            report = self._load(command, group)
        finally:
            if system.policy:
                run["status"] = self.ppc.status()
                run["runner_cpu_s"] = self.ppc.runner_cpu_s(run["status"])
                self.ppc.service("stop", self.params)
        run["report"] = report
        for key in ("exec_ns", "load_ns", "ready_ns"):
            run[key] = report[key]
        run["exec_ns"] = max(run["exec_ns"], run["zero_ns"])  # the kernel's clock has 10 ms steps
        run["startup_s"] = (report["ready_ns"] - run["zero_ns"]) / 1e9
        run["init_s"] = (report["load_ns"] - run["exec_ns"]) / 1e9
        run["load_s"] = report["load_s"]

    def _cat(self, group):
        """Reads all files as users do by hand, several at a time."""
        files = sorted(os.path.join(self.model_dir, name) for name in os.listdir(self.model_dir))
        done = subprocess.run(
            ["xargs", "-0", "-n1", f"-P{CAT_PROCESSES}", "cat"], input="\0".join(files).encode(),
            stdout=subprocess.DEVNULL, preexec_fn=group.enter if group else None, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"caching the model failed with status {done.returncode}")

    def _loader(self, system):
        nodes = ",".join(map(str, self.settings["xpu_nodes"]))
        path = self.model_dir
        command = ["loadmodel", f"--workers={self.settings['workers']}",
                   f"--mode={self.settings['mode']}", f"--device-mbps={self.device_mbps:.3f}",
                   f"--init-s={self.init_s:.3f}",
                   f"--{'bind' if self.settings['is_bound'] else 'xpu-nodes'}={nodes}"]
        if self.settings["mode"] == "mmap":
            command.append("--placement")
        if system.policy:
            path = os.path.join(self.ppc.mount, os.path.relpath(path, self.ppc.base))
            command.append("--ready-cmd=" +
                           " ".join(self.ppc.service_command("ready", self.params)))
        return command + [path]

    def _load(self, command, group):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, preexec_fn=group.enter, start_new_session=True)
        try:
            out, said = process.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise RuntimeError(f"the load did not end within {RUN_TIMEOUT_S} s") from None
        if process.returncode != 0:
            lines = said.strip().splitlines() or [f"status {process.returncode}"]
            raise RuntimeError(lines[-1])
        return json.loads(out)

    def _keep(self, run, kind, path):
        if os.path.exists(path) and os.path.getsize(path):
            run[kind] = f"{run['id']}.{kind}.jsonl"
            shutil.copyfile(path, os.path.join(self.settings["out"], run[kind]))
