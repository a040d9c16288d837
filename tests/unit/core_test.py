#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The core, as -DPPC_CORE=ON configures it: needs no file of extras/, and stays as small as it is.

usage: core_test.py [--show] SOURCE    --show: the lines of code by folder
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
# Lines of code, without comments and blank lines; lower it when the core has become smaller.
MOST = 49450
# What the module and the observer's programs are made of does not pass through CMake's compiler.
BESIDE = ("kmod/", "daemon/backend/observer/observer")
PRODUCT = ("daemon", "include", "kmod", "policies", "tools/ppcctl")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


def lines_of(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    return sum(1 for line in text.splitlines() if line.split("//")[0].strip())


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def sources(build, top):
    """Sources that are compiled, whatever a unity build puts together."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        names = {entry["file"] for entry in json.load(file)}
    for name in list(names):
        if "/Unity/" in name:
            names.remove(name)
            names.update(INCLUDE.findall(read(name)))
    return {os.path.relpath(name, top) for name in names if not name.startswith(build + "/")}


def with_headers(names, top):
    seen, todo = set(), set(names)
    while todo:
        name = todo.pop()
        seen.add(name)
        for wanted in INCLUDE.findall(read(os.path.join(top, name))):
            for place in (wanted, "include/" + wanted, os.path.join(os.path.dirname(name), wanted)):
                if os.path.isfile(os.path.join(top, place)):
                    todo.add(os.path.normpath(place))
                    break
        todo -= seen
    return seen


def beside(top):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), top)
            if path.startswith(BESIDE) and path.endswith((".c", ".h")):
                yield path


def main(arguments):
    shows = "--show" in arguments
    top = os.path.realpath(arguments[-1])
    with tempfile.TemporaryDirectory() as build:
        build = os.path.realpath(build)
        made = subprocess.run(["cmake", "-S", top, "-B", build, "-DPPC_CORE=ON", "-DPPC_TESTS=OFF", "-DPPC_BENCH=OFF"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode:
            print(made.stdout)
            return 1
        files = with_headers(sources(build, top), top) | set(beside(top))
    bad = sorted(name for name in files if name.startswith("extras/"))
    count = collections.Counter()
    for name in files:
        if name.startswith(PRODUCT):
            parts = name.split("/")
            folder = "/".join(parts[:2]) if parts[0] in ("daemon", "policies", "tools") else parts[0]
            folder += "/observer" if "/observer/" in name else ""
            count[folder] += lines_of(read(os.path.join(top, name)))
    if shows:
        for folder, lines in sorted(count.items()):
            print(f"{lines:7} {folder}")
    total = sum(count.values())
    print(f"{total} lines of code in the core, at most {MOST}; {len(bad)} files of extras/")
    for name in bad:
        print(f"{name}: the core includes it")
    return 1 if bad or total > MOST else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
