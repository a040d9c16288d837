# SPDX-License-Identifier: Apache-2.0
"""tools/demo from its options to its exit status (on the host)."""
import argparse
import json
import os
import subprocess
import sys
import time

from report import page, runs as report_runs, table

from . import evaluate, prepare
from .prepare import TOP, DemoError, say

EPILOG = """\
Interleaved rounds against other ways of loading:  tools/demo --rivals --help
MAIO's switches alone and together:  tools/demo --breakdown --help
The guest is an emulated machine with 2 NUMA nodes and one accelerator stand-in on each; its disk is
slowed down as the emulation slows the CPU.  Exit status: 0 all claims hold, 1 one does not (or bytes
differ), 2 the demo could not run.  Results: results.json and report.html in the output folder.
"""
NODES = 2
MODELS = ("qwen2.5-7b", "qwen2.5-32b", "qwen2.5-72b", "llama-2-7b", "llama-2-70b", "deepseek-r1")


def add_common(parser, out):
    """Options that every experiment in the guest has."""
    parser.add_argument("--model", metavar="DIR|NAME", default="qwen2.5-72b",
                        help="a safetensors directory of your own, or one of " + ", ".join(MODELS) +
                        " (default: %(default)s), made with pseudo-random contents")
    parser.add_argument("--scale", type=int, default=64, metavar="N",
                        help="divide the bytes of a named model by N (default: %(default)s)")
    parser.add_argument("--mbps", type=int, default=200, help="disk, MB/s (default: %(default)s)")
    parser.add_argument("--lat-us", type=int, default=4000,
                        help="disk, microseconds per request (default: %(default)s)")
    parser.add_argument("--mode", choices=("mmap", "read"), default="mmap",
                        help="how the loader reads (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, metavar="N",
                        help="worker processes, tensor parallel (default: %(default)s)")
    parser.add_argument("--bind", action="store_true",
                        help="run each worker on the CPUs of its XPU's node (default: unbound, as "
                        "frameworks do)")
    parser.add_argument("--out", default=os.path.join(TOP, "build", out), metavar="DIR",
                        help=f"where results go (default: build/{out})")
    parser.add_argument("--no-build", action="store_true", help="use what build/ has")


def check_common(options):
    if options.scale < 1 or options.mbps < 1 or options.lat_us < 0 or options.workers < 1:
        raise DemoError("--scale, --mbps and --workers must be at least 1")
    if options.model not in MODELS and not os.path.isdir(options.model):
        raise DemoError(f"--model {options.model}: neither a directory nor one of {', '.join(MODELS)}")
    options.out = os.path.abspath(options.out)


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="tools/demo", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Loads a model natively and through PPC in an emulated machine; table + HTML.")
    add_common(parser, "demo")
    parser.add_argument("--repeats", type=int, default=3, help="measured MAIO runs in each memory "
                        "case (default: %(default)s)")
    parser.add_argument("--systems", default="", metavar="LIST", help="only these, e.g. native,"
                        "maio-record,maio (all: native, native-ra, eager, precache, maio-record, maio, "
                        "maio-early)")
    parser.add_argument("--quick", action="store_true",
                        help="qwen2.5-7b at 1:16, one run each: a few minutes, less telling")
    parser.add_argument("--timeout", type=int, default=1500, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        raise DemoError("--repeats must be at least 1")
    check_common(options)
    if options.quick:
        options.repeats = 1
        if options.model == parser.get_default("model"):
            options.model = "qwen2.5-7b"
            if options.scale == parser.get_default("scale"):
                options.scale = 16
    return options


def model_image(options, cache):
    if options.model in MODELS:
        image, name = prepare.made_model(cache, options.model, options.scale,
                                         os.path.join(prepare.BUILD, "bin"))
        return image, name, f"{options.model} at 1:{options.scale} in bytes, true tensors and shards"
    image, name = prepare.own_model(cache, options.model)
    return image, name, os.path.abspath(options.model)


def guest_settings(options, name, out):
    return {"base": "/mnt/disk0", "model_dir": f"/mnt/disk0/{name}", "model_name": name,
            "out": "/out", "mbps": options.mbps, "workers": options.workers,
            "xpu_nodes": [index % NODES for index in range(options.workers)],
            "mode": options.mode, "is_bound": options.bind,
            "init_share": 0.5, "load_share": 0.75, "limit_share": 0.45, "margin_bytes": 16 << 20,
            "host_out": out}


def run_guest(options, image, settings, module="demo.guest"):
    """The guest's side of an experiment; the status of tools/vm."""
    out = options.out
    with open(os.path.join(out, "settings.json"), "w", encoding="utf-8") as file:
        json.dump(settings, file)
    memory = prepare.guest_memory(image) >> 20
    command = [os.path.join(TOP, "tools", "vm"), "--mem", f"{memory}M", "--cpus", "2",
               "--nodes", str(NODES), *[f"--xpu={node}" for node in settings["xpu_nodes"]],
               "--disk", f"{image},mbps={options.mbps},lat_us={options.lat_us}", "--out", out,
               "--kmsg", os.path.join(out, "kernel.log"), "--timeout", str(options.timeout), "--",
               "env", f"PYTHONPATH={TOP}/bench", "/usr/bin/python3", "-B", "-m", module,
               "/out/settings.json"]
    say(f"booting the guest ({memory} MiB) ...")
    return subprocess.run(command, stdout=sys.stderr, check=False).returncode


def notes(raw):
    return [
        "An emulated machine (QEMU without KVM) whose CPU is some 25 times slower than a real one; the "
        "disk is slowed down alike (bandwidth and latency), so that ratios stay. Absolute seconds "
        "mean nothing.",
        "The two accelerators are stand-ins: the time a device needs per byte is slept by the loader. "
        "The gain from NUMA locality itself does not show here; where pages lie is counted.",
        "The clock starts at exec; MAIO's includes telling the daemon that a service starts "
        f"({raw.get('median_hook_s', 0):.2f} s); the row that starts 3 s earlier does not include "
        "those 3 s. PreCache's start-up includes its caching (8 processes reading at once).",
        "Native rows use the ext4 file system directly; EagerLoad and MAIO go through the ppc mount. "
        "All processes of a service, and the cache loaded for it, are charged to one control group.",
        ("Workers run on the CPUs of their XPU's node. " if raw["settings"]["is_bound"] else
         "Workers are not bound to CPUs, as frameworks do by default. ") +
        "Caches are dropped and the model's files proven absent before every run.",
        "The template of the recording run (memory-rich) serves all measured runs of both cases."]


def warnings(raw):
    """What makes times of this very run doubtful."""
    found = []
    if raw["measured"]["disk_measured"] < 0.9e6 * raw["settings"]["mbps"]:
        found.append(
            "The host was busy: the disk gave "
            f"{raw['measured']['disk_measured'] / 1e6:.0f} MB/s when measured, less than it was set to; "
            "times are longer than on an idle host.")
    busy = max((run["cpu_busy_s"] * 1e9 / (run["end_ns"] - run["zero_ns"]) / raw["cpus"]
                for run in raw["runs"] if run["system"] == "maio"), default=0)
    if busy > 0.85:
        found.append(
            f"The emulated CPUs were {busy:.0%} busy in a run of MAIO: this host emulates too slowly for "
            f"a disk of {raw['settings']['mbps']} MB/s, and readers overtake a loader that waits for a "
            "CPU. Slow the disk down as well, say by a third: --mbps 150 --lat-us 5300.")
    return found


def facts(raw, description, options, seconds):
    measured = raw["measured"]
    return {
        "model": f"{description}: {measured['model_bytes'] / 1e6:.0f} MB, "
                 f"{measured['cached']['report']['tensors']} tensors",
        "service": f"{options.workers} workers, tensor parallel, " +
                   ("private mapping of each shard" if options.mode == "mmap" else "read()"),
        "machine": f"{raw['cpus']} CPUs, 2 NUMA nodes, Linux {raw['kernel']}, QEMU/TCG",
        "disk": f"ext4, throttled to {options.mbps} MB/s and {options.lat_us} us per request, read-ahead "
                f"128 KiB; measured {measured['disk_measured'] / 1e6:.0f} MB/s",
        "pure disk time": f"{measured['pure_disk_s']:.1f} s",
        "init": f"{measured['cached_init_s']:.1f} s, reads only small files",
        "fully cached load": f"{measured['cached_load_s']:.1f} s (device "
                             f"{measured['device_mbps']:.0f} MB/s per worker)",
        "bound, memory-rich": raw["bounds"]["rich"]["why"],
        "bound, with the limit": raw["bounds"]["limit"]["why"],
        "memory limit": f"{raw['limit_bytes'] / 1e6:.0f} MB = loader's own "
                        f"{measured['loader_bytes'] / 1e6:.0f} MB + 45% of the model + "
                        f"{raw['settings']['margin_bytes'] / 1e6:.0f} MB margin",
        "whole demo": f"{seconds:.0f} s"}


def assemble(raw, description, options, seconds):
    """The results file's contents (format: bench/README.md)."""
    raw["bounds"] = evaluate.bounds(raw)
    rows = evaluate.rows(raw, options.out)
    return {"version": 1, "title": "A model loaded natively and through PPC",
            "lead": evaluate.headline(rows), "settings": facts(raw, description, options, seconds),
            "measured": {"disk_mbps": raw["measured"]["disk_bytes_per_s"] / 1e6,
                         "limit_bytes": raw["limit_bytes"] - raw["measured"]["loader_bytes"],
                         **{key: value for key, value in raw["measured"].items() if key != "cached"}},
            "bounds": raw["bounds"],
            "case_names": {"limit": "the loader's own memory + 45% of the model"},
            "group_names": {"-1": "shared by the workers",
                            **{str(index): f"worker {index}" for index in range(options.workers)}},
            "residency_of": {"rich": ["maio"], "limit": ["native", "eager", "maio"]},
            "runs": raw["runs"], "rows": rows, "errors": raw["errors"],
            "claims": evaluate.claims(rows, raw["errors"], bool(options.systems)),
            "notes": notes(raw) + warnings(raw), "warnings": warnings(raw)}


def finish(results, out):
    """Writes results and report, prints table and claims; the exit status."""
    path = os.path.join(out, "results.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    view = page.Page(report_runs.Results(path))
    html = os.path.join(out, "report.html")
    with open(html, "w", encoding="utf-8") as file:
        file.write(view.render())
    print(table.plain(view.rows, view.cases))
    failed = [claim for claim in results["claims"] if not claim["ok"]]
    for claim in results["claims"]:
        print(f"{'PASS' if claim['ok'] else 'FAIL'} {claim['text']}: {claim['value']}")
    for warning in results["warnings"]:
        print(f"note: {warning}")
    print(f"{len(results['claims']) - len(failed)} of {len(results['claims'])} claims hold")
    print(f"results: {path}\nreport:  {html}")
    return 1 if failed else 0


def main(arguments):
    started = time.monotonic()
    try:
        options = parse(arguments)
        cache = os.path.join(TOP, "build", "models")
        os.makedirs(cache, exist_ok=True)
        if os.path.isdir(options.out):
            for name in os.listdir(options.out):
                if name.endswith((".json", ".jsonl", ".html", ".log")):
                    os.unlink(os.path.join(options.out, name))
        os.makedirs(options.out, exist_ok=True)
        if os.getloadavg()[0] > 1.5:
            say(f"the host is busy (load {os.getloadavg()[0]:.1f}): times will be longer, and claims "
                "about them may fail")
        if not options.no_build:
            prepare.build()
        image, name, description = model_image(options, cache)
        settings = guest_settings(options, name, options.out)
        settings["repeats"] = options.repeats
        settings["systems"] = [key for key in options.systems.split(",") if key]
        status = run_guest(options, image, settings)
        if not os.path.exists(os.path.join(options.out, "raw.json")):
            raise DemoError(f"the guest measured nothing (tools/vm: status {status})")
        with open(os.path.join(options.out, "raw.json"), encoding="utf-8") as file:
            raw = json.load(file)
        if "limit_bytes" not in raw:
            raise DemoError(f"the guest ended before its runs (tools/vm: status {status})")
        if status != 0:
            why = " (the kernel logged a warning, see kernel.log)" if status == 70 else ""
            raw["errors"].append({"system": "guest",
                                  "error": f"tools/vm ended with status {status}{why}"})
        return finish(assemble(raw, description, options, time.monotonic() - started), options.out)
    except (DemoError, report_runs.ReportError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
