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
    """One loader.  own: its own prefetch where that is not its default, as (command, environment)."""
    name: str
    package: str
    title: str
    command: tuple
    directory: str
    kind: str  # how it reads: mapped, read, direct
    state_file: str = None  # what it writes instead of saying READY and DIGEST
    environment: dict = dataclasses.field(default_factory=dict)
    own: tuple = None
    own_note: str = "has none"
    not_run: str = ""  # why it is foreseen not to run here

    @property
    def is_mapped(self):
        return self.kind == "mapped"


BUFFERED = {"FASTSAFETENSORS_ODIRECT": "0"}


LOADERS = (
    Loader("llama-mmap", "llama.cpp", "llama.cpp, mmap", llama("mmap"), "/models/gguf", "mapped", STATE,
           own_note="in Native: populates its mapping"),
    Loader("llama-read", "llama.cpp", "llama.cpp, no mmap", llama("none"), "/models/gguf", "read", STATE),
    Loader("safetensors", "safetensors", "safetensors + torch", python("safetensors"), "/models/hf", "mapped"),
    Loader("transformers", "transformers", "transformers `from_pretrained`", python("transformers"),
           "/models/hf", "mapped", own_note="in Native: 4 loading threads"),
    Loader("fastsafetensors", "fastsafetensors", "fastsafetensors, buffered", python("fastsafetensors"),
           "/models/hf", "read", environment=BUFFERED, own=(python("fastsafetensors-queue"), BUFFERED)),
    Loader("fastsafetensors-direct", "fastsafetensors", "fastsafetensors, O_DIRECT (its default)",
           python("fastsafetensors"), "/models/hf", "direct", own_note="16 threads: in Native"),
    Loader("runai", "runai-model-streamer", "Run:ai model streamer, files", python("runai"), "/models/hf",
           "read", own_note="in Native: threads read into a buffer"),
    Loader("instanttensor", "instanttensor", "InstantTensor, buffered", python("instanttensor"), "/models/hf",
           "read", not_run="it loads to CUDA devices only"),
)


def find(name):
    return next((loader for loader in LOADERS if loader.name == name), None)
