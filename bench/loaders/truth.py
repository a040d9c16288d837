# SPDX-License-Identifier: Apache-2.0
"""What a loader really reads, by judges that are not the project's; and what is loaded ahead of it.

Of a loader that reads: strace.  Of one that maps: mincore beside a run on a file system without any
read-ahead (read_ahead_kb 0), where a page is in the page cache only because it was faulted or read by
itself, whatever fault-around maps of what is there.
A map is {path below the model's directory: bytearray of pages, 1 = read}.
"""
import contextlib
import json
import os
import re
import subprocess

from demo import machine

from . import maio, residency, runs
from .environment import IMAGE, MODELS, OUT, ROOT, SuiteError

PAGE = 4096
CALLS = "openat,read,pread64,readv,preadv,preadv2,lseek,io_uring_setup,io_submit,sendfile,splice,copy_file_range"
# The path may hold anything but '>'.
CALL = re.compile(r"^(?P<fd>\d+)<(?P<path>[^>]*)>(?P<rest>.*) = (?P<result>-?\d+)(?:<.*>)?(?: .*)?$")


@contextlib.contextmanager
def fast_disk(read_ahead_kb):
    """The image itself as a disk: nothing but the size of requests counts here."""
    device = subprocess.run(["losetup", "--find", "--show", "--read-only", IMAGE], check=True,
                            capture_output=True, text=True).stdout.strip()
    try:
        subprocess.run(["mount", "-t", "ext4", "-o", "ro,noload", device, MODELS], check=True)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
    try:
        machine.Disk(MODELS).set_read_ahead_kb(read_ahead_kb)
        yield
    finally:
        subprocess.run(["umount", MODELS], check=True)


class Reads:
    """Ranges of the files below a directory, from the lines of `strace -f -y`."""

    def __init__(self, directory):
        self.prefix = f"{ROOT}{directory}/"  # strace is outside of the root
        self.ranges, self.at, self.pending, self.foreign = {}, {}, {}, set()

    def add(self, line):
        pid, _, rest = line.partition(" ")
        rest = rest.strip()
        resumed = re.match(r"<\.\.\. (\w+) resumed>(.*)$", rest)
        if resumed:
            rest = self.pending.pop((pid, resumed[1]), "") + resumed[2]
        elif rest.endswith("<unfinished ...>"):
            self.pending[pid, rest.partition("(")[0]] = rest.removesuffix("<unfinished ...>").rstrip()
            return
        name, _, words = rest.partition("(")
        call = CALL.match(words)
        if name == "openat":
            opened = re.search(r" = (\d+)<([^>]*)>$", words)
            if opened and opened[2].startswith(self.prefix):
                self.at[opened[1]] = 0
                if "O_DIRECT" in words:
                    self.foreign.add("O_DIRECT")
        elif name in ("io_uring_setup", "io_submit") and " = -1" not in words:
            self.foreign.add(name)
        elif call and call["path"].startswith(self.prefix) and int(call["result"]) >= 0:
            self._count(name, call)

    def _count(self, name, call):
        path, result = call["path"].removeprefix(self.prefix), int(call["result"])
        if name == "lseek":
            self.at[call["fd"]] = result
        elif name in ("read", "readv"):
            start = self.at.get(call["fd"], 0)
            self.at[call["fd"]] = start + result
            self.ranges.setdefault(path, []).append((start, result))
        elif name == "pread64":
            start = int(call["rest"].rstrip(") ").rpartition(",")[2])
            self.ranges.setdefault(path, []).append((start, result))
        else:
            self.foreign.add(name)


def pages_of(ranges, directory):
    """A map from byte ranges."""
    found = {}
    for path, pieces in ranges.items():
        pages = bytearray(-(-os.path.getsize(f"{directory}/{path}") // PAGE))
        for start, length in pieces:
            if length:
                first, end = start // PAGE, -(-(start + length) // PAGE)
                end = min(end, len(pages))
                pages[first:end] = b"\1" * (end - first)
        found[path] = pages
    return found


def traced(loader):
    log = f"{OUT}/strace-{loader.name}.log"
    with fast_disk(128):
        runs.execute(loader, ["strace", "-f", "-y", "-s", "0", "-o", log, "-e", f"trace={CALLS}"])
        reads = Reads(loader.directory)
        with open(log, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                reads.add(line.rstrip("\n"))
        os.unlink(log)
        if reads.foreign:
            raise SuiteError(f"strace saw {', '.join(sorted(reads.foreign))}, whose ranges it does not show")
        return pages_of(reads.ranges, f"{ROOT}{loader.directory}")


def faulted(loader):
    with fast_disk(0), residency.Watch(f"{ROOT}{loader.directory}") as watch:
        runs.execute(loader)
    return watch.pages


def of_loader(loader):
    return faulted(loader) if loader.is_mapped else traced(loader)


def compare(truth, ahead):
    """(share of what was read that is in the other, share of what was read that the other has too much)."""
    read = sum(sum(pages) for pages in truth.values())
    if not read:
        raise SuiteError("it has read nothing: the judge is wrong")
    both = loaded = 0
    for path, pages in ahead.items():
        loaded += sum(pages)
        wanted = truth.get(path)
        if wanted:
            both += (int.from_bytes(pages, "big") & int.from_bytes(wanted, "big")).bit_count()
    return both / read, (loaded - both) / read


def from_headers(loader):
    """What a template made from the headers alone lists."""
    directory, store = f"{ROOT}{loader.directory}", f"{OUT}/templates/synth"
    os.makedirs(store, exist_ok=True)
    with fast_disk(128):
        words = ["--id", loader.name, "--dir", store]
        for command in (["synth", *words, "--root", directory, directory],
                        ["dump", "--json", "--dir", store, loader.name]):
            done = subprocess.run([f"{maio.BIN}/ppcctl", "template", *command], capture_output=True, text=True,
                                  check=False)
            if done.returncode != 0:
                raise SuiteError(f"ppcctl template {command[0]}: {done.stderr.strip()}")
        ranges = {}
        for group in json.loads(done.stdout)["groups"]:
            for extent in group["sequence"]:
                ranges.setdefault(extent["path"], []).append((extent["offset"], extent["size"]))
        return pages_of(ranges, directory)
