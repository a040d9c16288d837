# SPDX-License-Identifier: Apache-2.0
"""tests/all/loaders from its arguments to its exit status."""
import argparse
import fcntl
import os
import signal
import sys

from demo.slowdisk import DiskError

from . import catalog, environment, experiment, maio, models, table, unit_tests
from .disk import MBPS, ColdDisk
from .environment import OUT, SuiteError
from .experiment import say, verdict
from .results import Results

DISK_TOLERANCE = 0.10


def parse(arguments):
    names = [loader.name for loader in catalog.LOADERS] + [unit_tests.NAME]
    parser = argparse.ArgumentParser(
        prog="tests/all/loaders", description="Model loaders of other projects, cold, on a slow disk: natively "
        "and with MAIO.  What has been measured is kept in build/loaders and not repeated.",
        epilog="Loaders: " + ", ".join(names))
    parser.add_argument("loaders", nargs="*", metavar="LOADER", help="only these")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/loaders.md too, and what it is made of into bench/results")
    options = parser.parse_args(arguments)
    unknown = set(options.loaders) - set(names)
    if unknown:
        parser.error(f"no loader {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    options.loaders = options.loaders or names
    return options


def measure(options):
    """True when nothing failed."""
    environment.enter()
    models.ensure()
    why_not = maio.why_not()
    key = experiment.key(why_not)
    failed = False
    wanted = [loader for loader in catalog.LOADERS if loader.name in options.loaders]
    if wanted:
        with ColdDisk() as disk:
            speed = disk.measure()
            say(f"disk: {speed:.0f} MB/s")
            if abs(speed / MBPS - 1) > DISK_TOLERANCE:
                raise SuiteError(f"the disk gives {speed:.0f} MB/s instead of {MBPS}: the machine is too busy")
            for loader in wanted:
                results = Results(loader.name, key)
                try:
                    experiment.Experiment(loader, disk, speed, results, why_not).run()
                except (SuiteError, DiskError) as error:
                    verdict("not ok", loader.name, str(error))
                    failed = True
    if unit_tests.NAME in options.loaders:
        unit_tests.run(Results(unit_tests.NAME, key), why_not)
    table.write(why_not, into_docs=options.docs)
    return not failed


def main(arguments):
    options = parse(arguments)
    os.makedirs(OUT, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with open(f"{OUT}/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return 0 if measure(options) else 1
        except (SuiteError, DiskError) as error:
            verdict("not ok", "setup", str(error))
            return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
