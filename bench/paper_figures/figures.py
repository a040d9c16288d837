# SPDX-License-Identifier: Apache-2.0
"""Every figure and table that can be asked for: what it needs, how long that takes, what shows it."""
import dataclasses

from . import catalog, curves, programs, shown, throughput


@dataclasses.dataclass(frozen=True)
class Figure:
    """starts: figures of catalog whose starts it needs; table and pictures are made from the results alone."""

    name: str
    title: str
    minutes: str
    starts: tuple = ()
    programs: tuple = ()
    table: object = None          # of a shown.Results: lines of markdown, none where nothing is kept
    pictures: dict = dataclasses.field(default_factory=dict)  # name -> function of a shown.Results
    in_all: bool = True


ALL = (
    Figure("1", "bandwidth of the disk during native starts", "12", ("6",), table=curves.native_share,
           pictures={"paper-1": curves.figure_1}),
    Figure("4", "the skeleton of a policy, compiled and registered", "1", programs=(programs.policy_skeleton,), in_all=False),
    Figure("4.3", "a start on two nodes (section 4.3)", "3", ("4.3",), table=shown.two_nodes),
    Figure("6", "load time of five models", "12", ("6",), table=shown.loads, pictures={"paper-6": shown.figure_6}),
    Figure("7", "start-up time of five models", "12", ("6",), table=shown.startups, pictures={"paper-7": shown.figure_7}),
    Figure("8", "bandwidth of the disk, natively and with policies", "12", ("6",), table=curves.by_stage,
           pictures={"paper-8-rich": curves.figure_8_rich, "paper-8-limit": curves.figure_8_limit}),
    Figure("9", "overhead for readers, with the observer", "1", programs=(programs.observer,), table=shown.overhead,
           pictures={"paper-9": shown.figure_9}),
    Figure("9-module", "overhead of the mount, in a counting guest", "60", programs=(programs.overhead,), in_all=False),
    Figure("cpu", "CPU time of listening and loading (section 5.2.2)", "12", ("6",), table=shown.cpu,
           pictures={"paper-cpu": shown.figure_cpu}),
    Figure("10", "memory of the runtime", "3", ("10",), (programs.largest_runner,), shown.memory,
           {"paper-10": shown.figure_10}),
    Figure("11", "what each mechanism gains", "16", ("6", "11"), table=shown.breakdown, pictures={"paper-11": shown.figure_11}),
    Figure("12", "throughput of services that come and go", "11", ("12",), table=curves.elastic,
           pictures={"paper-12": curves.figure_12}),
    Figure("12-servers", "the same with llama-server, and three of them on load", "25", (catalog.SERVERS,), table=throughput.table,
           pictures={"paper-12-servers": throughput.picture}),
    Figure("table3", "sizes of templates", "1", programs=(programs.table_3,), table=shown.templates),
)


def find(name):
    return next(one for one in ALL if one.name == name)
