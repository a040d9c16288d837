# SPDX-License-Identifier: Apache-2.0
"""tests/all/network-fs from its arguments to its exit status."""
import fcntl
import json
import os
import shutil
import subprocess
import sys

from demo.slowdisk import DiskError
from loaders import environment, maio

from . import command, places, remote, table
from .places import CaseError
from .remote import KINDS, OUT

table.PAGE, table.COMMAND, table.NAME = "docs/backends.md", "tests/all/network-fs --docs", "network-filesystems"
table.TITLES = {"juicefs": "JuiceFS 1.4.2", "s3fs-keep": "s3fs 1.90, `kernel_cache`", "s3fs": "s3fs 1.90",
                "rclone": "rclone 1.75.2", "rclone-cached": "rclone 1.75.2, `--vfs-cache-mode full`"}
command.MOST.update({"juicefs": 0.5, "s3fs-keep": 0.5, "s3fs": 1.03, "rclone": 1.03, "rclone-cached": 1.03})
GUESTS = {"nfs-observer": "models-observer", "nfs-kmod": "models-kmod"}  # parts of tests/all/nodes
# 6.12: the first kernel of the archive whose observer needs no fentry.
GUEST = {"PPC_KERNEL": "6.12", "PPC_TIME_SCALE_PERCENT": "240"}


def why_not(name):
    if not places.knows("fuse"):
        return "this kernel has no fuse"
    if not name.startswith("s3fs"):
        remote.install()
    elif not shutil.which("s3fs"):
        return "no s3fs; install the package that has it"
    return maio.why_not()


def one(name, pairs):
    """False: the case failed.  One that passed with these programs is not repeated."""
    if name in GUESTS:
        return subprocess.run(["tests/all/nodes", GUESTS[name]], env={**os.environ, **GUEST}, check=False).returncode == 0
    command.failed = False
    try:
        if reason := why_not(name):
            print(f"skip {name} - {reason}", flush=True)
            return True
        kept = os.path.join(OUT, f"{name}.{pairs}.{maio.fingerprint()}.json")
        if os.path.exists(kept):
            with open(kept, encoding="utf-8") as file:
                command.measured[name] = json.load(file)
            print(f"ok {name} (earlier, with these programs)", flush=True)
            return True
        with KINDS[name](name) as place:
            command.ahead(name, place, os.path.join(OUT, "templates", name), pairs)
    except (CaseError, DiskError, environment.SuiteError, subprocess.TimeoutExpired) as error:
        command.verdict(False, name, str(error))
    if not command.failed:
        with open(kept, "w", encoding="utf-8") as file:
            json.dump(command.measured[name], file)
    return not command.failed


def main(arguments):
    """--docs: the table in docs/backends.md has the cases then, and bench/results what it is made of."""
    names = [word for word in arguments if not word.startswith("--")] or [*KINDS, *GUESTS]
    if unknown := set(names) - set(KINDS) - set(GUESTS):
        print(f"network-fs: no case {', '.join(sorted(unknown))}; there are {', '.join([*KINDS, *GUESTS])}", file=sys.stderr)
        return 2
    os.makedirs(OUT, exist_ok=True)
    environment.OUT = maio.OUT = OUT
    maio.STATE = os.path.join(OUT, "ppcd")
    with open(f"{OUT}/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        passed = [one(name, 1 if "--quick" in arguments else command.PAIRS) for name in names]
        if "--docs" in arguments:
            table.write(command.measured)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
