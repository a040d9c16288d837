# SPDX-License-Identifier: Apache-2.0
"""tools/demo --rivals and --breakdown: interleaved rounds, from options to exit status (on the host).

A round runs every system once in every case, in an order drawn from the seed, with cold caches, in a
guest of its own.  Each run is a file; what is there already is not run again.
"""
import argparse
import csv
import glob
import hashlib
import json
import os
import sys
import time

from . import command, pairs, prepare, rounds, systems, verdicts
from .prepare import TOP, DemoError, say

# What decides how a run goes, besides the module and the systems themselves.
RUNNING = ("bin/ppcd", "bin/ppc-runner", "bin/ppcctl", "bin/loadmodel", "bin/ppc-rival",
           "policies/libppc_maio.so")
# A guest whose emulator fell over (tools/vm: status 71; a kernel that gave up says so, and has another)
# is started again for the runs that its round still lacks.
DIED, TRIES = 71, 3
CASES = {"rich": "rich", "constrained": "limit", "limit": "limit"}
EPILOG = """\
Method: two systems' times in one round are a pair; their ratio is the geometric mean over the rounds, its
90% interval Student's t over the logarithms.  A claim needs 7 rounds.  Rounds can be interrupted: the
same command goes on with what is missing.  Exit status: 0 all claims hold, 1 one does not (with too few
rounds for claims: if bytes are wrong or runs missing), 2 it could not run.
"""


def parse(arguments):
    is_breakdown = "--breakdown" in arguments
    parser = argparse.ArgumentParser(
        prog="tools/demo", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compares MAIO with other ways of loading a model, or its own switches.")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--rivals", action="store_true", help="MAIO against other ways of loading")
    kind.add_argument("--breakdown", action="store_true",
                      help="MAIO's switches, alone and together, against Native")
    command.add_common(parser, "breakdown" if is_breakdown else "rivals")
    parser.add_argument("--rounds", type=int, default=pairs.ENOUGH, metavar="N",
                        help="until there are N rounds (default: %(default)s)")
    parser.add_argument("--cases", default="rich,constrained", metavar="LIST",
                        help="of rich, constrained (default: both)")
    parser.add_argument("--systems", default="", metavar="LIST",
                        help="only these besides the one they are compared with; all: " +
                        ", ".join(system.key for system in
                                  (systems.breakdown(1) if is_breakdown else systems.RIVALS)))
    parser.add_argument("--seed", type=int, default=1, help="of the order (default: %(default)s)")
    parser.add_argument("--remote-cost", type=float, default=1.5, metavar="X",
                        help="of the rows marked modelled: a byte on another node takes the device X "
                        "times as long (default: %(default)s)")
    parser.add_argument("--estimate", action="store_true", help="say how long it will take, no more")
    options = parser.parse_args(arguments)
    command.check_common(options)
    if options.rounds < 1 or options.remote_cost <= 1:
        raise DemoError("--rounds must be at least 1, --remote-cost more than 1")
    unknown = set(options.cases.split(",")) - set(CASES)
    if unknown:
        raise DemoError(f"--cases {unknown.pop()}: not rich or constrained")
    options.cases = list(dict.fromkeys(CASES[name] for name in options.cases.split(",")))
    return options


def chosen(options):
    """The keys of the systems, the one all are compared with among them."""
    every = [system.key for system in (systems.breakdown(options.remote_cost) if options.breakdown
                                       else (*systems.RIVALS, systems.MAIO))]
    wanted = set(filter(None, options.systems.split(",")))
    if wanted - set(every):
        raise DemoError(f"--systems {(wanted - set(every)).pop()}: not one of {', '.join(every)}")
    base = systems.NATIVE.key if options.breakdown else systems.MAIO.key
    # A modelled row is compared with the modelled Native.
    if any(key.endswith(systems.MODELLED) for key in wanted):
        wanted.add(base + systems.MODELLED)
    return [key for key in every if not wanted or key in wanted or key == base]


def pairing(options):
    """key -> (numerator, denominator) of a line's ratios, and their name."""
    if not options.breakdown:
        return lambda key: (systems.MAIO.key, key), "MAIO's {} / its"
    native = systems.NATIVE.key
    return (lambda key: (key, native + (systems.MODELLED if key.endswith(systems.MODELLED) else "")),
            "its {} / Native's")


def identity(options, image):
    """Runs of one folder belong together only when all of this is the same."""
    digest = hashlib.sha256()
    paths = [os.path.join(prepare.BUILD, name) for name in RUNNING]
    paths += glob.glob(os.path.join(prepare.BUILD, "kmod", "*", "kmod", "ppc.ko"))
    paths += [os.path.join(TOP, "bench", "demo", name) for name in ("experiment.py", "systems.py")]
    for path in sorted(paths):
        with open(path, "rb") as file:
            digest.update(file.read())
    return {"image": os.path.basename(image), "programs": digest.hexdigest()[:16],
            **{key: getattr(options, key) for key in ("mbps", "lat_us", "mode", "workers", "bind",
                                                      "seed", "remote_cost")}}


def check_identity(out, mine):
    path = os.path.join(out, "identity.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            theirs = json.load(file)
        for key, value in mine.items():
            if theirs.get(key) != value:
                raise DemoError(f"{out} holds runs with another {key} ({theirs.get(key)}, now "
                                f"{value}); give another --out or delete it")
    os.makedirs(os.path.join(out, "runs"), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(mine, file)


def read_measured(out):
    path = os.path.join(out, "measured.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def do_guest(options, image, settings, number, runs):
    """One guest; what it did not finish stays missing."""
    raw = os.path.join(options.out, "raw.json")
    if os.path.exists(raw):
        os.unlink(raw)
    settings = {**settings, "measured": read_measured(options.out), "has_series": False,
                "remote_cost": options.remote_cost, "host_load": os.getloadavg()[0],
                "plan": [{"round": number, "case": case, "system": key} for case, key in runs]}
    if settings["host_load"] > 1.5:
        say(f"the host is busy (load {settings['host_load']:.1f}): this round's times will be longer")
    options.timeout = 600 + 120 * len(runs)
    status = command.run_guest(options, image, settings, "demo.guest_rounds")
    if status:
        say(f"round {number}: tools/vm ended with status {status}" +
            (" (the kernel logged a warning, see kernel.log)" if status == 70 else ""))
    if status != DIED and not os.path.exists(raw):
        raise DemoError(f"the guest measured nothing (tools/vm: status {status})")
    return status


def do_round(options, image, settings, number, keys):
    """As many guests as the round needs; the status of the last."""
    for _ in range(TRIES):
        left = rounds.missing(options.out, options.seed, options.rounds, options.cases, keys)
        if number not in left:
            return 0
        status = do_guest(options, image, settings, number, left[number])
        if status != DIED:
            return status
    return DIED


def write_csv(path, runs, measured):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["round", "case", "system", "startup_s", "load_s", "init_s", "cache_s",
                      "bytes_from_disk", "disk_requests", "events_max", "oom_kill", "pgsteal_pages",
                      "memory_peak", "is_equal", "beside_ended", "host_load"])
        for run in runs:
            counters = run["memory_counters"]
            out.writerow([run["rep"], run["memory"], run["system"], run["startup_s"], run["load_s"],
                          run["init_s"], run["cache_s"], run["bytes_from_disk"], run["disk_requests"],
                          counters["events_max"], counters["oom_kill"],
                          counters["stat"].get("pgsteal"), counters["peak"],
                          verdicts.is_equal(run, measured), run.get("beside_ended"),
                          run["host_load"]])


def steps(runs, case):
    """What each switch adds, in the paper's order; without and with modelled locality."""
    lines = []
    for far in ("", systems.MODELLED):
        keys = [key + far for key in ("native", "maio-p", "maio-pa", "maio-pae")]
        for before, after, name in zip(keys, keys[1:], ("prefetch over Native", "affinity on top",
                                                        "bar on top")):
            load = pairs.of(runs, case, after, before, "load_s")
            if load.count:
                lines.append(f"  {name}{' (modelled)' if far else ''}: load x {load}")
    return lines


def finish(options, keys, left, problems):
    """Tables, claims, files; the exit status."""
    measured = read_measured(options.out)
    runs = [run for run in rounds.load(options.out)
            if run["memory"] in options.cases and run["system"] in keys]
    if not runs:
        raise DemoError("nothing was measured; see kernel.log and ppcd.log in " + options.out)
    pair, heading = pairing(options)
    check = verdicts.Claims()
    every = []
    for case in options.cases:
        table = verdicts.rows(runs, measured, case, keys, pair)
        print(verdicts.plain(table, case, heading) + "\n")
        if options.breakdown:
            print("\n".join(steps(runs, case)) + "\n")
        else:
            check.case(case, table, options.workers)
        every += table
    check.finished(every, left, problems)
    for claim in check.results:
        print(f"{ {True: 'PASS', False: 'FAIL', None: 'OPEN'}[claim['ok']]} {claim['text']}: "
              f"{claim['value']}")
    still_open = sum(claim["ok"] is None for claim in check.results)
    if still_open:
        print(f"{still_open} claims are open: they need {pairs.ENOUGH} rounds")
    busy = sum(run["host_load"] > 1.5 for run in runs)
    if busy:
        print(f"{busy} of {len(runs)} runs were in rounds that began on a busy host")
    print("ratios: geometric mean of the pairs of a round, [90% interval: Student's t over logarithms]")
    write_csv(os.path.join(options.out, "runs.csv"), runs, measured)
    with open(os.path.join(options.out, "results.json"), "w", encoding="utf-8") as file:
        json.dump({"version": 1, "measured": measured, "claims": check.results, "problems": problems,
                   "rows": [{key: vars(value) if isinstance(value, pairs.Interval) else value
                             for key, value in line.items()} for line in every]}, file, indent=1)
    print(f"results: {options.out}/results.json, runs.csv, runs/")
    return 1 if any(claim["ok"] is False for claim in check.results) else 0


def main(arguments):
    try:
        options = parse(arguments)
        keys = chosen(options)
        cache = os.path.join(TOP, "build", "models")
        os.makedirs(cache, exist_ok=True)
        if not options.no_build:
            prepare.build()
        image, name, _ = command.model_image(options, cache)
        check_identity(options.out, identity(options, image))
        settings = command.guest_settings(options, name, options.out)
        todo = rounds.missing(options.out, options.seed, options.rounds, options.cases, keys)
        pure_s = os.path.getsize(image) / (options.mbps * 1e6)
        problems = []
        while True:
            seconds = rounds.estimate_s(todo, rounds.load(options.out), pure_s)
            say(f"{sum(map(len, todo.values()))} runs in {len(todo)} rounds to do, about "
                f"{seconds / 60:.0f} min")
            if options.estimate:
                return 0
            if not todo:
                break
            number = min(todo)
            started = time.monotonic()
            todo.pop(number)
            status = do_round(options, image, settings, number, keys)
            say(f"round {number}: {(time.monotonic() - started) / 60:.1f} min")
            if status:
                problems.append(f"round {number}: status {status}")
        left = rounds.missing(options.out, options.seed, options.rounds, options.cases, keys)
        return finish(options, keys, sum(map(len, left.values())), problems)
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
