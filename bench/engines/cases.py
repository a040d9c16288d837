# SPDX-License-Identifier: Apache-2.0
"""Cases: what was once slower, or read more, with PPC than without it."""
import dataclasses
import glob
import os
import shutil

from . import neighbours, watch
from .runs import Program
from .store import INSIDE, Missing, quietly

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Case:
    """ways: (way, so many starts one after the other).  in_table: it takes less than two minutes."""
    name: str
    title: str
    image: str
    program: Program
    limit_bytes: int = None
    ways: tuple = (("run", 2),)  # beside native
    neighbour: object = None
    in_memory: bool = False  # the disk
    in_table: bool = True
    needs: tuple = ("light", "torch")  # what is unpacked for it


# Programs.


def inside(name):
    return os.path.join(INSIDE, name)


def completion(tokens, model="dense", temperature="0"):
    """Computes from the mapping on every CPU: where there is AMX, llama.cpp would copy the weights."""

    def command(store, directory):
        return [store.program("llama-completion"), "-m", f"{directory}/{model}.gguf", "-n", str(tokens), "-p", "hello",
                "-no-cnv", "--no-warmup", "--no-repack", "-t", "2", "--temp", temperature, "--seed", "1", "--ignore-eos"]

    return command


def llama_turns(turns, rest_s):
    """A process for each turn, as servers of several models have."""

    def command(store, directory):
        return [store.python("light"), inside("turns.py"), str(turns), str(rest_s), directory,
                *completion(2, "{}")(store, directory)]

    return command


def shards_of(directory):
    return sorted(glob.glob(f"{directory}/*.safetensors"))


def compiled(store, name):
    program = store.path(name)
    if not os.path.exists(program):
        if not shutil.which("cc"):
            raise Missing(f"no cc to compile bench/engines/inside/{name}.c; install gcc")
        quietly(["cc", "-O2", "-pthread", "-o", program, inside(f"{name}.c")], f"compiling {name}.c")
    return program


def reader(files=None, **numbers):
    """Of all shards, or the first of them: bench/engines/inside/reader.c."""

    def command(store, directory):
        return [compiled(store, "reader"), *(f"{name}={number}" for name, number in numbers.items()),
                *shards_of(directory)[:files]]

    return command


def copied(*names):
    """All shards, or these files in this order, with torch."""

    def command(store, directory):
        return [store.python("torch"), inside("load.py"), directory, *names]

    return command


def products(store, directory):
    return [store.python("light"), inside("onnx_run.py"), f"{directory}/model.onnx", "20"]


# llama.cpp's own account.
EVALUATED = r" eval time = +([0-9.]+) ms / +([0-9]+) runs"
LINES = watch.Lines()
LLAMA = Program(completion(24), watch.Logged(EVALUATED))
COPIED = Program(copied(), LINES)
COMPONENT = "{}/diffusion_pytorch_model"
PARTS = [COMPONENT.format(name) for name in ("text_encoder", "transformer", "vae")]


def onnx(folder):
    return Program(products, LINES, f"model/{folder}", "inference")


CASES = (
    *(Case(f"llama-{limit}", f"llama.cpp computes from 2,211 MiB of mapped weights, memory {limit:,} MiB", "llama",
           LLAMA, limit * MIB, needs=("light", "programs"), in_table=limit > 2211) for limit in (1700, 2450, 2600)),
    Case("llama-minute", "llama.cpp computes for a minute, memory 2,450 MiB", "llama",
         Program(completion(1000), watch.Logged(EVALUATED)), 2450 * MIB, needs=("light", "programs"), in_table=False),
    Case("llama-machine", "llama.cpp computes from 2,211 MiB of mapped weights, no group, 2,000 MiB of the machine's memory",
         "llama", Program(completion(8), watch.Logged(EVALUATED)), neighbour=neighbours.little_memory(2000 * MIB),
         needs=("light", "programs"), in_table=False),
    Case("experts", "llama.cpp computes from a mixture of experts, 2,580 MiB mapped, memory 1,400 MiB", "llama-experts",
         Program(completion(24, "experts", "2"), watch.Logged(EVALUATED)), 1400 * MIB, needs=("light", "programs"),
         in_table=False),
    Case("passes", "14 passes over 440 MiB mapped, memory 8% larger", "files-440",
         Program(reader(passes=14, pause_ms=700), LINES, unit="pass"), 475 * MIB, needs=("light",)),
    Case("two-ranks", "two processes map, touch and keep all of 1,175 MiB, memory 45%", "files-1230",
         Program(reader(workers=2, before_ms=2000, us_per_mib=4000), LINES), 529 * MIB, needs=("light",)),
    Case("paper", "the paper's registration (`service_id`, `workers`), 440 MiB, three starts", "files-440", COPIED,
         ways=(("paper", 3),)),
    Case("plain", "`reg_policy DIR maio`, 440 MiB after 3 s of imports, three starts", "files-440", COPIED,
         ways=(("plain", 3),)),
    Case("plain-mapped", "the same registration, 440 MiB mapped by a small program that sleeps 3 s first, three starts",
         "files-440", Program(reader(before_ms=3000), LINES), ways=(("plain", 3),), needs=("light",)),
    Case("diffusers", "components in subdirectories, a checkpoint of 384 MiB beside them", "diffusers",
         Program(copied(*PARTS), LINES)),
    Case("abab", "one process reads A, B, A, B of a flat folder of three models", "flat",
         Program(copied("a", "b", "a", "b"), LINES)),
    Case("turns", "one process maps, reads and unmaps A, B, A, B, ... of 480 MiB each, 10 turns, 12 s between, memory for 1.5",
         "flat", Program(reader(2, by_turns=1, passes=10, pause_ms=12000), LINES, unit="turn"), 725 * MIB, ways=(("run", 1),),
         in_table=False, needs=("light",)),
    Case("turns-read", "the same by read()", "flat",
         Program(reader(2, by_turns=1, passes=10, pause_ms=12000, reads=1), LINES, unit="turn"), 725 * MIB, ways=(("run", 1),),
         in_table=False, needs=("light",)),
    Case("turns-llama", "llama.cpp is started with A, B, A, B, ..., 10 turns, 12 s between, memory for 1.5 of them",
         "llama-two", Program(llama_turns(10, 12), LINES, unit="turn", limit_s=600), 1000 * MIB, ways=(("run", 1),),
         in_table=False, needs=("light", "programs")),
    Case("onnx-one", "ONNX Runtime, one external file of 576 MiB", "onnx", onnx("one"), needs=("light",)),
    Case("onnx-many", "ONNX Runtime, 36 external files of 16 MiB", "onnx", onnx("many"), needs=("light",)),
    Case("drop-caches", "a neighbour writes to drop_caches each second, 1,175 MiB", "files-1230", COPIED,
         neighbour=neighbours.drop_caches),
    Case("dontneed", "a neighbour drops the model by DONTNEED each second, 1,175 MiB", "files-1230", COPIED,
         neighbour=neighbours.dontneed),
    Case("memory-disk", "a disk in memory, 1,760 MiB, no initialisation", "files-1850",
         Program(reader(), LINES), in_memory=True, needs=("light",)),
)


def find(name):
    return next((case for case in CASES if case.name == name), None)
