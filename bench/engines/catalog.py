# SPDX-License-Identifier: Apache-2.0
"""The engines and how each is started.  Every one loads, says when it is ready, computes, and gives a checksum."""
import dataclasses

from . import watch
from .cases import EVALUATED, LINES, inside
from .runs import Program

TIGHT = 95  # percent: below, each step reads much of the model again, so that a few steps tell


@dataclasses.dataclass(frozen=True)
class Engine:
    """program(has_room): for that memory.  shares: memory groups, in percent of what a start without a limit takes."""
    name: str
    title: str
    image: str
    program: object
    package: tuple  # (virtual environment, name), or the archive's (None, name)
    shares: tuple = (None, 85, 70)

    def program_for(self, share):
        return self.program(share is None or share >= TIGHT)


# llama.cpp.

LLAMA_PORT, VLLM_PORT = 18451, 18452


def llama_completion(has_room):
    def command(store, directory):
        return [store.program("llama-completion"), "-m", f"{directory}/dense.gguf", "-n", "24" if has_room else "4",
                "-p", "hello", "-no-cnv", "--no-warmup", "-t", "2", "--temp", "0", "--seed", "1", "--ignore-eos"]

    return Program(command, watch.Logged(EVALUATED), limit_s=500)


def llama_server_words(store, model, threads, port):
    return [store.program("llama-server"), "-m", model, "--no-warmup", "-t", str(threads), "-c", "512", "-np", "1", "--no-webui",
            "--host", "127.0.0.1", "--port", str(port)]


def llama_server(has_room):
    def command(store, directory):
        return llama_server_words(store, f"{directory}/dense.gguf", 2, LLAMA_PORT)

    ask = ("/completion", {"prompt": "hello", "n_predict": 8 if has_room else 2, "temperature": 0, "seed": 1,
                           "ignore_eos": True})
    watcher = watch.Server(LLAMA_PORT, "/health", ask,
                           lambda answer: (answer["content"], answer["tokens_predicted"]), 3 if has_room else 2)
    return Program(command, watcher, limit_s=500)


# With torch.

VLLM = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1"}


def vllm(ranks):
    def command(store, directory):
        return [store.python("torch"), "-m", "vllm.entrypoints.cli.main", "serve", directory, "--dtype", "bfloat16",
                "--max-model-len", "512", "--enforce-eager", "--max-num-seqs", "2", "--tensor-parallel-size",
                str(ranks), "--served-model-name", "model", "--host", "127.0.0.1", "--port", str(VLLM_PORT)]

    def program(has_room):
        ask = ("/v1/completions", {"model": "model", "prompt": "hello", "max_tokens": 8, "temperature": 0,
                                   "ignore_eos": True, "return_token_ids": True})
        # Tokens: most of a random model's are no text.
        watcher = watch.Server(VLLM_PORT, "/health", ask,
                               lambda answer: (str(answer["choices"][0]["token_ids"]),
                                               answer["usage"]["completion_tokens"]),
                               3 if has_room else 1, {"weights": r"Loading weights took ([0-9.]+) seconds"})
        return Program(command, watcher, workers=ranks, environment=VLLM, limit_s=400)

    return program


def script(site, name, model="", unit="token", steps=8, directory="model"):
    """One of the suite's own: its model and a number of steps."""

    def program(has_room):
        def command(store, folder):
            return [store.python(site), inside(name), f"{folder}/{model}".rstrip("/"),
                    str(steps if has_room else max(2, steps // 4))]

        return Program(command, LINES, directory, unit)

    return program


# whisper.cpp's own account.
ENCODED = r"encode time = +([0-9.]+) ms / +([0-9]+) runs"


def whisper(_):
    def command(store, directory):
        return [store.program("whisper-cli"), "-m", f"{directory}/ggml-random.bin", "-f", f"{directory}/sound.wav",
                "-t", "2", "-ac", "256", "-bs", "1", "-bo", "1", "-nf", "-nt", "-l", "en", "-ng"]

    return Program(command, watch.Logged(ENCODED, b"system_info"), unit="encoding")


ENGINES = (
    Engine("llama-completion", "llama.cpp, `llama-completion`", "llama", llama_completion, (None, "llama.cpp"),
           (None, 95, 85, 70)),
    Engine("llama-server", "llama.cpp, `llama-server`", "llama", llama_server, (None, "llama.cpp"),
           (None, 95, 85, 70)),
    Engine("vllm-1", "vLLM on the CPU, 1 rank", "hf", vllm(1), ("torch", "vllm_cpu")),
    Engine("vllm-2", "vLLM on the CPU, 2 ranks", "hf", vllm(2), ("torch", "vllm_cpu")),
    Engine("onnx-one", "ONNX Runtime, one external file", "onnx",
           script("light", "onnx_run.py", "model.onnx", "inference", 20, "model/one"), ("light", "onnxruntime"),
           (None, 95, 85, 70)),
    Engine("onnx-many", "ONNX Runtime, 36 external files", "onnx",
           script("light", "onnx_run.py", "model.onnx", "inference", 20, "model/many"), ("light", "onnxruntime"),
           (None, 95, 85, 70)),
    Engine("openvino", "OpenVINO, `model.xml`", "openvino",
           script("light", "openvino_run.py", "model.xml", "inference", 20, "model/ir"), ("light", "openvino")),
    Engine("openvino-cache", "OpenVINO, a compiled model", "openvino",
           script("light", "openvino_run.py", "model.blob", "inference", 20, "model/cache"), ("light", "openvino")),
    Engine("ctranslate2", "CTranslate2, GPT-2", "ctranslate2", script("light", "ctranslate2_run.py", steps=24),
           ("light", "ctranslate2")),
    Engine("whisper", "whisper.cpp", "whisper", whisper, (None, "whisper.cpp")),
    Engine("transformers", "transformers `from_pretrained`", "hf", script("torch", "transformers_run.py"),
           ("torch", "transformers")),
    Engine("diffusers", "diffusers, Stable Diffusion's layout", "pipeline",
           script("torch", "diffusers_run.py", unit="step"), ("torch", "diffusers")),
)

# {engine: why it cannot be had}
NOT_RUN = {"sglang": "the package index has no build of its kernels for CPUs"}


def find(name):
    return next((engine for engine in ENGINES if engine.name == name), None)
