# SPDX-License-Identifier: Apache-2.0
"""Checks on the module: the kernel's own style checker, its extra warnings, what it links to."""
import glob
import os
import re

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
    """W=1 and sparse; anything said is a finding."""
    if not os.path.exists("kmod/Kbuild"):
        return []
    done = output(["tools/kmod", "--check"])
    lines = [line for line in done.stdout.splitlines() if re.search(r"(warning|error)[: ]", line)]
    if done.returncode and not lines:
        lines = done.stdout.splitlines()[-5:]
    tree = re.escape(os.path.realpath("build/kmod-check")) + r"/[^/]+/"
    return sorted({re.sub(tree, "", line) for line in lines})


def symbols(_files):
    """Only symbols that the kernel exports, found without tricks."""
    findings = []
    for path in glob.glob("build/kmod/*/kmod/ppc.ko"):
        release = path.split("/")[2]
        table = f"build/kernels/{release}/usr/src/linux-headers-{release}/Module.symvers"
        if not os.path.exists(table):
            continue
        with open(table, encoding="utf-8") as lines:
            exported = {line.split("\t")[1] for line in lines}
        for line in output(["nm", "-u", path]).stdout.splitlines():
            name = line.split()[-1]
            if name not in exported:
                findings.append(f"{release}: the module needs {name}, which the kernel does not export")
    return findings
