# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/run: makes the model, probes the machine, runs what fits, prints the table."""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import cache, documents, model, plan, ppc, runs, table

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
DETECT_S = 120
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


class UsageError(Exception):
    """One line; exit status 2."""


def say(text):
    print(f"gpu: {text}", file=sys.stderr, flush=True)


def _bytes(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 16G or 256M")
    return int(match[1]) * UNITS[match[2]]


def _list(text):
    return [part for part in text.split(",") if part]


def _counts(text):
    return [int(part) for part in _list(text)]


def arguments(words):
    parser = argparse.ArgumentParser(prog="bench/gpu/run", description=__doc__)
    parser.add_argument("--budget-s", type=float, default=480, help="seconds for everything (default 480)")
    parser.add_argument("--bytes", type=_bytes, default=model.FULL_BYTES, metavar="SIZE",
                        help="of the model, such as 256M (default 16.06 GB: Llama 3.1 8B)")
    parser.add_argument("--device", choices=("auto", "cuda", "cpu", "none"), default="auto",
                        help="none: plain mapped reads, without torch (default: the best there is)")
    parser.add_argument("--framework", type=_list, default=None, metavar="LIST",
                        help="of safetensors, transformers (default safetensors)")
    parser.add_argument("--processes", type=_counts, default=[1, 2], metavar="LIST",
                        help="tensor-parallel workers (default 1,2)")
    parser.add_argument("--rows", type=_list, default=(), metavar="LIST",
                        help="of " + ", ".join(row.key for row in plan.ROWS))
    parser.add_argument("--rounds", type=int, default=3, help="at most (default 3)")
    parser.add_argument("--backend", default="auto", help="of PPC: auto, observer, poll, kmod (default auto)")
    parser.add_argument("--programs", metavar="DIR", help="default: build/gpu-pack, else build")
    parser.add_argument("--dir", help="where the model lies (default: the most room of a few places)")
    parser.add_argument("--keep-model", action="store_true", help="leave it for the next time")
    parser.add_argument("--keep-libraries", action="store_true",
                        help="drop the model alone from memory, not everything")
    parser.add_argument("--out", default=os.path.join(TOP, "build", "gpu-results.json"),
                        help="results as JSON, a log beside it (default build/gpu-results.json)")
    parser.add_argument("--docs", nargs="+", metavar="RESULTS",
                        help="run nothing: write README.md's tables from these files of --out, of bench/gpu/compile too")
    args = parser.parse_args(words)
    unknown = set(args.rows) - {row.key for row in plan.ROWS}
    if unknown:
        raise UsageError(f"--rows {','.join(sorted(unknown))}: no such row")
    if not args.processes or min(args.processes) < 1:
        raise UsageError("--processes needs numbers from 1")
    return args


def detect():
    """Frameworks and CUDA devices, asked in a process of its own."""
    script = os.path.join(TOP, "bench", "gpu", "devices.py")
    try:
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False,
                              timeout=DETECT_S)
    except subprocess.TimeoutExpired as error:
        raise model.ModelError(f"importing torch takes more than {DETECT_S} s") from error
    if done.returncode != 0:
        raise model.ModelError("devices.py: " + (done.stderr.strip().splitlines() or ["failed"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def choose(args, facts):
    """(device, frameworks), as asked for or the best that is here."""
    has_torch = facts["torch"] and facts["safetensors"]
    best = "cuda" if has_torch and facts["cuda"] else "cpu" if has_torch else "none"
    device = best if args.device == "auto" else args.device
    if device == "cuda" and best != "cuda":
        raise UsageError("--device cuda: " + (facts.get("torch_error") or facts.get("safetensors_error")
                                              or "torch sees no CUDA device"))
    if device == "none":
        if args.framework:
            raise UsageError("--device none reads without a framework")
        return device, ["plain"]
    frameworks = args.framework or ["safetensors"]
    for name in frameworks:
        if name not in ("safetensors", "transformers"):
            raise UsageError(f"--framework {name}: neither safetensors nor transformers")
        for needed in {"torch", "safetensors", name}:
            if not facts[needed]:
                raise UsageError(f"--framework {name}: {facts[needed + '_error']}")
    return device, frameworks


def _room(path):
    return shutil.disk_usage(path).free if os.path.isdir(path) and os.access(path, os.W_OK) else 0


def _is_memory(path):
    """Files there never leave memory."""
    done = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=False)
    return done.stdout.strip() in ("tmpfs", "ramfs")


def choose_dir(given):
    if given:
        os.makedirs(given, exist_ok=True)
        return os.path.realpath(given)
    places = [p for p in ("/var/tmp", "/mnt", TOP, "/tmp") if _room(p) and not _is_memory(p)]
    if not places:
        raise model.ModelError("no directory on a disk to write to; give --dir")
    return os.path.realpath(max(places, key=_room))


def start_ppc(args, work, folder):
    """(ppcd or None, what it can do here)."""
    ppcd = None
    try:
        source = ppc.find_programs(TOP, args.programs)
        say(f"programs from {source}")
        ppcd = ppc.Ppcd(ppc.Programs(source, work), work, folder, args.backend)
        ppcd.start()
        return ppcd, {"asked": args.backend, **ppcd.probe()}
    except ppc.PpcError as error:
        if ppcd:
            ppcd.stop()
        return None, {"asked": args.backend, "error": str(error)}


def run_all(bench, cells, args, budget, data):
    """Whole rounds while they fit; the first one as far as it goes."""
    why = {}
    for number in range(1, args.rounds + 1):
        for index, cell in enumerate(cells):
            if cell in why and number > 1:
                continue
            if not budget.fits(cell):
                why.setdefault(cell, "no time was left")
                continue
            started = time.monotonic()
            say(f"round {number}: {cell.label()}")
            try:
                record = bench.run(cell, max(budget.left(), 1))
            except (runs.RunError, ppc.PpcError) as error:
                say(f"  {error}")
                why[cell] = str(error)
                if not isinstance(error, runs.NotPossible):
                    data["problems"].append(f"{cell.label()}: {error}")
                continue
            budget.took(cell, time.monotonic() - started)
            data["runs"].append({"cell": index, "round": number, "framework": cell.framework,
                                 "processes": cell.ranks, "row": cell.row.key, **record})
            say(f"  start-up {record['startup_s']:.2f} s, load {record['load_s']:.2f} s, "
                f"{record['device_bytes_per_s'] / 1e9:.2f} GB/s")
            if len(data["runs"]) == 1:
                say(f"a run takes {budget.expected(cell):.0f} s, {budget.left():.0f} s are left: "
                    f"{1 + budget.count(cells[1:])} of {len(cells)} runs of a round fit")
    data["cells"] = [{"id": index, "framework": cell.framework, "processes": cell.ranks,
                      "key": cell.row.key, "name": cell.row.name, "why": why.get(cell)}
                     for index, cell in enumerate(cells)]


def check(data):
    """Problems that the figures themselves show."""
    sums = {}
    for record in data["runs"]:
        sums.setdefault((record["framework"], record["processes"]), set()).add(tuple(record["checksum"]))
        for one in record.get("bindings", []):
            if one["agrees"] is False:
                data["problems"].append(
                    f"worker {one['rank']} of {record['processes']} ({record['row']}): explain-pid says "
                    f"{one['explain_bus_id']}, NVML {one['nvml_bus_id']}, torch {one['torch_bus_id']}")
    for (framework, processes), seen in sums.items():
        if len(seen) > 1:
            data["problems"].append(f"{framework}, {processes} processes: wrong bytes, checksums differ")


def measure(args, budget, stack):
    os.makedirs(os.path.dirname(os.path.realpath(args.out)), exist_ok=True)
    facts = detect()
    device, frameworks = choose(args, facts)
    place = choose_dir(args.dir)
    home = os.path.join(place, "ppc-gpu")
    if not args.keep_model:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
    models = os.path.join(home, "models")
    description = model.make(os.path.join(models, "llama-3.1-8b"), args.bytes, say)
    work = tempfile.mkdtemp(prefix="ppc-gpu-", dir="/var/tmp" if os.access("/var/tmp", os.W_OK) else None)
    stack.callback(shutil.rmtree, work, ignore_errors=True)
    folder = os.path.join(models, "llama-3.1-8b")
    files = model.shard_files(folder)
    disk = cache.Disk(folder)
    data = {"device": device, "cuda": facts["cuda"] if device == "cuda" else [], "frameworks": facts,
            "machine": cache.machine(), "model": description, "problems": [], "runs": [],
            "disk": {"number": disk.number, "read_ahead_kb": disk.read_ahead_kb(),
                     "direct_bytes_per_s": [cache.disk_speed(files)]}}
    ppcd, data["ppc"] = start_ppc(args, work, models)
    if ppcd:
        stack.callback(ppcd.stop)
    for line in table.head(data):
        say(line)
    log = os.path.splitext(args.out)[0] + ".log"
    bench = runs.Bench(folder, device, data["cuda"], disk, ppcd, data["ppc"], log, args.keep_libraries)
    try:
        cells = plan.cells(frameworks, args.processes, disk.read_ahead_kb(), args.rows)
        run_all(bench, cells, args, budget, data)
    finally:
        data.setdefault("cells", [])
        data["disk"]["direct_bytes_per_s"].append(cache.disk_speed(files))
        check(data)
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
    return data


def _ended(number, _frame):
    raise SystemExit(128 + number)


def main(words):
    try:
        args = arguments(words)
        if args.docs:
            documents.write(args.docs)
            return 0
        budget = plan.Budget(args.budget_s, time.monotonic)
        signal.signal(signal.SIGTERM, _ended)
        with contextlib.ExitStack() as stack:
            data = measure(args, budget, stack)
    except UsageError as error:
        say(str(error))
        return 2
    except model.ModelError as error:
        say(str(error))
        return 1
    print(table.page(data))
    say(f"results in {args.out}; {len(data['problems'])} problems")
    return 1 if data["problems"] or not data["runs"] else 0
