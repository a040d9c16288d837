# SPDX-License-Identifier: Apache-2.0
"""Command line of tools/vm -> one Options object, everything checked."""
import dataclasses
import os
import re
import sys

from .errors import USAGE, VmError

HELP = """\
usage: tools/vm [OPTION]... -- COMMAND [ARG...]

Boots a stock Debian kernel under QEMU/TCG with the host's root file system (writable overlay
on top; nothing is written back) and runs COMMAND as root in the caller's directory.

  --kernel REL     stock Debian kernel, may be abbreviated (6.1); default: newest of this suite
  --arch ARCH      amd64, arm64 or a flavour of it (arm64-16k); arm64 gets a root directory of its
                   own unless --root names one
  --root DIR       another root directory instead of the host's; debian12 and debian13 are made by
                   mmdebstrap in build/roots/, with a kernel of their own, which is the default then
  --systemd        boot the root's systemd, then run COMMAND as its last service; the root's own modules
                   are what modprobe sees
  --mem SIZE       guest memory, default 2G           --cpus N   default 2 (at least one a node)
  --nodes N        NUMA nodes; memory and CPUs are split evenly
  --disk SPEC      disk mounted at /mnt/disk0, /mnt/disk1, ... in order; device /dev/disk0, ...
                   FS:SIZE or IMAGE[,from=DIR][,mbps=N][,lat_us=N]; FS is ext4, xfs or raw
                   (raw: not formatted, not mounted); IMAGE is a file, changes are thrown away;
                   from=DIR fills it beforehand; mbps (10^6 bytes a second) and lat_us (rounded
                   to whole milliseconds) slow it down like a real disk
  --xpu NODE       a PCI display device on that NUMA node, once per device
  --one-thread     one host thread for all virtual CPUs, which then never run the same code at once:
                   for kernels that patch it meanwhile (fentry), where QEMU may go on with the old
  --icount         one virtual CPU counting instructions: repeatable, for instruction counts
  --out DIR        host directory that is /out in the guest, writable; default: a temporary one
  --kmsg FILE      write the guest's kernel log there
  --append ARGS    more kernel parameters
  --timeout S      default 600
  --debug          the debug kernel (KASAN, lockdep, kmemleak, fault injection, ...), built once from
                   the archive's kernel source: see tools/lib/debugkernel; it gets half as much
                   memory again and five times the time-out
  --net NAME[:I]   a network card (eth0) on the network NAME, which all guests on this host that name it
                   share: this one is node I (default 0, at most 15), address 10.77.0.(I+1), host name
                   nodeI; the names node0 to node15 are in /etc/hosts.  Nothing else is reachable, and
                   of the host nothing but its loopback device is used

Environment: variables named PPC_* reach the command.  PPC_KERNEL: the kernel where --kernel does
not say.  PPC_BUILD_DIR (default build/) is where bin/ and policies/ are taken from.  PPC_KMOD: a
module file to use, `last` for the one built last, `none` for no module; default: build it when its
sources changed.

Exit status: the command's own, or 64 usage, 70 the guest kernel logged a WARN, BUG, oops,
lockdep or leak report, 71 the guest died, 72 not started, 124 time-out.  A command brackets
reports it causes on purpose by writing "ppc-vm: expect-begin [PATTERN]" and "ppc-vm: expect-end"
to /dev/kmsg; with a pattern other reports count all the same.
"""

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SYSTEMD = "lib/systemd/systemd"
# No user logs in, and nothing is to begin by itself.
QUIET_SYSTEMD = "systemd.getty_auto=no systemd.mask=apt-daily.timer systemd.mask=apt-daily-upgrade.timer " \
                "systemd.mask=e2scrub_reap.service systemd.mask=getty@tty1.service"
DEBIAN = ("debian12", "debian13")
FORMATS = ("ext4", "xfs", "raw")
NET_NODES = 16  # as many as guest/run names
MIB = 1 << 20


@dataclasses.dataclass
class Disk:
    """One --disk."""

    fs: str = ""  # ext4, xfs, raw; empty: an image
    size: int = 0
    image: str = ""
    source: str = ""
    mbps: int = 0
    lat_us: int = 0

    @property
    def throttled(self):
        return bool(self.mbps or self.lat_us)


@dataclasses.dataclass
class Net:
    """--net: which network, and which node of it this guest is."""

    name: str
    index: int = 0


@dataclasses.dataclass
class Options:
    """What the caller asked for."""

    kernel: str = ""
    arch: str = "amd64"
    root: str = "/"
    mem: int = 2048 * MIB
    cpus: int = 0
    nodes: int = 1
    disks: list = dataclasses.field(default_factory=list)
    xpus: list = dataclasses.field(default_factory=list)
    net: Net | None = None
    icount: bool = False
    systemd: bool = False
    one_thread: bool = False
    debug: bool = False
    out: str = ""
    kmsg: str = ""
    append: str = ""
    timeout: float = 600.0
    command: list = dataclasses.field(default_factory=list)


def usage(message):
    return VmError(f"{message} (tools/vm --help)", USAGE)


def size(text, what):
    match = re.fullmatch(r"(\d+)([KMGT]?)", text)
    if not match or int(match[1]) == 0:
        raise usage(f"{what} needs a size such as 512M or 2G, not '{text}'")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2]]


def number(text, what, least=0):
    if not re.fullmatch(r"\d+", text) or int(text) < least:
        raise usage(f"{what} needs a number of at least {least}, not '{text}'")
    return int(text)


def directory(text, what):
    if not os.path.isdir(text):
        raise usage(f"{what}: '{text}' is not a directory")
    return os.path.realpath(text)


def disk(text):
    head, *settings = text.split(",")
    result = Disk()
    fs, _, amount = head.partition(":")
    if fs in FORMATS and amount:
        result.fs, result.size = fs, size(amount, f"--disk {fs}")
    elif os.path.isfile(head):
        result.image = os.path.realpath(head)
    else:
        raise usage(f"--disk '{head}' is neither FS:SIZE (ext4:2G, xfs:1G, raw:64M) nor an image file")
    for setting in settings:
        key, _, value = setting.partition("=")
        if key == "from":
            result.source = directory(value, "--disk from")
        elif key == "mbps":
            result.mbps = number(value, "--disk mbps", 1)
        elif key == "lat_us":
            result.lat_us = number(value, "--disk lat_us", 1)
        else:
            raise usage(f"--disk has no setting '{key}' (from, mbps, lat_us)")
    if result.source and result.fs not in ("ext4", "xfs"):
        raise usage("--disk from=DIR needs a fresh ext4 or xfs disk")
    return result


def net(text):
    match = re.fullmatch(r"([\w-]{1,64})(?::(\d{1,2}))?", text, re.ASCII)
    if not match or int(match[2] or 0) >= NET_NODES:
        raise usage(f"--net needs NAME or NAME:I, of letters, digits, _ and -, I below {NET_NODES}, not '{text}'")
    return Net(match[1], int(match[2] or 0))


def check(options):
    options.cpus = options.cpus or (1 if options.icount else max(2, options.nodes))
    if options.icount and options.cpus != 1:
        raise usage("--icount has one CPU; leave out --cpus")
    if options.cpus % options.nodes:
        raise usage(f"{options.cpus} CPUs cannot be split evenly over {options.nodes} nodes")
    for node in options.xpus:
        if node >= options.nodes:
            raise usage(f"--xpu {node}: there are only {options.nodes} nodes")
    if options.nodes > 8 or len(options.xpus) > 16 or len(options.disks) > 16:
        raise usage("at most 8 nodes, 16 xpus and 16 disks")
    if not re.fullmatch(r"amd64|arm64(-\w+)?", options.arch):
        raise usage(f"--arch {options.arch}: there are amd64, arm64 and arm64-16k")
    if options.arch != "amd64" and (options.icount or options.nodes > 1 or options.xpus):
        raise usage("--icount, --nodes and --xpu are for amd64 only")
    if options.systemd and options.root not in DEBIAN and not os.path.exists(os.path.join(options.root, SYSTEMD)):
        raise usage(f"--systemd: {options.root} has no {SYSTEMD}; take --root debian12 or debian13")
    if options.systemd and options.arch != "amd64":
        raise usage("--systemd is for amd64 only")
    if options.systemd:
        options.append = f"{QUIET_SYSTEMD} {options.append}".strip()
    if not options.command:
        raise usage("no command; put it after --")
    if options.debug:
        if options.kernel:
            raise usage("--debug brings its own kernel; leave out --kernel")
        # KASAN's shadow and quarantine, kmemleak's and lockdep's tables; slow instrumented code
        options.mem += options.mem // 2
        options.timeout *= 5
    else:
        options.kernel = options.kernel or os.environ.get("PPC_KERNEL", "")
    return options


def parse(arguments):
    options = Options()
    rest = list(arguments)
    setters = {
        "--kernel": lambda v: setattr(options, "kernel", v),
        "--arch": lambda v: setattr(options, "arch", v),
        "--root": lambda v: setattr(options, "root", v if v in DEBIAN else directory(v, "--root")),
        "--mem": lambda v: setattr(options, "mem", size(v, "--mem")),
        "--cpus": lambda v: setattr(options, "cpus", number(v, "--cpus", 1)),
        "--nodes": lambda v: setattr(options, "nodes", number(v, "--nodes", 1)),
        "--disk": lambda v: options.disks.append(disk(v)),
        "--xpu": lambda v: options.xpus.append(number(v, "--xpu")),
        "--net": lambda v: setattr(options, "net", net(v)),
        "--out": lambda v: setattr(options, "out", os.path.abspath(v)),
        "--kmsg": lambda v: setattr(options, "kmsg", os.path.abspath(v)),
        "--append": lambda v: setattr(options, "append", v),
        "--timeout": lambda v: setattr(options, "timeout", float(number(v, "--timeout", 1))),
    }
    while rest and rest[0] != "--":
        name = rest.pop(0)
        name, equals, value = name.partition("=") if name.startswith("--") else (name, "", "")
        if name in ("-h", "--help"):
            print(HELP, end="")
            sys.exit(0)
        if name == "--icount":
            options.icount = True
        elif name == "--one-thread":
            options.one_thread = True
        elif name == "--debug":
            options.debug = True
        elif name == "--systemd":
            options.systemd = True
        elif name in setters:
            if not equals:
                if not rest:
                    raise usage(f"{name} needs a value")
                value = rest.pop(0)
            setters[name](value)
        else:
            raise usage(f"unknown option '{name}'; the command comes after --")
    options.command = rest[1:]
    return check(options)
