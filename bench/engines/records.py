# SPDX-License-Identifier: Apache-2.0
"""What has been measured: one JSON object a line, appended when a start is over, so that a sitting that is ended
loses nothing.  Runs are compared within one machine and one commit only.

{"machine": text, "commit": text, "engine": name, "share": null or percent, "pair": number, "cell": name, "found": {}}
cell: native, native-again, first, second, plain.  found: of runs.execute, or {"failed": reason}.
"""
import json
import os
import platform
import subprocess

KEYS = ("machine", "commit", "engine", "share", "pair", "cell")


def machine():
    """Its processor, CPUs, memory and kernel."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{model}, {os.cpu_count()} CPUs, {round(memory / (1 << 30))} GiB, Linux {platform.release().partition('-')[0]}"


PRODUCT = ("daemon", "include", "policies", "tools/ppcctl")


def commit(build):
    """The last one of the build's tree that changed the product; a digest of the programs where there is none, or
    where the tree has changes that are not committed."""
    tree = ["git", "-C", os.path.dirname(build.folder)]
    changed, found = (subprocess.run(command, capture_output=True, text=True, check=False) for command in
                      ([*tree, "status", "--porcelain", "--untracked-files=no", "--", *PRODUCT],
                       [*tree, "log", "-1", "--format=%h", "--", *PRODUCT]))
    clean = changed.returncode == 0 and not changed.stdout.strip()
    return found.stdout.strip() if clean and found.returncode == 0 and found.stdout.strip() else build.key()


class Records:
    """Of one file; lines of other machines and commits stay.  keys: the members of a line that say what was measured."""

    def __init__(self, path, machine_name, commit_name, keys=KEYS):
        self.path, self.machine, self.commit, self.keys = path, machine_name, commit_name, keys
        self.all = read(path)
        self.mine = {self.key_of(record): record["found"] for record in self.all
                     if (record["machine"], record["commit"]) == (machine_name, commit_name)}

    def key_of(self, record):
        return tuple(record[name] for name in self.keys[2:])

    def get(self, *key):
        return self.mine.get(key)

    def add(self, *key_and_found):
        *key, found = key_and_found
        record = dict(zip(self.keys, (self.machine, self.commit, *key))) | {"found": found}
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        with open(self.path, "a+", encoding="utf-8") as file:
            # A line that was cut off must not take this one along.
            file.seek(max(0, file.tell() - 1))
            gap = "" if file.read() in ("", "\n") else "\n"
            file.write(f"{gap}{json.dumps(record, sort_keys=True)}\n")
        self.all.append(record)
        self.mine[tuple(key)] = found

    def ratios(self, engine, share, cell, value):
        """Of a cell to native, pair by pair.  value(found): a number or None."""
        found = []
        for (name, group, pair, of), run in sorted(self.mine.items(), key=str):
            native = self.mine.get((engine, share, pair, "native"))
            if (name, group, of) == (engine, share, cell) and native:
                ends = value(run), value(native)
                if all(ends):
                    found.append(ends[0] / ends[1])
        return found


def read(path):
    """A last line that was cut off by a kill counts for nothing."""
    records = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    records.append(json.loads(line))
                except ValueError:
                    continue
    return records
