# SPDX-License-Identifier: Apache-2.0
"""The loaders and how each is started."""
import dataclasses

STATE = "tmp/state"


def llama(mode):
    """The state after one token; its log's thread may lose the end of what it prints."""
    return ("llama-completion", "-m", "/models/gguf/model.gguf", "-lm", mode, "-p", "o", "-n", "1",
            "--temp", "0", "--seed", "1", "-t", "2", "-c", "64", "--no-warmup", "-no-cnv", "--ignore-eos",
            "--prompt-cache", f"/{STATE}", "--prompt-cache-all")


def python(kind):
    return ("python3", "/suite/load.py", kind, "/models/hf")


@dataclasses.dataclass(frozen=True)
class Loader:
    """One loader.  own: its own prefetch where that is not its default, as (what, command, environment)."""
    name: str
    package: str
    title: str
    command: tuple
    directory: str
    is_mapped: bool
    state_file: str = None
    own: tuple = None
    own_note: str = "has none"
    not_run: str = ""  # why it is foreseen not to run here


LOADERS = (
    Loader("llama-mmap", "llama.cpp", "llama.cpp, mmap", llama("mmap"), "/models/gguf", True, STATE,
           own_note="populates its mapping: in Native"),
    Loader("llama-read", "llama.cpp", "llama.cpp, no mmap", llama("none"), "/models/gguf", False, STATE),
    Loader("safetensors", "safetensors", "safetensors + torch", python("safetensors"), "/models/hf", True),
    Loader("transformers", "transformers", "transformers from_pretrained", python("transformers"),
           "/models/hf", True, own_note="4 loading threads: in Native"),
    Loader("fastsafetensors", "fastsafetensors", "fastsafetensors, buffered", python("fastsafetensors"),
           "/models/hf", False, own=("its pipeline", python("fastsafetensors-queue"), {})),
    Loader("runai", "runai-model-streamer", "Run:ai model streamer, files", python("runai"), "/models/hf", False,
           own=("32 threads", python("runai"), {"RUNAI_STREAMER_CONCURRENCY": "32"}),
           own_note="16 threads into a buffer: in Native"),
    Loader("instanttensor", "instanttensor", "InstantTensor, buffered", python("instanttensor"), "/models/hf",
           False, not_run="it loads to CUDA devices only"),
)
