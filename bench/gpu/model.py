# SPDX-License-Identifier: Apache-2.0
"""Makes a checkpoint with the layers of Llama 3.1 8B (16.06 GB at full size) and random weights."""
import concurrent.futures
import json
import math
import os
import shutil
import struct
import time

FULL = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "ffn": 14336,
        "vocab": 128256}
FULL_BYTES = 16_060_522_496
SHARD_BYTES = 5_000_000_000  # as published; less of a scaled model, so that it has several shards
ELEMENT_BYTES = 2  # BF16
BLOCK_BYTES = 64 << 20
PAGE = 4096
WRITERS = 4
MARK = "ppc-gpu-model.json"  # written last


class ModelError(Exception):
    """One line for the user."""


def _even(value, multiple):
    return max(multiple, round(value / multiple) * multiple)


def dimensions(wanted):
    """Dimensions of a model of about `wanted` bytes, and no less than that from the full size on."""
    dims = dict(FULL)
    if wanted < 16_000_000_000:
        factor = math.sqrt(wanted / FULL_BYTES)
        dims["head_dim"] = _even(FULL["head_dim"] * factor, 2)
        dims["hidden"] = dims["heads"] * dims["head_dim"]
        dims["ffn"] = _even(FULL["ffn"] * factor, 64)
        dims["vocab"] = _even(FULL["vocab"] * factor, 64)
    else:
        layer = sum(map(tensor_bytes, _layer(dims).values()))
        dims["layers"] += math.ceil(max(0, wanted - FULL_BYTES) / layer)
    return dims


def _layer(dims):
    hidden, kv = dims["hidden"], dims["kv_heads"] * dims["head_dim"]
    return {"input_layernorm.weight": (hidden,),
            "mlp.down_proj.weight": (hidden, dims["ffn"]),
            "mlp.gate_proj.weight": (dims["ffn"], hidden),
            "mlp.up_proj.weight": (dims["ffn"], hidden),
            "post_attention_layernorm.weight": (hidden,),
            "self_attn.k_proj.weight": (kv, hidden),
            "self_attn.o_proj.weight": (hidden, hidden),
            "self_attn.q_proj.weight": (hidden, hidden),
            "self_attn.v_proj.weight": (kv, hidden)}


def tensor_bytes(shape):
    return math.prod(shape) * ELEMENT_BYTES


def tensors(dims):
    """{name: shape} in the order of the state dict, by which shards are filled."""
    out = {"model.embed_tokens.weight": (dims["vocab"], dims["hidden"])}
    for index in range(dims["layers"]):
        out.update({f"model.layers.{index}.{name}": shape for name, shape in _layer(dims).items()})
    out["model.norm.weight"] = (dims["hidden"],)
    out["lm_head.weight"] = (dims["vocab"], dims["hidden"])
    return out


def shards(dims):
    """[{name: shape}]: a shard ends before the tensor that would take it past the limit."""
    all_tensors = tensors(dims)
    total = sum(map(tensor_bytes, all_tensors.values()))
    limit = min(SHARD_BYTES, max(total * SHARD_BYTES // FULL_BYTES, 1))
    parts, used = [{}], 0
    for name, shape in all_tensors.items():
        if used > 0 and used + tensor_bytes(shape) > limit:
            parts.append({})
            used = 0
        parts[-1][name] = shape
        used += tensor_bytes(shape)
    return [dict(sorted(part.items())) for part in parts]


def config(dims):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
            "hidden_size": dims["hidden"], "intermediate_size": dims["ffn"],
            "num_hidden_layers": dims["layers"], "num_attention_heads": dims["heads"],
            "num_key_value_heads": dims["kv_heads"], "head_dim": dims["head_dim"],
            "vocab_size": dims["vocab"], "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
            "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "bos_token_id": 0, "eos_token_id": 1}


def _random_block(size):
    """Random BF16 numbers between 1/128 and 2 of either sign: none is NaN."""
    block = bytearray(os.urandom(size))
    small = bytes((byte & 0x80) | 0x3C | (byte & 0x03) for byte in range(256))
    block[1::2] = bytes(block[1::2]).translate(small)
    return block


def _header(part):
    table, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in part.items():
        end = at + tensor_bytes(shape)
        table[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, at


def _write_chunk(fd, block, at, size, number):
    """Each chunk starts elsewhere in the block, so that no two are the same."""
    view = memoryview(block)
    turn = number * 1021 * PAGE % len(block)
    parts = [view[turn:turn + size]]
    if len(parts[0]) < size:
        parts.append(view[:size - len(parts[0])])
    while parts:
        done = os.pwritev(fd, parts, at)
        at += done
        while parts and done >= len(parts[0]):
            done -= len(parts.pop(0))
        if parts:
            parts[0] = parts[0][done:]


def _write_shard(path, part, block, pool, first_chunk):
    head, data_bytes = _header(part)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        try:
            os.posix_fallocate(fd, 0, len(head) + data_bytes)
        except OSError:
            pass  # the file system lays the file out as it comes
        os.pwrite(fd, head, 0)
        chunks = range(0, data_bytes, len(block))
        jobs = [pool.submit(_write_chunk, fd, block, len(head) + at, min(len(block), data_bytes - at),
                            first_chunk + index) for index, at in enumerate(chunks)]
        for job in jobs:
            job.result()
        os.fsync(fd)
    finally:
        os.close(fd)
    return len(chunks)


def make(folder, wanted, say):
    """Makes the model in `folder` unless it is there; its description."""
    dims = dimensions(wanted)
    mark = os.path.join(folder, MARK)
    parts = shards(dims)
    description = {"architecture": "Llama 3.1 8B", "dimensions": dims, "shards": len(parts),
                   "bytes": sum(map(tensor_bytes, tensors(dims).values()))}
    if os.path.exists(mark):
        with open(mark, encoding="utf-8") as file:
            made = json.load(file)
        if made.get("dimensions") == dims:
            return made
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    free = shutil.disk_usage(folder).free
    if free < description["bytes"] * 1.05:
        raise ModelError(f"{folder}: {description['bytes'] / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are "
                         "free; give --dir or less --bytes")
    say(f"making a model of {description['bytes'] / 1e9:.2f} GB in {folder}")
    started = time.monotonic()
    block = _random_block(min(BLOCK_BYTES, max(PAGE, description["bytes"] // PAGE * PAGE)))
    index, chunks = {}, 0
    with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
        for number, part in enumerate(parts, 1):
            name = f"model-{number:05d}-of-{len(parts):05d}.safetensors"
            chunks += _write_shard(os.path.join(folder, name), part, block, pool, chunks)
            index.update(dict.fromkeys(part, name))
    _dump(folder, "config.json", config(dims))
    _dump(folder, "generation_config.json", {"bos_token_id": 0, "eos_token_id": 1})
    _dump(folder, "model.safetensors.index.json",
          {"metadata": {"total_size": description["bytes"]}, "weight_map": index})
    description["made_in_s"] = round(time.monotonic() - started, 2)
    _dump(folder, MARK, description)
    return description


def _dump(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)


def shard_files(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))
            if name.endswith(".safetensors")]
