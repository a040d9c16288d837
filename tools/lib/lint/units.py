# SPDX-License-Identifier: Apache-2.0
"""Checks of packaging/: what units must not set, systemd's own judgement of them, and what the image installs."""
import os
import re
import shutil
import subprocess
import tempfile

from lint import image

UNITS = ("packaging/ppcd.service.in", "packaging/ppcd.socket", "packaging/ppc@.service.in",
         "packaging/examples/srv-models.mount")
DROP_INS = {"packaging/examples/observer-only.conf": "ppcd.service", "packaging/examples/service.conf": "model.service"}
# Options that give the service a mount namespace: its copy of the mounts keeps an unmounted model directory alive.
NAMESPACES = re.compile(r"(Private(Tmp|Devices|Mounts|Users)|Protect(System|Home|KernelTunables|KernelModules|KernelLogs"
                        r"|ControlGroups|Proc)|ProcSubset|(ReadWrite|ReadOnly|Inaccessible|Exec|NoExec)Paths|Bind(ReadOnly)?Paths"
                        r"|TemporaryFileSystem|Root(Directory|Image)|MountAPIVFS|DynamicUser|MountFlags)\s*=(.*)")
OFF = ("", "no", "false", "off", "0", "n", "f")
# What bounds ppcd itself, and what must not: a limit of its group's memory would be one of the page cache that its
# runners load, a quota would stop them in the middle of a service's start.
BOUNDS = ("LimitDATA", "TasksMax", "CPUWeight")
NO_BOUNDS = ("MemoryHigh", "MemoryMax", "MemoryLimit", "CPUQuota")
# What ppcd lets itself and its runners call: one list, which the unit's own filter may not undercut.
CALLS = "daemon/supervisor/system_calls.txt"
# The exposure that systemd sees, in tenths: it may not grow unnoticed.
MOST_EXPOSED = 52


def lines_of(name):
    with open(name, encoding="utf-8") as file:
        return file.read().splitlines()


def settings(name):
    """(line number, key, value) of each setting."""
    for number, line in enumerate(lines_of(name), 1):
        key, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")):
            yield number, key.strip(), value.strip()


def is_on(value):
    return value.lower() not in OFF


def hides_openat2(unit):
    """Options whose seccomp filter fails openat2, by which alone runners open files of a mount."""
    findings = []
    filters = []
    for number, key, value in settings(unit):
        if key == "RestrictSUIDSGID" and is_on(value):
            findings.append(f"{unit}:{number}: {key}= hides openat2 from runners")
        elif key == "SystemCallFilter" and is_on(value):
            filters.append((number, value))
    named = any("openat2" in value.split() for _, value in filters)
    for number, value in filters:
        if value.startswith("~") or not named:
            findings.append(f"{unit}:{number}: SystemCallFilter= must be a list of what is allowed that names openat2")
    return findings


def namespaces(unit):
    return [f"{unit}:{number}: {key}= makes a mount namespace, which keeps unmounted directories alive"
            for number, key, value in settings(unit) if NAMESPACES.match(f"{key}={value}") and is_on(value)]


def bounds(unit):
    told = {key: (number, value) for number, key, value in settings(unit)}
    findings = [f"{unit}: {key}= is not set: nothing bounds what ppcd takes itself" for key in BOUNDS
                if told.get(key, (0, ""))[1] in ("", "infinity")]
    return findings + [f"{unit}:{told[key][0]}: {key}= would hold back what is loaded for services" for key in NO_BOUNDS
                       if key in told]


def analyze(*arguments):
    done = subprocess.run(["systemd-analyze", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    return done.stdout.splitlines(), done.returncode


def calls_of(group):
    """The system calls of one of systemd's groups, those within it included."""
    if not group.startswith("@"):
        return {group}
    said, _ = analyze("syscall-filter", group)
    # After the group's name and what it is for.
    return set().union(*(calls_of(line.strip()) for line in said[1:] if line.strip() and not line.strip().startswith("#")))


def refuses_needed(unit):
    """What the unit's filter keeps from ppcd; what this systemd does not know is nothing that it could let through."""
    needed = {word.partition("=")[0] for line in lines_of(CALLS) if not line.startswith("#") for word in line.split()}
    filters = [(number, value.split()) for number, key, value in settings(unit) if key == "SystemCallFilter"]
    allowed = set().union(*(calls_of(word) for _, words in filters for word in words))
    lacking = sorted((needed & calls_of("@known")) - allowed - calls_of("@default"))
    return [f"{unit}:{filters[0][0]}: SystemCallFilter= refuses {name}, which {CALLS} lets through" for name in lacking]


def place(folder):
    """The units as they are installed, their programs replaced by one that is there."""
    for name in UNITS:
        target = os.path.join(folder, os.path.basename(name).removesuffix(".in"))
        with open(target, "w", encoding="utf-8") as out:
            out.write(re.sub(r"@CMAKE_INSTALL_FULL_BINDIR@/\w+", "/bin/true", "\n".join(lines_of(name)) + "\n"))
    with open(os.path.join(folder, "model.service"), "w", encoding="utf-8") as out:
        out.write("[Service]\nExecStart=/bin/true\n")
    for name, unit in DROP_INS.items():
        os.mkdir(os.path.join(folder, f"{unit}.d"))
        with open(os.path.join(folder, f"{unit}.d", "ppc.conf"), "w", encoding="utf-8") as out:
            out.write("\n".join(lines_of(name)).replace("/usr/bin/ppcctl", "/bin/true") + "\n")
    # For an instance systemd reads the template's file.
    shutil.copy(os.path.join(folder, "ppc@.service"), os.path.join(folder, "ppc@srv-models.service"))


def judgement(folder):
    units = ("ppcd.service", "ppcd.socket", "ppc@srv-models.service", "srv-models.mount", "model.service")
    said, _ = analyze("verify", "--man=no", *(os.path.join(folder, unit) for unit in units))
    # What they need of a machine that is not this one is no finding.
    findings = [line for line in said if any(unit in line for unit in units)
                and "ppc.so" not in line and not re.search(r"Unit \S+ not found|Failed to (create|add)", line)]
    if analyze("--version")[0][0].split()[1] >= "252":
        said, status = analyze("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", os.path.join(folder, "ppcd.service"))
        if status:
            findings.append(f"packaging/ppcd.service.in: {' '.join(said[-1].split())}; at most {MOST_EXPOSED / 10}")
    return findings


def packaging(files):
    if UNITS[0] not in files:
        return []
    findings = image.lacking(files)
    for name in (*UNITS, *DROP_INS):
        findings += hides_openat2(name) + namespaces(name)
    findings += bounds(UNITS[0])
    if shutil.which("systemd-analyze"):
        with tempfile.TemporaryDirectory() as folder:
            place(folder)
            findings += judgement(folder) + refuses_needed(UNITS[0])
    if shutil.which("findmnt"):
        done = subprocess.run(["findmnt", "--verify", "--tab-file", "packaging/examples/fstab"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        findings += [f"packaging/examples/fstab: {line.strip()}" for line in done.stdout.splitlines() if "[E]" in line and "unreachable" not in line]
    return findings
