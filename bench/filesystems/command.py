# SPDX-License-Identifier: Apache-2.0
"""tests/all/observer-files from its arguments to its exit status."""
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time

from demo import machine
from demo.control import find_key
from demo.slowdisk import DiskError
from loaders import environment, maio

from . import nfs, places, table
from .places import BUILD, OUT, CaseError, Place

INIT_S = 2.0
PAIRS = 3
CASES = {"ext4": "ext4", "xfs": "xfs", "btrfs": "btrfs", "overlay": "ext4", "fuse-keep": "ext4",
         "fuse-drop": "ext4", "direct": "ext4", "nfs": "nfs"}
INSIDE = "nfs-inside"  # in the guest
TWICE = 1.05  # bytes that the disk reads, of the model's
MOST = {"fuse-keep": 0.5, "nfs": 0.5, "fuse-drop": 1.03, "direct": 1.03}  # of Native's start-up
failed = False
measured = {}  # of a case: its pairs, as table.py wants them


def verdict(is_right, name, why=""):
    global failed
    failed |= not is_right
    print(f"{'ok' if is_right else 'not ok'} {name}{' - ' + why if why else ''}", flush=True)


def say(text):
    print(f"# {text}", flush=True)


def why_not(name):
    tools = {"xfs": ["mkfs.xfs"], "btrfs": ["mkfs.btrfs", "btrfs"]}.get(name, [])
    tools += ["bindfs"] if name.startswith("fuse") else []
    for tool in ["nbdkit", "nbdfuse", "mkfs.ext4", *tools]:
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/sbin:/usr/sbin"):
            return f"no {tool}; install the package that has it"
    for kind in {CASES[name], "fuse" if name.startswith("fuse") else "ext4", name if name == "overlay" else "ext4"}:
        if not places.knows(kind):
            return f"this kernel has no {kind}"
    return maio.why_not()


def load(place, directory, prefix=(), mode="mmap"):
    """One cold start of the loader: seconds, checksum, bytes that the disk read."""
    before = place.read_bytes()
    flags = ["--mode", "read", "--direct"] if mode == "direct" else ["--mode", mode]
    command = [*prefix, f"{BUILD}/bin/loadmodel", "--workers", "2", "--init-s", str(INIT_S if mode != "direct" else 0),
               *flags, directory]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode != 0:
        raise CaseError(f"loadmodel: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    report = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    place.check()
    return {"s": report["startup_s"], "checksum": report["checksum"], "disk": place.read_bytes() - before,
            "bytes": report["file_bytes"], "busy": os.getloadavg()[0]}


def drops():
    """How often somebody has emptied this machine's page cache."""
    return next(int(line.split()[1]) for line in machine.read_text("/proc/vmstat").splitlines()
                if line.startswith("drop_pagecache"))


def again(place, start):
    """A cold start; anew if somebody else on the machine emptied the page cache meanwhile."""
    for _ in range(6):
        place.make_cold()
        before = drops()
        found = start()
        if drops() == before:
            return found
        say(f"{place.name}: somebody emptied the page cache meanwhile; once more")
    raise CaseError("others on this machine empty the page cache all the time")


def with_maio(place, store, mode="mmap"):
    """The template is kept only as the run that counts left it."""
    before = f"{store}.before"
    shutil.rmtree(before, ignore_errors=True)
    if os.path.exists(store):
        shutil.copytree(store, before)

    def start():
        shutil.rmtree(store, ignore_errors=True)
        if os.path.exists(before):
            shutil.copytree(before, store)
        with maio.Maio(place.shown, store, place.backend) as policy:
            found = load(place, place.shown, policy.prefix("files"), mode)
            status = policy.status()
        found["lost"] = find_key(status, "events_lost") or 0
        found["loaded"] = find_key(find_key(status, "loader") or {}, "loaded") or 0
        found["limits"] = find_key(status, "limits") or []
        return {**found, "status": status}
    return again(place, start)


def native(place, mode="mmap"):
    return again(place, lambda: load(place, place.directory, mode=mode))


def show(name, found):
    more = f", {found['loaded'] / 1e6:.0f} MB loaded ahead" if "loaded" in found else ""
    say(f"{name}: {found['s']:.2f} s, disk {found['disk'] / 1e6:.0f} MB of {found['bytes'] / 1e6:.0f}{more}")


def judge(name, native_runs, runs):
    """Bytes and, where the case has one, the ratio of start-ups: the best of the pairs, since others use the CPUs."""
    right = {run["checksum"] for run in native_runs + runs}
    verdict(len(right) == 1, f"{name}/bytes", "" if len(right) == 1 else f"checksums {right}")
    verdict(all(run["lost"] == 0 for run in runs), f"{name}/lost-events")
    worst = max(run["disk"] / run["bytes"] for run in runs)
    allowed = max(TWICE, 1.05 * max(run["disk"] / run["bytes"] for run in native_runs))
    verdict(worst <= allowed, f"{name}/read-once", f"{worst:.3f} of the model's bytes, at most {allowed:.3f}")


def ratio(name, native_runs, runs):
    measured[name] = table.raw(native_runs, runs)
    pairs = sorted(one["s"] / other["s"] for one, other in zip(runs, native_runs))
    middle = pairs[len(pairs) // 2]
    say(f"{name}: start-up {middle:.3f} x Native ({', '.join(f'{pair:.3f}' for pair in pairs)})")
    if name in MOST:
        verdict(middle <= MOST[name], f"{name}/start-up", f"{middle:.3f} x Native, at most {MOST[name]}")


def ahead(name, place, store, pairs):
    """Recorded once, then replayed in turn with native starts."""
    shutil.rmtree(store, ignore_errors=True)
    first = with_maio(place, store)
    show(f"{name} recorded", first)
    verdict(any(os.scandir(store)), f"{name}/template")
    natives, replayed = [], []
    for _ in range(pairs):
        natives.append(native(place))
        show(f"{name} native", natives[-1])
        replayed.append(with_maio(place, store))
        show(f"{name} replayed", replayed[-1])
    judge(name, natives, [first, *replayed])
    share = min(run["loaded"] / run["bytes"] for run in replayed)
    if place.limit:
        said = [line for line in replayed[-1]["limits"] if place.limit in line]
        verdict(bool(said), f"{name}/status", "" if said else f"status does not say: {place.limit}")
    else:
        verdict(share >= 0.9, f"{name}/loaded", f"{share:.3f} of the bytes were loaded ahead")
    ratio(name, natives, replayed)


def direct(name, place, store, pairs):
    """A loader with O_DIRECT and a template made from the headers."""
    natives, runs = [], []
    for _ in range(pairs):
        natives.append(native(place, "direct"))
        show(f"{name} native", natives[-1])
        shutil.rmtree(store, ignore_errors=True)
        runs.append(with_maio(place, store, "direct"))
        show(f"{name} beside MAIO", runs[-1])
    judge(name, natives, runs)
    said = [line for line in runs[-1]["limits"] if "with O_DIRECT, past the page cache" in line]
    verdict(bool(said), f"{name}/status", "" if said else "status does not tell of the reader with O_DIRECT")
    ratio(name, natives, runs)


def read_many(folder):
    """Cold, whatever was read before."""
    for number in range(places.MANY):
        with open(f"{folder}/many/{number}", "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.read()
    time.sleep(1)


def twins(place, store):
    """Two btrfs snapshots, whose inodes agree in device, number and generation: a read of one is no miss of the
    other, also where its inodes have got the addresses that the other's had."""
    place.make_cold()
    twin = os.path.join(os.path.dirname(place.directory), "twin")
    numbers = [os.stat(f"{folder}/many/0").st_ino for folder in (place.directory, twin)]
    with maio.Maio(place.directory, store) as policy:
        def misses():
            return find_key(policy.status(), "miss_bytes") or 0

        start = misses()
        read_many(twin)
        of_twin = misses() - start
        read_many(place.directory)
        own = misses() - start - of_twin
        for _ in range(3):
            # All inodes without pages leave the kernel's cache.
            for folder in (place.directory, twin):
                for number in range(places.MANY):
                    with open(f"{folder}/many/{number}", "rb") as file:
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            machine.write_text("/proc/sys/vm/drop_caches", "2")
            before = misses()
            read_many(twin)
            of_twin += misses() - before
        read_many(place.directory)  # met at new addresses, learnt anew
        before = misses()
        read_many(place.directory)
        learnt = misses() - before
    whole = places.MANY * places.MANY_BYTES
    verdict(numbers[0] == numbers[1] and of_twin == 0 and own >= 0.9 * whole, "btrfs/snapshots",
            f"inodes {numbers}, missed {of_twin} bytes of the twin, {own} of the own {whole}")
    verdict(learnt >= 0.9 * whole, "btrfs/addresses", f"missed {learnt} of {whole} after the inodes moved")


def inside(pairs):
    """In the guest."""
    with nfs.NfsPlace() as place:
        ahead("nfs", place, "/tmp/observer-nfs-templates", pairs)


def in_guest():
    global failed
    places.ensure_model(f"{places.SMALL}/model", 240)
    failed |= nfs.boot(["--quick", INSIDE]) != 0


def one(name, pairs):
    if name in (INSIDE, "nfs"):
        return inside(pairs) if name == INSIDE else in_guest()
    reason = why_not(name)
    if reason:
        print(f"skip {name} - {reason}", flush=True)
        return None
    with Place(name if name != "direct" else "ext4", CASES[name]) as place:
        store = os.path.join(OUT, "templates", name)
        (direct if name == "direct" else ahead)(name, place, store, pairs)
        if name == "btrfs":
            twins(place, store + ".twins")
    return None


def main(arguments):
    """--docs: the table in docs/backends.md has the cases then, and bench/results what it is made of."""
    names = [word for word in arguments if not word.startswith("--")] or list(CASES)
    pairs = 1 if "--quick" in arguments else PAIRS
    unknown = set(names) - set(CASES) - {INSIDE}
    if unknown:
        print(f"observer-files: no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    os.makedirs(OUT, exist_ok=True)
    environment.OUT = maio.OUT = OUT
    maio.STATE = os.path.join(OUT, "ppcd")
    with open(f"{OUT}/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if set(names) - {INSIDE, "nfs"}:
            places.ensure_model()
        for name in names:
            try:
                one(name, pairs)
            except (CaseError, DiskError, environment.SuiteError, subprocess.TimeoutExpired) as error:
                verdict(False, name, str(error))
        if "--docs" in arguments:
            table.write(measured)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
