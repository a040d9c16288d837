# SPDX-License-Identifier: Apache-2.0
"""Runs in the loaders' root: loads DIR as KIND does, says READY, then DIGEST and what it computed.

usage: load.py KIND DIR
Tensors are the process's own memory when it says READY, as if they had gone to a device.
"""
import glob
import hashlib
import sys

import torch

TOKENS = [[1, 300, 4000, 17, 29000]]


def ready():
    print("READY", flush=True)


def digest(state, more=b""):
    """Of all tensors, by their names; outside the measured time."""
    total = hashlib.sha256(more)
    for name in sorted(state):
        total.update(name.encode())
        total.update(state[name].detach().contiguous().view(torch.uint8).numpy().data)
    print("DIGEST", len(state), total.hexdigest(), flush=True)


def shards(directory):
    return sorted(glob.glob(f"{directory}/*.safetensors"))


def safetensors(directory):
    """safe_open per shard, each tensor copied, as vLLM and SGLang do it."""
    from safetensors import safe_open
    state = {}
    for path in shards(directory):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():
                state[name] = file.get_tensor(name).clone()
    ready()
    digest(state)


def transformers(directory):
    """from_pretrained and one pass: its tensors lie in the mapping until they are used."""
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16, local_files_only=True)
    model.eval()
    with torch.inference_mode():
        logits = model(torch.tensor(TOKENS), use_cache=False).logits
    ready()
    digest(model.state_dict(), logits.float().numpy().tobytes())


def fastsafetensors(directory):
    """All files in one batch, by pread into one buffer of the device."""
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup
    loader = SafeTensorsFileLoader(SingleGroup(), "cpu", nogds=True)
    loader.add_filenames({0: shards(directory)})
    buffer = loader.copy_files_to_device()
    state = {name: buffer.get_tensor(name) for name in loader.get_keys()}
    ready()
    digest(state)


def fastsafetensors_queue(directory):
    """Its pipeline: the next file is read while the last one's tensors are taken."""
    from fastsafetensors import SingleGroup
    from fastsafetensors.parallel_loader import ParallelLoader
    loader = ParallelLoader(SingleGroup(), shards(directory), queue_size=1, use_tqdm_on_load=False,
                            device="cpu", nogds=True)
    state = {name: tensor.clone() for name, tensor in loader.iterate_weights()}
    loader.close()
    ready()
    digest(state)


def runai(directory):
    """Its own threads read ahead into a buffer."""
    from runai_model_streamer import SafetensorsStreamer
    state = {}
    with SafetensorsStreamer() as streamer:
        streamer.stream_files(shards(directory))
        for name, tensor in streamer.get_tensors():
            state[name] = tensor.clone()
    ready()
    digest(state)


def instanttensor(directory):
    """Fails without a CUDA device: what it says is the reason in the table."""
    from instanttensor import safe_open
    state = {}
    with safe_open(shards(directory), framework="pt", device="cpu", backend="BUFFERED") as file:
        for name, tensor in file.tensors():
            state[name] = tensor.clone()
    ready()
    digest(state)


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](sys.argv[2])
