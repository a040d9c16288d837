# SPDX-License-Identifier: Apache-2.0
"""tools/demo from its options to its exit status (on the host)."""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import time

from report import runs as report_runs

from . import disturbance, host, prepare, promises, results, session, slowdisk
from .prepare import TOP, DemoError, say

EPILOG = """\
Where the kernel allows BPF the demo runs on this very machine, on a block device whose bandwidth and
latency are set; elsewhere, and with --vm, in an emulated machine with 2 NUMA nodes and the kernel module,
whose disk is slowed down as the emulation slows the CPU.
Interleaved rounds against other ways of loading (emulated):  tools/demo --rivals --help
MAIO's switches alone and together (emulated):  tools/demo --breakdown --help
Exit status: 0 nothing was promised that did not hold (a claim about time that a disturbed run cannot
judge is undecided), 1 wrong bytes, a crash, lost events or a broken promise, 2 the demo could not run.
Results: results.json and report.html in the output folder.
"""
# MB/s and microseconds per request; the emulated machine's is slowed down as its CPU is.
HOST_DISK, GUEST_DISK = (300, 2000), (200, 4000)
NODES = 2
MODELS = ("qwen2.5-7b", "qwen2.5-32b", "qwen2.5-72b", "llama-2-7b", "llama-2-70b", "deepseek-r1")


def add_guest_disk(parser):
    parser.add_argument("--mbps", type=int, default=GUEST_DISK[0],
                        help="disk, MB/s (default: %(default)s)")
    parser.add_argument("--lat-us", type=int, default=GUEST_DISK[1],
                        help="disk, microseconds per request (default: %(default)s)")


def add_common(parser, out, add_disk=add_guest_disk):
    """Options that every experiment has."""
    parser.add_argument("--model", metavar="DIR|NAME", default="qwen2.5-72b",
                        help="a safetensors directory of your own, or one of " + ", ".join(MODELS) +
                        " (default: %(default)s), made with pseudo-random contents")
    parser.add_argument("--scale", type=int, default=64, metavar="N",
                        help="divide the bytes of a named model by N (default: %(default)s)")
    add_disk(parser)
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
    is_disk_wrong = options.mbps is not None and (options.mbps < 1 or options.lat_us < 0)
    if options.scale < 1 or is_disk_wrong or options.workers < 1:
        raise DemoError("--scale, --workers and the disk's MB/s must be at least 1")
    if options.model not in MODELS and not os.path.isdir(options.model):
        raise DemoError(f"--model {options.model}: neither a directory nor one of {', '.join(MODELS)}")
    options.out = os.path.abspath(options.out)


def _add_disk(parser):
    parser.add_argument(
        "--disk", metavar="MBPS,LAT_US|none", help="a disk with this bandwidth and latency; none: the one "
        "that the model lies on, as fast as it is, which is the default with a directory of your own "
        f"(default: {HOST_DISK[0]},{HOST_DISK[1]}; with --vm {GUEST_DISK[0]},{GUEST_DISK[1]})")
    parser.add_argument("--fs", choices=tuple(slowdisk.MOUNT), default="ext4",
                        help="file system of that disk (default: %(default)s)")


def _parse_disk(options):
    """Fills in mbps and lat_us; mbps is None on the model's own disk."""
    if options.disk is None:
        is_own = not options.vm and options.model not in MODELS
        usual = GUEST_DISK if options.vm else HOST_DISK
        options.mbps, options.lat_us = (None, None) if is_own else usual
    elif options.disk == "none":
        if options.vm:
            raise DemoError("--disk none: an emulated machine is too slow for a disk that is not slowed down")
        options.mbps = options.lat_us = None
    else:
        try:
            options.mbps, options.lat_us = map(int, options.disk.split(","))
        except ValueError:
            raise DemoError(f"--disk {options.disk}: neither MBPS,LAT_US (such as 300,2000) nor "
                            "none") from None


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="tools/demo", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Loads a model natively and through PPC; table + HTML.")
    add_common(parser, "demo", _add_disk)
    parser.add_argument("--vm", action="store_true",
                        help="in an emulated machine, with the kernel module")
    parser.add_argument("--repeats", type=int, metavar="N", help="measured MAIO runs in each memory case "
                        "(default: 2; with --vm 3)")
    parser.add_argument("--systems", default="", metavar="LIST", help="only these, e.g. native,"
                        "maio-record,maio (all: native, native-ra, eager, precache, maio-record, maio, "
                        "maio-early)")
    parser.add_argument("--cases", default="rich,limit", metavar="LIST", help="with all memory, with the "
                        "limit, or both (default: %(default)s)")
    parser.add_argument("--keep-mapped", action="store_true", help="the loader keeps every shard mapped "
                        "until all are loaded")
    parser.add_argument("--quick", action="store_true",
                        help="qwen2.5-7b at 1:16, one run each: a few minutes, less telling")
    parser.add_argument("--timeout", type=int, default=1500, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.repeats is None:
        options.repeats = 1 if options.quick else 3 if options.vm else 2
    if options.repeats < 1:
        raise DemoError("--repeats must be at least 1")
    if options.vm and options.fs != "ext4":
        raise DemoError(f"--fs {options.fs}: the emulated machine's disk is ext4")
    options.cases = options.cases.split(",")
    for case in options.cases:
        if case not in promises.WHERE:
            raise DemoError(f"--cases: there is no case '{case}'; there are {', '.join(promises.WHERE)}")
    if options.keep_mapped and options.mode != "mmap":
        raise DemoError("--keep-mapped needs --mode mmap: nothing else is mapped")
    options.is_partial = bool(options.systems) or set(options.cases) != set(promises.WHERE)
    options.is_disk_asked = options.disk is not None
    _parse_disk(options)
    check_common(options)
    if options.quick and options.model == parser.get_default("model"):
        options.model = "qwen2.5-7b"
        if options.scale == parser.get_default("scale"):
            options.scale = 16
    return options


def fall_back(options):
    """To the emulated machine, where this host does not allow the native demo."""
    why = host.refusal() or (host.disk_refusal() if options.mbps else "")
    if not why:
        return
    if options.is_disk_asked and not options.mbps:
        raise DemoError(f"{why}; --disk none needs a native run")
    say(f"{why}: running in an emulated machine instead (as --vm does)")
    options.vm, options.fs = True, "ext4"
    if not options.is_disk_asked:
        options.mbps, options.lat_us = GUEST_DISK


def describe(options):
    if options.model in MODELS:
        return f"{options.model} at 1:{options.scale} in bytes, true tensors and shards"
    return os.path.abspath(options.model)


def model_image(options, cache):
    file_system = getattr(options, "fs", "ext4")
    if options.model in MODELS:
        image, name = prepare.made_model(cache, options.model, options.scale, file_system)
    else:
        image, name = prepare.own_model(cache, options.model, file_system)
    return image, name, describe(options)


def selected(options):
    """What of all runs is made, and how the loader of each does it."""
    return {"systems": [key for key in options.systems.split(",") if key], "cases": options.cases,
            "keeps_mapped": options.keep_mapped}


def guest_settings(options, name, out):
    return {"base": "/mnt/disk0", "model_dir": f"/mnt/disk0/{name}", "model_name": name,
            "out": "/out", "mbps": options.mbps, "workers": options.workers,
            "xpu_nodes": [index % NODES for index in range(options.workers)],
            "mode": options.mode, "is_bound": options.bind,
            "init_share": 0.5, "load_share": 0.75, "limit_share": 0.45, "margin_bytes": 16 << 20,
            "host_out": out}


def host_settings(options, folder, scratch):
    """Of a model below folder."""
    nodes = host.nodes()
    return {"is_host": True, "model_dir": folder, "model_name": os.path.basename(folder),
            "out": options.out, "scratch": scratch, "mbps": options.mbps, "file_system": options.fs,
            "workers": options.workers, "nodes": nodes, "has_xpus": False,
            "xpu_nodes": [index % nodes for index in range(options.workers)],
            "mode": options.mode, "is_bound": options.bind and nodes > 1, "is_cache_charged": True,
            # A device that is far from being what the load waits for on a slow disk; none on a disk whose
            # bandwidth was not set.
            "init_s": 2.0 if options.quick else 4.0, "load_share": 0.25 if options.mbps else 0.0,
            "limit_share": 0.45, "margin_bytes": 16 << 20}


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


def run_in_guest(options, cache):
    """(raw, description) of the demo in the emulated machine."""
    if os.getloadavg()[0] > 1.5:
        say(f"the host is busy (load {os.getloadavg()[0]:.1f}): times will be longer, and claims about them "
            "may stay undecided")
    if not options.no_build:
        prepare.build()
    image, name, description = model_image(options, cache)
    settings = guest_settings(options, name, options.out)
    settings["repeats"] = options.repeats
    settings.update(selected(options))
    watch = disturbance.Watch([os.getpid()])
    status = run_guest(options, image, settings)
    if not os.path.exists(os.path.join(options.out, "raw.json")):
        raise DemoError(f"the guest measured nothing (tools/vm: status {status})")
    with open(os.path.join(options.out, "raw.json"), encoding="utf-8") as file:
        raw = json.load(file)
    if "limit_bytes" not in raw:
        raise DemoError(f"the guest ended before its runs (tools/vm: status {status})")
    raw["disturbance"] = watch.end()
    if status != 0:
        why = " (the kernel logged a warning, see kernel.log)" if status == 70 else ""
        raw["errors"].append({"system": "guest",
                              "error": f"tools/vm ended with status {status}{why}"})
    return raw, description


def disk_and_model(options, cache, scratch):
    """(disk to enter, the model's folder on it)."""
    if options.mbps:
        image, name, _ = model_image(options, cache)
        disk = slowdisk.SlowDisk(image, os.path.join(scratch, "disk"), options.mbps, options.lat_us,
                                 options.fs)
        return disk, os.path.join(disk.mount, name)
    if options.model in MODELS:
        folder = prepare.made_directory(cache, options.model, options.scale)
    else:
        folder = os.path.realpath(options.model)
        prepare.own_files(folder)
    return host.OwnDisk(folder), folder


def run_on_host(options, cache):
    """(raw, description) of the demo on this machine."""
    if not options.no_build:
        prepare.build_for_host()
    missing = slowdisk.missing_tools()
    if missing:
        raise DemoError(f"{', '.join(missing)}: not installed; run tools/setup --native")
    os.environ["PATH"] = os.pathsep.join([os.path.join(prepare.BUILD, "bin"), os.environ["PATH"],
                                          "/usr/sbin", "/sbin"])
    scratch = os.path.join(options.out, "scratch")
    os.makedirs(scratch, exist_ok=True)
    with host.ends_by_signals(), contextlib.ExitStack() as stack:
        disk, folder = disk_and_model(options, cache, scratch)
        try:
            stack.enter_context(disk)
            settings = host_settings(options, folder, scratch)
            settings.update(repeats=options.repeats, **selected(options))
            prepare.need_memory(sum(entry.stat().st_size for entry in os.scandir(folder)))
            demo = host.Host(settings, disk)
            demo.main()
        except (slowdisk.DiskError, session.SessionError) as error:
            raise DemoError(str(error)) from None
    return demo.raw, describe(options)


def empty(out):
    """What an earlier demo left in its output folder."""
    if os.path.isdir(out):
        for name in os.listdir(out):
            if name.endswith((".json", ".jsonl", ".html", ".log")):
                os.unlink(os.path.join(out, name))
    os.makedirs(out, exist_ok=True)


def main(arguments):
    started = time.monotonic()
    try:
        options = parse(arguments)
        cache = os.path.join(TOP, "build", "models")
        os.makedirs(cache, exist_ok=True)
        empty(options.out)
        if not options.vm:
            fall_back(options)
        raw, description = (run_in_guest if options.vm else run_on_host)(options, cache)
        return results.finish(
            results.assemble(raw, description, options, time.monotonic() - started), options.out)
    except (DemoError, report_runs.ReportError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
