# SPDX-License-Identifier: Apache-2.0
"""bench/paper from its arguments to its exit status."""
import argparse
import os
import sys
import time

from demo import host, prepare, session, slowdisk
from engines import ppc as engine_ppc, records as engine_records
from engines.store import Missing, Store

from . import catalog, documents, figures, nodes, programs, sequence, servers, sitting

RESULTS = os.path.join(prepare.TOP, "bench", "results", "paper.jsonl")
TARGETS = ("ppc_policy_null", "ppc-rival", "ppc-template-bench", "ppc-observer-cost")


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="bench/paper", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Repeats figures and tables of the paper (docs/reproduce.md); starts that are recorded are not run again.",
        epilog="figures, with the minutes of two rounds:\n" + "\n".join(f"  {one.name:9} {one.minutes:>4} min  {one.title}" for one in figures.ALL))
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="one of those below, or all: each that runs on this machine itself")
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="of every start (default: %(default)s)")
    parser.add_argument("--for", type=float, dest="seconds", metavar="SECONDS",
                        help="no start begins later; the same command goes on")
    parser.add_argument("--calm", action="store_true", help="starts that other processes disturbed are measured again")
    parser.add_argument("--results", metavar="FILE", default=RESULTS, help="where starts are recorded (default: bench/results/paper.jsonl)")
    parser.add_argument("--store", metavar="DIR", default=os.path.join(prepare.BUILD, "engines"),
                        help="llama-server and its models, of tests/all/engines (default: build/engines)")
    parser.add_argument("--docs", action="store_true", help="write docs/reproduce.md and its pictures from the results, measure nothing")
    parser.add_argument("--no-build", action="store_true", help="use what build/ has")
    options = parser.parse_args(arguments)
    known = [one.name for one in figures.ALL]
    unknown = sorted(set(options.figures) - set(known) - {"all"})
    if unknown:
        parser.error(f"no figure {', '.join(unknown)}; there are {', '.join(known)}")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if not options.figures and not options.docs:
        parser.print_help()
        sys.exit(2)
    return options


def wanted(options):
    return [one for one in figures.ALL if one.name in options.figures or ("all" in options.figures and one.in_all)]


class Measurement:
    """What is missing of the figures that were asked for, until the time is up."""

    def __init__(self, options, records):
        self.options, self.records = options, records
        self.until = time.monotonic() + (options.seconds or float("inf"))
        self.out, self.cache = os.path.join(prepare.BUILD, "paper"), os.path.join(prepare.TOP, "build", "models")
        self.failed = 0
        for folder in (self.out, self.cache):
            os.makedirs(folder, exist_ok=True)

    def starts(self, figure):
        todo = catalog.missing(figure, self.options.rounds, self.records, self.options.calm)
        prepare.say(f"figure {figure}: {len(todo)} starts to measure")
        if not todo:
            return
        if figure == catalog.SERVERS:
            self._run(servers.Servers(Store(self.options.store), engine_ppc.Build(prepare.BUILD), self.records, self.until), "run_all",
                      todo)
            return
        if figure == "12":
            with sequence.on_disks(self.out, self.cache) as places:
                self._run(sequence.Sequence(places, self.records, self.until), "run_all", todo)
            return
        kind, verb, scale = {"10": (sitting.Sitting, "run_memory", catalog.MEMORY_MODEL[1]),
                             "4.3": (nodes.Nodes, "run_all", catalog.NODES_MODEL[1])}.get(figure, (sitting.Sitting, "run_all", None))
        while todo:
            # A disk has one model; rounds come one after the other.
            model = todo[0].model
            mine = [start for start in todo if (start.model, start.round) == (model, todo[0].round)]
            todo = [start for start in todo if start not in mine]
            with sitting.on_disk(model, scale or catalog.MODELS[model], self.out, self.cache) as (settings, disk):
                self._run(kind(settings, disk, self.records, self.until), verb, mine)

    def _run(self, one, verb, todo):
        try:
            getattr(one, verb)(todo)
        finally:
            self.failed += one.failed

    def of(self, figure):
        try:
            for key in figure.starts:
                self.starts(key)
        except Missing as reason:
            print(f"skip {figure.name} - {reason}")
            return
        for program in figure.programs:
            program(self.records)
        print(f"{figure.name}: {figure.title}")
        if figure.table:
            print("\n".join(documents.block(figure, self.records.all)))
            documents.write_pictures(figure, self.records.all, self.out)
        if figure.name in ("1", "8"):
            documents.write_series(self.records.all, self.out)


def measure(options, records):
    chosen = wanted(options)
    if any(one.starts for one in chosen):
        why = host.refusal() or host.disk_refusal()
        if why:
            print(f"skip paper - this host cannot: {why}")
            return 0
        missing = slowdisk.missing_tools()
        if missing:
            raise prepare.DemoError(f"{', '.join(missing)}: not installed; run tools/setup --native")
    if not options.no_build:
        prepare.build_for_host(*TARGETS)
    os.environ["PATH"] = os.pathsep.join([os.path.join(prepare.BUILD, "bin"), os.environ["PATH"], "/usr/sbin", "/sbin"])
    os.environ.setdefault("PPC_POLICY_DIR", os.path.join(prepare.BUILD, "policies"))
    measurement = Measurement(options, records)
    try:
        for one in chosen:
            measurement.of(one)
    except sitting.TimeIsUp:
        print(f"# the time is up; the same command goes on: {options.results}")
    if measurement.failed:
        print(f"not ok paper - {measurement.failed} starts failed; the same command tries them again")
    return 1 if measurement.failed else 0


def main(arguments):
    options = parse(arguments)
    try:
        records = engine_records.Records(options.results, engine_records.machine(),
                                         engine_records.commit(engine_ppc.Build(prepare.BUILD)), catalog.KEYS)
        if options.docs:
            documents.write(records.all)
            return 0
        with host.ends_by_signals():
            return measure(options, records)
    except (prepare.DemoError, slowdisk.DiskError, session.SessionError) as error:
        print(f"paper: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
