# SPDX-License-Identifier: Apache-2.0
"""A start that compiles for the GPU: cold, restored by `ppcctl run --artifacts`, and with a bundle of another key."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from . import ppc

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
START = os.path.join(TOP, "bench", "coldstart", "compile.start.py")
LIMIT_S = 200
# The assembler in place of itself: notes what it is asked, and does it.
COUNTING = '#!/bin/sh\ncase $* in *--version*) ;; *) echo "$*" >>{asked} ;; esac\nexec {real} "$@"\n'


class Failed(Exception):
    """One line."""


def find_ptxas():
    """Triton's own assembler: what each kernel that is not in a cache goes through."""
    script = "import os, triton; print(os.path.join(os.path.dirname(triton.__file__), 'backends/nvidia/bin/ptxas'))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    path = done.stdout.strip()
    if done.returncode or not os.access(path, os.X_OK):
        raise Failed(f"no Triton with its ptxas here: {(done.stderr.strip().splitlines() or [path])[-1]}")
    return path


class Machine:
    """A container, as far as artifacts go: a home and a temporary directory that each start finds empty."""

    def __init__(self, work, programs):
        self.work, self.programs = work, programs
        self.asked, self.ptxas = os.path.join(work, "asked"), os.path.join(work, "ptxas")
        with open(self.ptxas, "w", encoding="ascii") as file:
            file.write(COUNTING.format(asked=self.asked, real=find_ptxas()))
            os.fchmod(file.fileno(), 0o755)
        self.bin = os.path.join(work, "bin")  # for the start, which has not our libraries in its way
        os.mkdir(self.bin)
        with open(os.path.join(self.bin, "ppcctl"), "w", encoding="ascii") as file:
            libraries = programs.environment.get("LD_LIBRARY_PATH", "")
            file.write(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {programs.path("ppcctl")} "$@"\n')
            os.fchmod(file.fileno(), 0o755)

    def start(self, options=(), is_native=False, keep=False):
        """What the start says, and what was seen of it."""
        home, tmp = os.path.join(self.work, "home"), os.path.join(self.work, "tmp")
        for folder in (home, tmp):
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder, exist_ok=True)
        with open(self.asked, "w", encoding="ascii"):
            pass
        environment = dict(self.programs.environment, HOME=home, TMPDIR=tmp, DEVICE="cuda", TRITON_PTXAS_PATH=self.ptxas,
                           PPC_ARTIFACT_DIR=os.path.join(self.work, "store"), PYTHONDONTWRITEBYTECODE="1",
                           PATH=f"{self.bin}:{os.environ['PATH']}")
        for name in ("XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME", "CUDA_CACHE_PATH"):
            environment.pop(name, None)
        words = self.programs.shielded([sys.executable, START])
        if not is_native:
            words = [self.programs.path("ppcctl"), "run", "--artifacts", "--env-from-service", "--id", "compile-start",
                     "--ready-on", "ready to serve", *options, "--", *words]
        try:
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"a start took more than {LIMIT_S} s") from error
        if done.returncode:
            raise Failed(f"a start ended with status {done.returncode}: {done.stderr[-1500:]}")
        said = json.loads(done.stdout.splitlines()[0])
        with open(self.asked, encoding="utf-8") as file:
            said["kernels"] = sum(1 for _ in file)
        said["ppcctl"] = [line for line in done.stderr.splitlines() if "artifacts: " in line or "restored" in line]
        return said


def shown(start):
    caches = ", ".join(f"{what} {start[f'{what}_hit']} hit {start[f'{what}_miss']} missed {start[f'{what}_bypass']} bypassed"
                       for what in ("graph", "autograd"))
    return (f"{start['seconds']:.2f} s to compile, {start['kernels']} kernels assembled, caches: {caches}; "
            f"{'; '.join(start['ppcctl'])}")


def problems(colds, restoreds, other):
    for cold in colds:
        if not cold["kernels"] or not cold["graph_miss"]:
            yield f"a cold start that compiles nothing: {shown(cold)}"
    for restored in restoreds:
        if restored["kernels"] or restored["graph_miss"] + restored["autograd_miss"]:
            yield f"a restored start compiled: {shown(restored)}"
    if len({start["outputs"] for start in (*colds, *restoreds)}) != 1:
        yield "other results than compiled here"
    if other["graph_hit"] or not other["kernels"]:
        yield f"on another key: {shown(other)}"


def main(words):
    parser = argparse.ArgumentParser(prog="bench/gpu/compile", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", default=os.path.join(TOP, "build", "gpu-compile.json"),
                        help="results as JSON (default build/gpu-compile.json)")
    parser.add_argument("--programs", metavar="DIR", help="default: build/gpu-pack, else build")
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="ppc-gpu-compile-") as work:
        try:
            programs = ppc.Programs(ppc.find_programs(TOP, args.programs), work)
            machine = Machine(work, programs)
            colds, restoreds = [], []
            for number in range(args.rounds):  # by turns: what slows the machine slows both
                shutil.rmtree(os.path.join(work, "store"), ignore_errors=True)
                if number == 0:
                    machine.start(is_native=True)  # torch itself comes from the disk
                colds.append(machine.start())
                print(f"# cold: {shown(colds[-1])}", flush=True)
                restoreds.append(machine.start())
                print(f"# restored: {shown(restoreds[-1])}", flush=True)
            warm = machine.start(is_native=True, keep=True)
            print(f"# natively, with what that start left: {shown(warm)}", flush=True)
            other = machine.start(["--key", "quant=fp8"])
            print(f"# another key: {shown(other)}", flush=True)
        except (Failed, ppc.PpcError) as error:
            print(f"compile: {error}", file=sys.stderr)
            return 1
    os.makedirs(os.path.dirname(os.path.realpath(args.out)), exist_ok=True)
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump({"colds": colds, "restoreds": restoreds, "warm": warm, "other": other}, file, indent=1)
    failed = list(problems(colds, restoreds, other))
    cold, restored = (statistics.median(start["seconds"] for start in starts) for starts in (colds, restoreds))
    print(f"# {colds[0]['device']}, torch {colds[0]['torch']}: {cold:.2f} s to compile, restored {restored:.2f} s: "
          f"{cold / restored:.1f} times less")
    for text in failed:
        print(f"not ok compile - {text}")
    return 1 if failed else 0
