# SPDX-License-Identifier: Apache-2.0
"""The systems that are compared: what differs between two rows of a table, and nothing else."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class System:
    """One row of the table.

    Words of `beside` and `instead` may name {dir}, {workers}, {init} (s, without model
    reads), {service_init} (s, all of a service's), {device} (MB/s per worker),
    {window} (a quarter of the memory the service may use) and {pool} (what the case leaves for the
    model).
    """

    key: str
    name: str
    policy: str = ""  # registered for the model's files; empty: the kernel alone
    config: dict = dataclasses.field(default_factory=dict)
    read_ahead_kb: int = 0  # 0: as the disk of the experiment has it
    is_precached: bool = False
    lead_s: float = 0.0
    is_recording: bool = False
    is_ours: bool = False
    beside: tuple = ()  # a command that runs from exec on, charged to the service
    instead: tuple = ()  # a command in place of the loader; reports as it does
    loader_options: tuple = ()


NATIVE = System("native", "Native")
NATIVE_RA = System("native-ra", "Native, 4 MiB read-ahead", read_ahead_kb=4096)
# Blind, as the paper describes it: it overruns a limit and throws away what it has loaded.
EAGER = System("eager", "EagerLoad", policy="eager", config={"runtime": {"blind": True}})
PRECACHE = System("precache", "PreCache", is_precached=True)
RECORD = System("maio-record", "MAIO, recording run", policy="maio", is_recording=True)
MAIO = System("maio", "MAIO", policy="maio", is_ours=True)
EARLY = System("maio-early", "MAIO, started 3 s earlier", policy="maio", lead_s=3.0, is_ours=True)
CACHED = System("cached", "fully cached", is_precached=True)
# What needs neither a daemon nor a policy.
WITHOUT_PPC = tuple(system.key for system in (NATIVE, NATIVE_RA, PRECACHE, CACHED))

# The store's 32 MiB chunks and vLLM's 16 MiB blocks at the scale of the models, no smaller than a disk
# likes: at their true size buffers alone would take a quarter of the limited case.
_DIRECT = ("ppc-rival", "direct", "--workers={workers}", "--device-mbps={device}",
           "--init-s={service_init}", "--chunk=1M")
RIVALS = (
    NATIVE,
    NATIVE_RA,
    System("native-ra16", "Native, 16 MiB read-ahead", read_ahead_kb=16384),
    # The same as PRECACHE: users put cat in front of the service, several at once when they know better.
    System("cat-before", "cat first (8 at once), then start", is_precached=True),
    System("cat-beside", "cat (8 at once) beside the start",
           beside=("sh", "-c", "printf '%s\\0' {dir}/* | xargs -0 -n1 -P8 cat >/dev/null")),
    System("willneed", "WILLNEED of whole files", beside=("ppc-rival", "willneed", "{dir}")),
    System("by-rank", "prefetch by rank (vLLM), at the load",
           beside=("ppc-rival", "prefetch", "--ranks={workers}", "--block=1M",
                   "--delay-s={init}", "{dir}")),
    System("by-rank-early", "prefetch by rank, at exec",
           beside=("ppc-rival", "prefetch", "--ranks={workers}", "--block=1M", "{dir}")),
    System("window", "sliding window, no position",
           beside=("ppc-rival", "window", "--window={window}", "--block=1M", "{dir}")),
    System("drop", "drop per shard (SGLang)", loader_options=("--drop-shards",)),
    System("direct", "O_DIRECT chunks (ServerlessLLM)", instead=(*_DIRECT, "--pool=64M", "{dir}")),
    System("direct-early", "O_DIRECT chunks, at exec",
           instead=(*_DIRECT, "--pool={pool}", "--early", "{dir}")),
)
# What works without changing a framework; the best of them is the one to beat by far.
FREE = ("native-ra", "native-ra16", "cat-before", "cat-beside", "willneed", "by-rank",
        "by-rank-early")
UNCACHED = ("direct", "direct-early")  # no page cache, no cgroup limit: the reference


def _switched(key, prefetch=False, affinity=False, bar=False):
    parts = [name for name, on in (("prefetch", prefetch), ("affinity", affinity), ("bar", bar)) if on]
    return System(key, "MAIO: " + (" + ".join(parts) or "all switches off"), policy="maio",
                  config={"prefetch": prefetch, "affinity": affinity, "bar": bar}, is_ours=True)


SWITCHES = (
    _switched("maio-off"),
    _switched("maio-p", prefetch=True),
    _switched("maio-a", affinity=True),
    _switched("maio-e", bar=True),
    _switched("maio-pa", prefetch=True, affinity=True),
    _switched("maio-pe", prefetch=True, bar=True),
    _switched("maio-ae", affinity=True, bar=True),
    _switched("maio-pae", prefetch=True, affinity=True, bar=True),
)
MODELLED = "-far"  # ends the keys of systems whose cost of remote memory is modelled


def modelled(system, remote_cost):
    """The same, with a device that takes longer for bytes on another node."""
    return dataclasses.replace(
        system, key=system.key + MODELLED,
        name=f"{system.name} (modelled: remote bytes cost {remote_cost:g} x)",
        loader_options=(*system.loader_options, f"--remote-cost={remote_cost:g}"))


def breakdown(remote_cost):
    """Every switch alone and together, then the paper's steps with modelled locality."""
    steps = {"maio-p", "maio-pa", "maio-pae"}
    far = [modelled(system, remote_cost) for system in (NATIVE, *SWITCHES)
           if system is NATIVE or system.key in steps]
    return (NATIVE, *SWITCHES, *far)
