# SPDX-License-Identifier: Apache-2.0
"""One run of one cell: cold files, a service around the loader, its times, its bytes."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

from . import binding, cache, group, service

HERE = os.path.dirname(os.path.realpath(__file__))
NVML_AGE_S = 1.5  # an answer of NVML is renewed after a second; it does not know younger processes


class RunError(Exception):
    """Why a cell has no figures; one line."""


class NotPossible(RunError):
    """The machine does not allow it; no failure of ours."""


class Bench:
    """What all runs share."""

    def __init__(self, model, device, cuda, disk, ppcd, probe, log, keep_others=False):
        self.model, self.device, self.cuda, self.disk = model, device, cuda, disk
        self.ppcd, self.probe, self.log, self.keep_others = ppcd, probe, log, keep_others
        self.files = sorted(os.path.join(model, name) for name in os.listdir(model))

    def run(self, cell, limit_s):
        row = cell.row
        if row.is_maio and self.ppcd is None:
            raise NotPossible(self.probe["error"])
        try:
            with self.disk.read_ahead(row.read_ahead_kb), group.limited(self._memory(row)) as folder:
                return self._prepared(cell, limit_s, folder)
        except group.GroupError as error:
            raise NotPossible(str(error)) from error
        except OSError as error:
            if error.filename == self.disk.bdi:
                raise NotPossible(f"read_ahead_kb of {self.disk.number} cannot be set: "
                                  f"{error.strerror}") from error
            raise

    def _memory(self, row):
        return None if row.memory is None else int(row.memory * sum(map(os.path.getsize, self.files)))

    def _prepared(self, cell, limit_s, folder):
        if cell.row.is_maio:
            self.ppcd.register_maio()
            if cell.row.is_fresh:
                self.ppcd.forget()
        if cell.row.is_cached:
            cache.fill(self.files)
            state = {"how": "read before", "resident": cache.resident(self.files)[0], "is_cold": False}
            if (state["resident"] or 0) < 1 - cache.COLD:
                raise NotPossible("the model does not fit into the page cache")
        else:
            state = cache.drop(self.files, self.keep_others)
        before = self.disk.bytes_read()
        started = time.monotonic()
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"== {cell.label()}\n")
            log.flush()
            child = subprocess.Popen(group.entering(folder, self._command(cell)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=log, text=True, start_new_session=True,
                                     env=self.ppcd.environment if cell.row.is_maio else None)
        watch = threading.Timer(limit_s, _kill, [child])
        watch.start()
        try:
            result = self._watched(cell, child, started, before)
        except BrokenPipeError as error:
            raise RunError(self._why(child)) from error
        finally:
            watch.cancel()
            if child.poll() is None:
                _kill(child)
            child.wait()
            child.stdin.close()
            child.stdout.close()
        return {**result, "cache": state}

    def _command(self, cell):
        command = [sys.executable, "-B", os.path.join(HERE, "service.py"), str(cell.ranks), "--model",
                   self.model, "--framework", cell.framework, "--device", self.device]
        if not cell.row.is_maio:
            return command
        params = {"model": os.path.basename(self.model), "tp": cell.ranks, "framework": cell.framework}
        devices = [self.cuda[rank % len(self.cuda)] for rank in range(cell.ranks)] if self.cuda else []
        xpus = binding.xpu_numbers([one["bus_id"] for one in devices], self.probe["xpus"])
        return self.ppcd.command(params, xpus, cell.ranks, service.READY, command)

    def _watched(self, cell, child, started, before):
        line = child.stdout.readline()
        after = self.disk.bytes_read()
        if not line.startswith(service.READY):
            raise RunError(self._why(child))
        workers = json.loads(line[len(service.READY):])
        more = self._asked(workers) if cell.row.is_maio else {}
        child.stdin.write("\n")
        child.stdin.flush()
        sums = json.loads(child.stdout.readline() or "[]")
        if child.wait() != 0 or not sums:
            raise RunError(self._why(child))
        begin, end = min(w["begin"] for w in workers), max(w["end"] for w in workers)
        total = sum(one["bytes"] for one in sums)
        return {"startup_s": end - started, "init_s": begin - started, "load_s": end - begin, "bytes": total,
                "device_bytes_per_s": total / max(end - begin, 1e-9),
                "disk_bytes": None if None in (before, after) else after - before,
                "checksum": [one["checksum"] for one in sums],
                "devices": [worker["device"] for worker in workers], **more}

    def _asked(self, workers):
        for worker in workers:
            self.ppcd.explain(worker["pid"])  # makes the runner ask NVML
        if self.device == "cuda":
            time.sleep(NVML_AGE_S)
        bindings = [binding.binding(worker, self.ppcd.explain(worker["pid"])) for worker in workers]
        runner = self.ppcd.status().get("runner", {})
        kept = {key: runner.get(key) for key in ("loader", "device", "events", "stats", "faults")}
        return {"bindings": bindings, "runner": kept}

    def _why(self, child):
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            return "the service did not end"
        if child.returncode == -signal.SIGKILL:
            return "out of time"
        with open(self.log, encoding="utf-8", errors="replace") as log:
            said = [line for line in log.read().splitlines() if line.strip()]
        return f"status {child.returncode}: {said[-1] if said else 'no message'}"


def _kill(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
