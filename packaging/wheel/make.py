# SPDX-License-Identifier: Apache-2.0
"""Packs a wheel: programs into the environment's bin/, policies into its lib/, the report's renderer into its share/."""
import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile

NAME = "ppc_load"
SUMMARY = "Programmable page cache: loads a model's files into memory before the inference engine asks for them"
PROGRAMS = ("ppcctl", "ppcd", "ppc-runner")
POLICIES = ("null", "readahead", "eager", "maio", "kvtier")
REPORT = ("__init__.py", "frame.py", "start.py", "svg.py")
TIME = (2020, 1, 1, 0, 0, 0)  # of every file in it: the same sources make the same wheel
MOST_BYTES = 15 << 20


def content(path):
    with open(path, "rb") as file:
        return file.read()


def contents(options, tag):
    """Names and bytes of all files but the record, programs with a mode of their own."""
    root = f"{NAME}-{options.version}"
    for name in PROGRAMS:
        yield f"{root}.data/scripts/{name}", content(os.path.join(options.built, "bin", name)), 0o755
    for name in POLICIES:
        file = f"libppc_{name}.so"
        yield (f"{root}.data/data/lib/ppc/policies/{file}", content(os.path.join(options.built, "policies", file)), 0o755)
    for name in REPORT:
        yield f"{root}.data/data/share/ppc/report/{name}", content(os.path.join(options.top, "tools", "lib", "report", name)), 0o644
    yield f"{root}.dist-info/licenses/LICENSE", content(os.path.join(options.top, "LICENSE")), 0o644
    metadata = (f"Metadata-Version: 2.1\nName: {NAME.replace('_', '-')}\nVersion: {options.version}\nSummary: {SUMMARY}\n"
                "License: Apache-2.0\nRequires-Python: >=3.6\n")
    yield f"{root}.dist-info/METADATA", metadata.encode(), 0o644
    wheel = f"Wheel-Version: 1.0\nGenerator: packaging/build-wheel\nRoot-Is-Purelib: false\nTag: {tag}\n"
    yield f"{root}.dist-info/WHEEL", wheel.encode(), 0o644


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def pack(path, options, tag):
    record = f"{NAME}-{options.version}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        def add(name, data, mode):
            info = zipfile.ZipInfo(name, TIME)
            info.external_attr = (0o100000 | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, data)
        for name, data, mode in contents(options, tag):
            add(name, data, mode)
            lines.append(f"{name},{digest(data)},{len(data)}")
        add(record, "\n".join([*lines, f"{record},,", ""]).encode(), 0o644)


def check(path, platform):
    """Why the wheel must not be given away, or ''."""
    size = os.path.getsize(path)
    if size > MOST_BYTES:
        return f"it has {size} bytes; {MOST_BYTES} are allowed"
    said = subprocess.run([os.path.join(os.path.dirname(sys.executable), "auditwheel"), "show", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = re.search(r'consistent with\s+the following platform tag:\s+"([^"]+)"', said.stdout)
    if said.returncode or not found or found.group(1) != platform:
        return "auditwheel show: " + " ".join(said.stdout.split())
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("version", "out", "built", "top", "glibc"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    platform = f"manylinux_{options.glibc.replace('.', '_')}_x86_64"
    tag = f"py3-none-{platform}"
    path = os.path.join(options.out, f"{NAME}-{options.version}-{tag}.whl")
    pack(path + ".new", options, tag)
    os.replace(path + ".new", path)
    why = check(path, platform)
    if why:
        raise SystemExit(f"build-wheel: {path}: {why}")
    print(path)


if __name__ == "__main__":
    main()
