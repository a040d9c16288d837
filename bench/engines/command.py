# SPDX-License-Identifier: Apache-2.0
"""tests/all/engines from its arguments to its exit status."""
import argparse
import os
import signal
import sys

from demo.slowdisk import DiskError

from . import cases, disk, models, ppc, runs
from .store import BUILD, Missing, Store, SuiteError


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="tests/all/engines", description="Inference engines, cold, on a slow disk: natively and with PPC.",
        epilog="Cases: " + ", ".join(case.name for case in cases.CASES))
    parser.add_argument("--case", metavar="NAME", help="one case, one line for each start")
    parser.add_argument("--mode", choices=sorted(ppc.WAYS), default="native", help="how the program is started")
    parser.add_argument("--starts", type=int, default=1, help="so many, one after the other, each cold (default 1)")
    parser.add_argument("--build", metavar="DIR", default=BUILD, help="the build under test (default build)")
    parser.add_argument("--store", metavar="DIR", default=os.path.join(BUILD, "engines"),
                        help="where programs, models and results are kept (default build/engines)")
    parser.add_argument("--limit-mib", type=int, help="another memory group than the case's; 0: none")
    options = parser.parse_args(arguments)
    known = {case.name: case for case in cases.CASES}
    if options.case not in known:
        parser.error(f"no case {options.case}; there are {', '.join(known)}")
    options.case = known[options.case]
    return options


def one_case(options):
    case, store = options.case, Store(options.store)
    limit = case.limit_bytes if options.limit_mib is None else options.limit_mib * (1 << 20) or None
    build = ppc.Build(options.build)
    kind = disk.Memory if case.in_memory else disk.Slow
    with kind(models.ensure(store, case.image), store.path("disk")) as slow:
        directory = os.path.join(slow.mount, case.program.directory)
        way = ppc.WAYS[options.mode](build, store.path("ppc"), directory, case.program.workers)
        with way:
            for number in range(1, options.starts + 1):
                name = f"{case.name} {options.mode} {number}"
                found = runs.execute(store, case.program, way, slow, limit, name.replace(" ", "-"),
                                     case.neighbour)
                print(runs.line(name, found, case.program.unit), flush=True)
    return True


def main(arguments):
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return 0 if one_case(options) else 1
    except Missing as reason:
        print(f"skip engines - {reason}")
        return 0
    except (SuiteError, DiskError) as error:
        print(f"not ok engines - {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
