#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures of artifacts whose disk loses power, and clones on file systems that make them.

usage: artifacts.py [cuts=N] [seed=N]      as root, in a mount namespace of its own, with ppcctl in PATH
A file system lies in an image behind a loop device; what the image holds while a capture stands still at a
moment of no choice is what the disk has when power goes.  A copy of it is mounted, its journal replayed.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# (name, make it, MiB, makes clones)
KINDS = (("ext4", ["mkfs.ext4", "-q", "-F"], 96, False),
         ("xfs", ["mkfs.xfs", "-q", "-f", "-m", "reflink=1"], 320, True),
         ("btrfs", ["mkfs.btrfs", "-q", "-f"], 256, True))
FILES = 60


def run(*words, check=True):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=check)


class Place:
    """A file system in an image, and an engine's cache that is in it or not."""

    def __init__(self, top, kind, make, size):
        self.top, self.kind = top, kind
        self.image, self.mount = f"{top}/{kind}.img", f"{top}/{kind}"
        with open(self.image, "wb") as file:
            file.truncate(size << 20)
        run(*make, self.image)
        os.mkdir(self.mount)
        run("mount", "-o", "loop", self.image, self.mount)

    def close(self):
        run("umount", self.mount)

    def command(self, verb, cache, store=None):
        return ["ppcctl", "artifact", verb, "--dir", store or f"{self.mount}/store", "--json",
                *([] if verb == "verify" else ["--id", "svc1", "--root", f"triton={cache}"])]


def next_state(cache, chance, first=False):
    """What an engine leaves: some files new, some changed."""
    os.makedirs(cache, exist_ok=True)
    for number in range(FILES):
        if first or chance.random() < 0.4:
            with open(f"{cache}/k{number}", "wb") as file:
                file.write(chance.randbytes(300) * chance.randrange(1, 300))


def environment(home):
    os.makedirs(home, exist_ok=True)
    os.environ.update(HOME=home, TMPDIR=home, USER="nobody-of-this-name")


def cut(place, cache, chance, longest):
    """One capture that stands still after a while of no choice; the problem, or ''."""
    next_state(cache, chance)
    with subprocess.Popen(place.command("capture", cache), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as capture:
        time.sleep(chance.random() * longest)
        capture.send_signal(signal.SIGSTOP)
        copy = f"{place.top}/cut.img"
        run("cp", "--sparse=always", place.image, copy)
        capture.send_signal(signal.SIGCONT)
        capture.wait()
    mounted = f"{place.top}/cut"
    os.makedirs(mounted, exist_ok=True)
    run("mount", "-o", "loop" + (",nouuid" if place.kind == "xfs" else ""), copy, mounted)
    try:
        verified = run(*place.command("verify", cache, f"{mounted}/store"), check=False)
        told = json.loads(verified.stdout)
        if verified.returncode:
            return next((bundle["error"] for bundle in told.get("bundles", ()) if "error" in bundle), str(told))
        return "" if len(told["bundles"]) == 1 else "the bundle is gone"
    finally:
        run("umount", mounted)


def cuts(place, count, chance):
    cache = f"{place.top}/cache"
    next_state(cache, chance, first=True)
    started = time.monotonic()
    run(*place.command("capture", cache))
    longest = 1.5 * (time.monotonic() - started)
    for number in range(count):
        problem = cut(place, cache, chance, longest)
        if problem:
            return f"cut {number}: {problem}"
    shutil.rmtree(cache)
    return ""


def clones(place):
    """Capture and restore within one file system share their blocks."""
    chance = random.Random(1)
    cache, store = f"{place.mount}/cache", f"{place.mount}/clones"
    next_state(cache, chance, first=True)
    captured = json.loads(run(*place.command("capture", cache, store)).stdout)
    shutil.rmtree(cache)
    restored = json.loads(run(*place.command("restore", cache, store)).stdout)
    if restored["cloned"] != FILES or restored["files"] != FILES or captured["files"] != FILES:
        return f"captured {captured}, restored {restored}"
    return ""


def main(words):
    count, seed = 20, random.randrange(1 << 30)
    for word in words:
        name, _, value = word.partition("=")
        if name == "cuts":
            count = int(value)
        elif name == "seed":
            seed = int(value)
        else:
            print(__doc__)
            return 2
    failed = False
    with tempfile.TemporaryDirectory(prefix="ppc-artifacts-", dir="/var/tmp") as top:
        environment(f"{top}/home")
        for kind, make, size, has_clones in KINDS:
            try:
                place = Place(top, kind, make, size)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"skip {kind} - this host cannot: {getattr(error, 'stderr', None) or error}".replace("\n", " "))
                continue
            try:
                for name, problem in (("power-cuts", cuts(place, count, random.Random(seed))),
                                      *((("clones", clones(place)),) if has_clones else ())):
                    failed = failed or bool(problem)
                    print(f"not ok {kind}/{name} - seed={seed}: {problem}" if problem else f"ok {kind}/{name}", flush=True)
            finally:
                place.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
