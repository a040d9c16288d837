# SPDX-License-Identifier: Apache-2.0
"""Checks by other people's tools on user space: clang-format, clang-tidy, shellcheck, codespell."""
import ast
import concurrent.futures
import json
import os
import re
import subprocess

CXX = (".cc", ".h", ".hpp", ".c")
SCRIPT = re.compile(rb"^#!.*\b(ba)?sh\b")
PYTHON = re.compile(rb"^#!.*\bpython3\b")


def output(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **more)


def is_kernel(name):
    return name.startswith("kmod/") or name == "include/ppc/uapi.h"


def cxx(files):
    return [n for n in files if n.endswith(CXX) and not is_kernel(n)]


def starts_with(name, pattern):
    with open(name, "rb") as file:
        return bool(pattern.match(file.readline(200)))


def missing_tool(command, word):
    """A finding when `command` is absent or not the program it should be: silence is no verdict."""
    try:
        said = output([command, "--version"]).stdout
    except FileNotFoundError:
        said = ""
    return [] if word in said else [f"{command} is not usable here, nothing was checked; run tools/setup --lint"]


def formatting(files):
    missing = missing_tool("clang-format", "clang-format version")
    if missing:
        return missing
    # C, and the headers that C programs read, is written in the kernel's style by hand.
    names = [n for n in cxx(files) if not n.endswith(".c") and not ("include/" in n and n.endswith(".h"))]
    done = output(["clang-format", "--dry-run", "--ferror-limit=1", *names])
    return [line for line in done.stdout.splitlines() if "warning:" in line or "error:" in line]


def shell(files):
    missing = missing_tool("shellcheck", "version:")
    if missing:
        return missing
    guest = [n for n in files if n.startswith("tools/lib/guest/")]
    scripts = [n for n in files if n not in guest and starts_with(n, SCRIPT)]
    # Parts without a first line of their own are read by bash; the guest's by busybox ash.
    parts = [n for n in files if n.endswith(".sh") and n not in scripts]
    found = []
    for dialect, names in ((), scripts), (("-s", "bash"), parts), (("-s", "dash"), guest):
        if names:
            found += output(["shellcheck", *dialect, "-f", "gcc", *names]).stdout.splitlines()
    return found


def spelling(files):
    text = [n for n in files if not n.startswith("docs/licenses/") and n != "tools/lib/lint/words.txt"]
    return output(["codespell", "-I", "tools/lib/lint/words.txt", *text]).stdout.splitlines()


def python(files):
    findings = []
    for name in (n for n in files if n.endswith(".py") or starts_with(n, PYTHON)):
        with open(name, encoding="utf-8") as file:
            source = file.read()
        try:
            tree = ast.parse(source, name)
        except SyntaxError as error:
            findings.append(f"{name}:{error.lineno}: {error.msg}")
            continue
        findings += unused_imports(name, tree, source)
    return findings


def unused_imports(name, tree, source):
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                word = (alias.asname or alias.name).split(".")[0]
                if len(re.findall(rf"\b{re.escape(word)}\b", source)) < 2:
                    found.append(f"{name}:{node.lineno}: unused import {word}")
    return found


def tidy_one(name, build):
    done = output(["clang-tidy", "-p", build, "--quiet", name])
    lines = [l for l in done.stdout.splitlines() if re.search(r": (error|warning): ", l)]
    if done.returncode and not lines:
        lines = [f"{name}: clang-tidy failed: {' '.join(done.stdout.split())[-300:]}"]
    return lines


def newest(names):
    return max((os.stat(n).st_mtime_ns for n in names), default=0)


def tidy(files):
    """clang-tidy over our sources; a clean file is not read again until something changed."""
    missing = missing_tool("clang-tidy", "LLVM version")
    if missing:
        return missing
    # Its own tree, with nothing built but generated headers: the programs' one compiles several
    # sources as one.
    build = os.path.join(os.environ.get("PPC_BUILD_DIR") or "build", "lint", "commands")
    done = output(["cmake", "-S", ".", "-B", build, "-DPPC_UNITY=OFF"])
    if not done.returncode:
        done = output(["cmake", "--build", build, "--target", "ppc_generated"])
    if done.returncode:
        return [f"cmake: {' '.join(done.stdout.split())[-300:]}"]
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        known = {os.path.relpath(os.path.realpath(os.path.join(c["directory"], c["file"])))
                 for c in json.load(file)}
    # Tests are left out: the test framework's own macros are most of what would be found.
    names = [n for n in cxx(files) if n in known and not n.startswith("tests/")]
    shared = newest([n for n in cxx(files) if n.endswith((".h", ".hpp"))] + [".clang-tidy"])
    stamps = os.path.join("build", "lint", "tidy")
    os.makedirs(stamps, exist_ok=True)

    def stamp(name):
        return os.path.join(stamps, name.replace("/", "+"))

    def check(name):
        changed = max(shared, newest([name]))
        if os.path.exists(stamp(name)) and os.stat(stamp(name)).st_mtime_ns > changed:
            return []
        found = tidy_one(name, build)
        if not found:
            with open(stamp(name), "w", encoding="utf-8"):
                pass
        return found

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(check, names))
    return sorted({line for lines in results for line in lines})
