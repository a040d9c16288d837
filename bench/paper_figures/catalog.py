# SPDX-License-Identifier: Apache-2.0
"""Which starts each figure needs: models and their scale, systems, memory cases, rounds."""
import collections

from demo import disturbance, rounds, systems

# A divisor of the bytes for each, so that every model has about 1 GB: small ones are not all initialisation, large
# ones take seconds.  Tensors and shards keep their true number.
MODELS = {"qwen2.5-7b": 16, "llama-2-7b": 16, "qwen2.5-32b": 64, "qwen2.5-72b": 128, "llama-2-70b": 128}
LARGE = ("qwen2.5-72b", "llama-2-70b")
TITLES = {"qwen2.5-7b": "Qwen2.5-7B", "llama-2-7b": "Llama-7B", "qwen2.5-32b": "Qwen2.5-32B",
          "qwen2.5-72b": "Qwen2.5-72B", "llama-2-70b": "Llama-70B", "deepseek-r1": "DeepSeek-R1-671B"}
CASES = ("rich", "limit")

DIRECT = next(system for system in systems.RIVALS if system.key == "direct")
STEPS = tuple(system for system in systems.SWITCHES if system.key in ("maio-p", "maio-pa", "maio-pae"))
EMPTY = systems.System("null", "empty policy", policy="null")
STARTED = (systems.NATIVE, systems.EAGER, systems.PRECACHE, DIRECT, systems.MAIO)
SYSTEMS = {system.key: system for system in (*STARTED, *STEPS, systems.RECORD)}
# The systems of Figure 8.
SERIES = ("native", "eager", "maio")

# Of Figure 10: how a model is read, and by how many processes.
MODES, WORKERS = ("read", "mmap"), (1, 2, 4, 8)
MEMORY_MODEL = ("qwen2.5-7b", 64)

# Of Figure 12: the services that follow each other.
SEQUENCE = ("qwen2.5-72b", "llama-2-70b", "qwen2.5-72b")
ELASTIC = ("native", "eager", "precache", "maio")
PAUSE_S = 3.0

# Of Figure 12 with real servers: their images and the model in each, the experiments and the image of each node.
SERVERS = "12-servers"
SERVER_MODELS = {"llama-sparse": "sparse.gguf", "llama-experts": "experts.gguf", "llama-small": "small.gguf"}
SERVER_IMAGES = {"elastic": ("llama-sparse",) * 3, "sequence": ("llama-small", "llama-sparse", "llama-experts")}
# Each server has so many: three that compute and the slow disks share the two of a small machine.
SERVER_CPUS = {"elastic": 0.4, "sequence": 1.0}
SERVER_SYSTEMS = ("native", "precache", "maio")
TOKEN_STEP_S = 0.5
MEASURE_S, PERIOD_S, SEQUENCE_TOKENS = 12.0, 30.0, 16

# Section 4.3 has one half of its workers on each node.
NODES_MODEL, NODE_WORKERS = ("deepseek-r1", 660), 8
NODE_SYSTEMS = ("native", "precache", "maio")

# The members of a line in the results: its key, and when it was measured.
Start = collections.namedtuple("Start", "figure model system memory round")
KEYS = ("machine", "commit", *Start._fields)


def of_figure(figure, count):
    """Every start of a figure, in the order of the rounds; models inside, as each has a disk of its own."""
    for number in range(count):
        if figure == "6":
            for model in MODELS:
                yield from _round(figure, model, [system.key for system in STARTED], number)
        elif figure == "11":
            for model in LARGE:
                yield from _round(figure, model, [system.key for system in STEPS], number)
        elif figure == "10":
            for way in ("null", "maio"):
                yield from (Start(figure, MEMORY_MODEL[0], f"{way}-{mode}-{workers}", "rich", number)
                            for mode in MODES for workers in WORKERS)
        elif figure == "4.3":
            yield from (Start(figure, NODES_MODEL[0], f"{key}-{node}", "rich", number) for node in (0, 1) for key in NODE_SYSTEMS)
        elif figure == SERVERS:
            yield from (Start(figure, experiment, key, "rich", number)
                        for experiment in SERVER_IMAGES for _, key in rounds.order(experiment, number, ("rich",), SERVER_SYSTEMS))
        elif figure == "12":
            yield from (Start(figure, "sequence", key, case, number)
                        for case, key in rounds.order(figure, number, CASES, ELASTIC))


def _round(figure, model, keys, number):
    for case, key in rounds.order(f"{figure}:{model}", number, CASES, keys):
        # The pool of the paper's incompatible rival does not fit into the limit.
        if (case, key) != ("limit", DIRECT.key):
            yield Start(figure, model, key, case, number)


def taken(found):
    """The share of the CPUs that other processes took, of a sequence from the start that lost most."""
    return max(one.get("others", 0.0) for one in found.get("starts", [found]))


def is_disturbed(found):
    return taken(found) > disturbance.TOLERATED


def missing(figure, count, records, wants_calm=False):
    """What is not recorded; wants_calm: nor was without a disturbance."""
    return [start for start in of_figure(figure, count)
            if records.get(*start) is None or (wants_calm and is_disturbed(records.get(*start)))]
