# SPDX-License-Identifier: Apache-2.0
"""One measured start-up: a system, a memory case, one report."""
import json
import os
import resource
import shutil
import signal
import subprocess
import time

from . import cgroup, machine
from .systems import CACHED

# What a service of this model is called; the same in every run, so that a template is found again.
RUN_TIMEOUT_S = 400
CAT_PROCESSES = 8
# The rival's default window, as a share of the memory that the service may use.
WINDOW_SHARE = 0.25


class Beside:
    """A program that runs beside a start-up, charged to its group; ended with it."""

    def __init__(self, command, group):
        self.command, self.group = command, group
        self.process = None
        self.status = None

    def __enter__(self):
        if self.command:
            self.process = subprocess.Popen(
                self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                preexec_fn=self.group.enter, start_new_session=True)
        return self

    def __exit__(self, *_):
        if not self.process:
            return
        self.status = self.process.poll()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        said = self.process.communicate()[1].strip().splitlines()
        if self.status:
            raise RuntimeError(f"{self.command[0]}: {said[-1] if said else self.status}")

    def outcome(self):
        """Whether it had come to its end before the service was ready."""
        return {"beside_ended": self.status == 0} if self.process else {}


class Experiment:
    """Knows the model, the machine and the settings; makes runs."""

    def __init__(self, settings, ppc, say):
        self.settings, self.ppc, self.say = settings, ppc, say
        self.model_dir = settings["model_dir"]
        self.disk = machine.Disk(self.model_dir)
        self.params = {"model": settings["model_name"], "tp": settings["workers"]}
        self.device_mbps = 0.0
        self.init_s = 0.0
        self.service_init_s = 0.0  # with what starting the workers takes beside it
        self.group = None  # of all runs; without it each has one of its own
        self.watch = None  # makes what watches the machine beside a run, ended with it
        self.scratch = settings.get("scratch", "/run/ppc-demo")
        os.makedirs(self.scratch, exist_ok=True)

    def run(self, system, memory, rep, limit_bytes=None):
        """Returns the run's record; its series are copied to the output folder."""
        run = {"id": f"{memory}-{system.key}-{rep}", "system": system.key, "name": system.name,
               "memory": memory, "rep": rep, "lead_s": system.lead_s, "cache_s": 0.0,
               "limit_bytes": limit_bytes, "is_recording": system.is_recording,
               "is_ours": system.is_ours}
        self.disk.set_read_ahead_kb(system.read_ahead_kb or self.settings.get("read_ahead_kb", 128))
        if not self.settings.get("keeps_cache"):
            machine.drop_caches(self.model_dir)
        group = self.group or cgroup.make(limit_bytes)
        try:
            self._measure(system, group, run)
        finally:
            self.ppc.use(None)  # its loaders leave the group
            if not self.group:
                group.remove()
        return run

    def _measure(self, system, group, run):
        # A supervised runner writes traces in few places.
        trace = f"/tmp/ppc-demo-{os.getpid()}.jsonl"
        if system.policy:
            self._register(system, trace)
        lost = self.ppc.lost_events() if system.policy else None
        sampler = None
        if self.settings.get("has_series", True):
            sampler = machine.Sampler(f"{self.scratch}/samples.jsonl", self.disk, group,
                                      self.model_dir)
        watch = self.watch() if self.watch else None
        before = (self.disk.read_bytes(), self.disk.requests(), machine.cpu_busy_s())
        try:
            self._start_up(system, group, run)
        finally:
            run["end_ns"] = machine.now_ns()
            run["bytes_from_disk"] = self.disk.read_bytes() - before[0]
            run["disk_requests"] = self.disk.requests() - before[1]
            run["cpu_busy_s"] = machine.cpu_busy_s() - before[2]
            run["memory_counters"] = group.memory()
            if watch:
                run["disturbance"] = watch.end()
            if sampler:
                sampler.stop()
        if system.policy:
            now = self.ppc.lost_events()
            run["lost_events"] = None if None in (now, lost) else now - lost
            self.ppc.use(None)  # its trace is whole then
        if sampler:
            self._keep(run, "samples", f"{self.scratch}/samples.jsonl")
            if system.policy:
                self._keep(run, "trace", trace)
        if os.path.exists(trace):
            os.unlink(trace)

    def _register(self, system, trace):
        if os.path.exists(trace):
            os.unlink(trace)
        runtime = dict(system.config.get("runtime", {}))
        if self.settings.get("has_series", True):
            runtime["trace_file"] = trace
        self.ppc.use(system.policy, {**system.config, "runtime": runtime})

    def _start_up(self, system, group, run):
        """From the start of the clock to the end of the service."""
        run["zero_ns"] = machine.now_ns()
        if system.is_precached:
            run["cache_cpu_s"] = self._cat(None if system is CACHED else group)
            run["cache_s"] = (machine.now_ns() - run["zero_ns"]) / 1e9
            if system is CACHED:  # measured alone: caching is no part of it
                run["zero_ns"], run["cache_s"] = machine.now_ns(), 0.0
        command = self._loader(system, run["limit_bytes"])
        if system.policy:
            begun = machine.now_ns()
            run["service"] = self.ppc.service(
                "start", self.params, "--json", f"--cgroup={group.path}",
                f"--workers={self.settings['workers']}", *self._xpus())
            run["hook_s"] = (machine.now_ns() - begun) / 1e9
            if system.lead_s:
                time.sleep(max(0.0, system.lead_s - run["hook_s"]))
                run["zero_ns"] = machine.now_ns()
        try:
            with Beside(self._filled(system.beside, run["limit_bytes"]), group) as beside:
                report = self._load(command, group)
            run.update(beside.outcome())
        finally:
            if system.policy:
                run["status"] = self.ppc.status()
                run["runner_cpu_s"] = self.ppc.runner_cpu_s(run["status"])
                run["runner_kib"] = self.ppc.runner_kib(run["status"])
                self.ppc.service("stop", self.params)
        run["report"] = report
        for key in ("exec_ns", "load_ns", "ready_ns"):
            run[key] = report[key]
        run["exec_ns"] = max(run["exec_ns"], run["zero_ns"])  # the kernel's clock has 10 ms steps
        run["startup_s"] = (report["ready_ns"] - run["zero_ns"]) / 1e9
        run["init_s"] = (report["load_ns"] - run["exec_ns"]) / 1e9
        run["load_s"] = report["load_s"]

    def _cat(self, group):
        """Reads all files as users do by hand, several at a time; the CPU seconds that it takes."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        files = sorted(os.path.join(self.model_dir, name) for name in os.listdir(self.model_dir))
        done = subprocess.run(
            ["xargs", "-0", "-n1", f"-P{CAT_PROCESSES}", "cat"], input="\0".join(files).encode(),
            stdout=subprocess.DEVNULL, preexec_fn=group.enter if group else None, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"caching the model failed with status {done.returncode}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def _filled(self, words, limit_bytes):
        """The words of a command with what is known only now."""
        memory = limit_bytes or machine.memory_total()
        model = sum(os.path.getsize(os.path.join(self.model_dir, name))
                    for name in os.listdir(self.model_dir))
        pool = self.settings["limit_share"] * model if limit_bytes else 1.02 * model + (64 << 20)
        known = {"dir": self.model_dir, "workers": self.settings["workers"],
                 "init": f"{self.init_s:.3f}",
                 "service_init": f"{self.service_init_s:.3f}",
                 "device": f"{self.device_mbps:.3f}",
                 "window": f"{int(memory * WINDOW_SHARE) >> 20}M", "pool": f"{int(pool) >> 20}M"}
        return [word.format(**known) for word in words]

    def _xpus(self):
        """A machine without any takes its workers by the order of their first reads."""
        if not self.settings.get("has_xpus", True):
            return []
        return ["--xpu=" + ",".join(map(str, range(self.settings["workers"])))]

    def _loader(self, system, limit_bytes):
        if system.instead:
            return self._filled(system.instead, limit_bytes)
        nodes = ",".join(map(str, self.settings["xpu_nodes"]))
        path = self.model_dir
        command = ["loadmodel", f"--workers={self.settings['workers']}",
                   f"--mode={self.settings['mode']}", f"--device-mbps={self.device_mbps:.3f}",
                   f"--init-s={self.init_s:.3f}",
                   f"--{'bind' if self.settings['is_bound'] else 'xpu-nodes'}={nodes}"]
        if self.settings["mode"] == "mmap" and self.settings.get("nodes", 2) > 1:
            command.append("--placement")
        if self.settings.get("keeps_mapped"):
            command.append("--keep-mapped")
        command += system.loader_options
        if system.policy:
            path = self.ppc.path(path)
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
        except BaseException:  # an interruption of the demo ends the service, too
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        if process.returncode != 0:
            lines = said.strip().splitlines() or [f"status {process.returncode}"]
            raise RuntimeError(lines[-1])
        return json.loads(out)

    def _keep(self, run, kind, path):
        if os.path.exists(path) and os.path.getsize(path):
            run[kind] = f"{run['id']}.{kind}.jsonl"
            shutil.copyfile(path, os.path.join(self.settings["out"], run[kind]))
