# SPDX-License-Identifier: Apache-2.0
"""Rules of this project's own: who includes whom, how long a file is, what must not be written."""
import os
import re

SOURCE = (".c", ".h", ".cc", ".hpp")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# Floors of the runtime, lowest first: a folder includes itself and what stands on a lower floor.
FLOORS = (("base",), ("machine", "policy", "wire"), ("xpu", "backend"), ("cache",), ("exec",), ("runner",),
          ("client", "supervisor"))
# Nor these of a lower floor.
APART = {("cache", "policy"), ("supervisor", "runner"), ("supervisor", "exec"), ("supervisor", "cache"),
         *(("client", folder) for floor in FLOORS for folder in floor if folder not in ("base", "wire", "client"))}
# The same of MAIO; its own folder is the top.
MAIO_FLOORS = (("base",), ("template",), ("record", "follow"), ("synth", "passes"), ("",))


def read(name):
    with open(name, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def room(path):
    """(house, number of the floor, folder) of a source in a house with floors, or None."""
    for house, floors in (("daemon/", FLOORS), ("policies/maio/", MAIO_FLOORS)):
        if path.startswith(house):
            folder = path[len(house):].rpartition("/")[0].partition("/")[0]
            for number, names in enumerate(floors):
                if folder in names:
                    return house, number, folder
    return None


def uapi_allowed(name):
    return name.startswith(("kmod/", "tests/", "daemon/backend/", "bench/"))


def include_error(name, target):
    """Why `name` must not include `target`, or ''."""
    if target == "ppc/uapi.h" and not uapi_allowed(name):
        return "only the module, daemon/backend and tests see the kernel interface"
    if name.startswith("include/") and target.startswith(("daemon/", "policies/", "kmod/")):
        return "a public header includes public headers only"
    if target.startswith("extras/") and not name.startswith("extras/"):
        return "the core builds without extras/"
    if name.startswith(("policies/", "extras/kvtier/")) and target.startswith("daemon/"):
        return "a policy sees ppc.h and ppc.hpp, never the daemon"
    if name.startswith(("daemon/", "tools/", "bench/", "sim/", "extras/")) and target.startswith("policies/"):
        return "policies are loaded, not included"
    if name.startswith("kmod/") and target.startswith("daemon/"):
        return "kernel and user space share uapi.h only"
    upper, lower = room(name), room(target)
    if upper and lower and upper[0] == lower[0] and upper[2] != lower[2] and (
            lower[1] >= upper[1] or (upper[2], lower[2]) in APART):
        return f"{upper[0]}{upper[2]} must not depend on {lower[0]}{lower[2]}"
    return ""


def includes(files):
    findings = []
    for name in (n for n in files if n.endswith(SOURCE)):
        for number, line in enumerate(read(name), 1):
            match = INCLUDE.match(line)
            error = include_error(name, match[2]) if match else ""
            if error:
                findings.append(f"{name}:{number}: includes {match[2]}: {error}")
    return findings


def limit(name):
    if name.startswith("kmod/") and name.endswith(".c"):
        return 500
    if name.endswith(SOURCE + (".py", ".sh")) or name.startswith("tools/") and "." not in os.path.basename(name):
        return 400
    return 0


def sizes(files):
    findings = []
    for name in files:
        most = limit(name)
        if most and len(read(name)) > most:
            findings.append(f"{name}: {len(read(name))} lines, at most {most}: split it by concept")
    return findings


# (what, where it is allowed, why)
FORBIDDEN = (
    (re.compile(r"\b(LINUX_VERSION_CODE|KERNEL_VERSION)\b"), ("kmod/compat/", "tools/lib/lint/"),
     "kernel differences live in kmod/compat/"),
    (re.compile(r"\b(kallsyms_lookup_name|register_kprobe|register_kretprobe)\b"), ("tools/lib/lint/",),
     "exported symbols only"),
    (re.compile(r"(^|[^\w.\"-])/(work|root|home)/"), ("tools/lib/lint/",), "a path of one machine"),
    (re.compile(r"CONFIG_PPC"), ("tools/lib/lint/",), "CONFIG_PPC* belongs to PowerPC"),
    (re.compile(r"\b(TODO|FIXME|XXX)\b"), ("tools/lib/lint/",), "finish it or say it in the documents"),
)


def words(files):
    findings = []
    for name in files:
        if name.startswith("docs/licenses/"):
            continue
        for number, line in enumerate(read(name), 1):
            for pattern, places, why in FORBIDDEN:
                if pattern.search(line) and not name.startswith(places):
                    findings.append(f"{name}:{number}: {pattern.search(line)[0].strip()}: {why}")
    return findings


# BPF programs, and what is built with the kernel's own sources.
IN_KERNEL = ("bench/observer/empty.bpf.c", *("daemon/backend/observer/" + name for name in (
    "observer.bpf.c", "observer_maps.h", "observer_names.h", "observer_note.h", "kernel_types.h")),
    *("extras/readahead/" + name for name in ("maio_window.bpf.c", "maio_window.h", "tests/runner.c")))


def licences(files):
    """The first lines of every source name its licence, the right one for its place."""
    findings = []
    for name in files:
        base = os.path.basename(name)
        if not (name.endswith(SOURCE + (".py", ".sh", ".in")) or base in ("Kbuild", "init", "run")):
            continue
        head = " ".join(read(name)[:3])
        wanted = "Apache-2.0"
        if name.startswith("kmod/") or name == "Kbuild" or name in IN_KERNEL:
            wanted = "GPL-2.0-only"
        elif name == "include/ppc/uapi.h":
            wanted = "GPL-2.0 WITH Linux-syscall-note"
        if f"SPDX-License-Identifier: {wanted}" not in head:
            findings.append(f"{name}: SPDX-License-Identifier: {wanted} missing in its first lines")
    return findings
