# SPDX-License-Identifier: Apache-2.0
"""Cases: what was once slower, or read more, with PPC than without it."""
import dataclasses

from . import watch
from .runs import Program


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    image: str
    program: Program
    limit_bytes: int = None
    ways: tuple = ("run",)  # beside native
    starts: int = 2  # of each way, one after the other


def completion(store, directory):
    return [store.program("llama-completion"), "-m", f"{directory}/dense.gguf", "-n", "24", "-p", "hello", "-no-cnv",
            "--no-warmup", "-t", "2", "--temp", "0", "--seed", "1", "--ignore-eos"]


LLAMA = Program(completion, watch.Completion())

CASES = (
    *(Case(f"llama-{limit}", f"llama.cpp computes from 2,211 MiB of mapped weights, memory {limit:,} MiB", "llama",
           LLAMA, limit << 20) for limit in (1700, 2450, 2600)),
)
