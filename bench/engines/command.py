# SPDX-License-Identifier: Apache-2.0
"""tests/all/engines from its arguments to its exit status."""
import argparse
import json
import os
import signal
import sys

from demo.slowdisk import DiskError

from . import case_table, cases, catalog, cells, ppc, records, table
from .sitting import Sitting
from .store import BUILD, TOP, Missing, Store, SuiteError

CELLS = os.path.join(TOP, "bench", "results", "cells.jsonl")
RESULTS = os.path.join(TOP, "bench", "results", "engines.jsonl")


def group(text):
    return None if text == "none" else int(text)


def parse(arguments):
    engines = [engine.name for engine in catalog.ENGINES]
    parser = argparse.ArgumentParser(
        prog="tests/all/engines", description="Inference engines, cold, on a slow disk: natively and with PPC.",
        epilog=f"Engines: {', '.join(engines)}.  Cases: {', '.join(case.name for case in cases.CASES)}")
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help="only these")
    parser.add_argument("--minutes", type=float, default=60, help="a sitting (default 60); the next goes on")
    parser.add_argument("--pairs", type=int, default=5, help="of each engine and group (default 5)")
    parser.add_argument("--groups", type=group, nargs="+", default=[None, 95, 85, 70], metavar="PERCENT",
                        help="only these memory groups; none: without a limit")
    parser.add_argument("--results", metavar="FILE", default=RESULTS,
                        help="where starts are recorded (default bench/results/engines.jsonl)")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/engines.md, measure nothing")
    parser.add_argument("--case", metavar="NAME", help="one case, one line for each start")
    parser.add_argument("--mode", choices=sorted(ppc.WAYS), default="native", help="how the case is started")
    parser.add_argument("--starts", type=int, default=1, help="so many, one after the other, each cold (default 1)")
    parser.add_argument("--limit-mib", type=int, help="another memory group than the case's; 0: none")
    parser.add_argument("--table", action="store_true", help="all short cases, or that of --case, natively and with PPC by turns")
    parser.add_argument("--rounds", type=int, default=1, help="of --table (default 1)")
    parser.add_argument("--cells", type=int, metavar="NUMBER", help="starts at random: which reads more than natively?")
    parser.add_argument("--seed", type=int, default=1, help="of --cells (default 1)")
    parser.add_argument("--first", type=int, default=0, help="of --cells: its first one (default 0)")
    parser.add_argument("--cell", type=json.loads, metavar="JSON", help="one cell, as --cells tells it")
    parser.add_argument("--build", metavar="DIR", default=BUILD, help="the build under test (default build)")
    parser.add_argument("--store", metavar="DIR", default=os.path.join(BUILD, "engines"),
                        help="where programs and models are kept (default build/engines)")
    parser.add_argument("--needs", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.case and not cases.find(options.case):
        parser.error(f"no case {options.case}; there are {', '.join(case.name for case in cases.CASES)}")
    unknown = sorted(set(options.engines) - set(engines) - set(catalog.NOT_RUN))
    if unknown:
        parser.error(f"no engine {', '.join(unknown)}; there are {', '.join(engines)}")
    return options


def sitting(options, store, build):
    build.check()
    kept = records.Records(options.results, records.machine(), records.commit(build))
    wanted = [engine for engine in catalog.ENGINES if not options.engines or engine.name in options.engines]
    for name, reason in catalog.NOT_RUN.items():
        if not options.engines or name in options.engines:
            print(f"skip {name} - {reason}")
    measured = Sitting(store, build, kept, options.minutes)
    done = measured.measure(wanted, options.groups, options.pairs)
    print(f"# {'all is recorded' if done else 'the time is up; the same command goes on'}: {options.results}")
    if not done:
        return not measured.failed
    return told(table.verdicts(kept, wanted))


def told(verdicts):
    good = True
    for kind, name, reason in verdicts:
        print(f"{kind} {name}{' - ' + reason if reason else ''}")
        good = good and kind != "not ok"
    return good


def perform(options):
    store, build = Store(options.store), ppc.Build(options.build)
    if options.docs:
        table.write(records.Records(options.results, records.machine(), records.commit(build)))
        return True
    with store.alone():
        if options.case and not options.table:
            case_table.one(cases.find(options.case), options.mode, options.starts, options.limit_mib, store, build)
            return True
        if options.cell:
            print(cells.Cells(store, build).judged({**cells.PLAIN, **options.cell}))
            return True
        if options.cells:
            build.check()
            kept = records.Records(CELLS, records.machine(), records.commit(build), ("machine", "commit", "seed", "cell"))
            return cells.sitting(cells.Options(options.seed, options.first, options.cells, options.minutes),
                                 cells.Cells(store, build), kept)
        if options.table:
            build.check()
            short = [case for case in cases.CASES if case.in_table]
            return case_table.of_cases([cases.find(options.case)] if options.case else short, options.rounds, store,
                                       build)
        return sitting(options, store, build)


def main(arguments):
    options = parse(arguments)
    if options.needs:
        print("\n".join([os.path.realpath(options.store), *needs(options)]))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return 0 if perform(options) else 1
    except Missing as reason:
        print(f"skip engines - {reason}")
        return 0
    except (SuiteError, DiskError) as error:
        print(f"not ok engines - {error}")
        return 1


def needs(options):
    """What has to be unpacked: programs, light, torch."""
    if options.docs:
        return []
    if options.cells or options.cell:
        return ["light"]  # makes the files
    if options.case:
        return cases.find(options.case).needs
    if options.table:
        return sorted({part for case in cases.CASES if case.in_table for part in case.needs})
    wanted = [engine for engine in catalog.ENGINES if not options.engines or engine.name in options.engines]
    return sorted({"light", *(engine.package[0] or "programs" for engine in wanted)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
