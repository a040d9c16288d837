# SPDX-License-Identifier: Apache-2.0
"""Checks on the module: the kernel's own style checker, its extra warnings, what it links to."""
import glob
import os
import re
import sys

from .userspace import is_kernel, output

CHECKPATCH = "build/checkpatch/checkpatch.pl"
FETCH = "set -eu; PPC_TOOL=lint; . tools/lib/common.sh; . tools/lib/checkpatch.sh; fetch_checkpatch"


def checkpatch(files):
    done = output(["bash", "-c", FETCH])
    if done.returncode:
        return [f"checkpatch: {' '.join(done.stdout.split())}"]
    names = [n for n in files if is_kernel(n) and n.endswith((".c", ".h"))]
    if not names:
        return []
    # It leaves a cache in its working directory.
    folder = os.path.dirname(CHECKPATCH)
    done = output(["perl", os.path.basename(CHECKPATCH), "--no-tree", "--strict", "--terse", "--no-summary", "--show-types",
                   "--max-line-length=100", "--ignore", "FILE_PATH_CHANGES,SPDX_LICENSE_TAG", "-f",
                   *[os.path.abspath(n) for n in names]], cwd=folder)
    return [line for line in done.stdout.splitlines() if re.search(r":\d+: (ERROR|WARNING|CHECK)", line)]


def module(_files):
    """W=1 and sparse, for the default kernel and each other one that was fetched; anything said is a finding."""
    if not os.path.exists("kmod/Kbuild"):
        return []
    findings = set()
    tree = re.escape(os.path.realpath("build/kmod-check")) + r"/[^/]+/"
    for release in fetched():
        done = output(["tools/kmod", "--check", *(["--kernel", release] if release else [])])
        lines = [line for line in done.stdout.splitlines() if re.search(r"(warning|error)[: ]", line)]
        if done.returncode and not lines:
            lines = done.stdout.splitlines()[-5:]
        print(f"lint: module: {release or 'the default kernel'}: {len(lines)}", file=sys.stderr)
        findings |= {re.sub(tree, "", line) for line in lines}
    return sorted(findings)


def fetched():
    """Releases for this machine below build/kernels/; '' is the default one, fetched or not."""
    try:
        with open("build/kernels/default", encoding="utf-8") as file:
            default = file.read().strip()
    except FileNotFoundError:
        default = ""
    names = (os.path.dirname(path) for path in glob.glob("build/kernels/*/.complete"))
    others = (os.path.basename(name) for name in names if not os.path.exists(name + "/.debug"))
    return [""] + sorted(name for name in others if name != default and "arm64" not in name)


# What the sources may not name: the first outside of compat/, the second anywhere.
VERSIONS = re.compile(r"LINUX_VERSION_CODE|KERNEL_VERSION|linux/version\.h|PPC_HAVE_")
TRICKS = re.compile(r"\b(kprobe|kretprobe|register_ftrace_function|kallsyms_lookup_name)\b")


def symbols(files):
    """No version numbers outside of compat/, only symbols that each kernel exports."""
    findings = []
    for name in (n for n in files if n.startswith("kmod/") and n.endswith((".c", ".h"))):
        with open(name, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if VERSIONS.search(line) and not name.startswith("kmod/compat/"):
                    findings.append(f"{name}:{number}: a kernel version or what a probe found; what differs belongs into kmod/compat/")
                if TRICKS.search(line):
                    findings.append(f"{name}:{number}: a way around exported symbols")
    built = sorted(glob.glob("build/kmod/*/kmod/ppc.ko"))
    if not built:
        findings.append("build/kmod: no module to look at; build one with tools/kmod")
    return findings + [line for path in built for line in unexported(path)]


def unexported(path):
    """Findings for one built module; says what was looked at."""
    release = path.split("/")[2]
    table = f"build/kernels/{release}/usr/src/linux-headers-{release}/Module.symvers"
    if not os.path.exists(table):
        return [f"{path}: no {table} to compare it with"]
    with open(table, encoding="utf-8") as lines:
        exported = {line.split("\t")[1] for line in lines}
    wanted = {line.split()[-1] for line in output(["nm", "-u", path]).stdout.splitlines()}
    print(f"lint: symbols: {release}: {len(wanted)} used, {len(wanted & exported)} exported", file=sys.stderr)
    return [f"{release}: the module needs {name}, which the kernel does not export"
            for name in sorted(wanted - exported)]
