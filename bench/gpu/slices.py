# SPDX-License-Identifier: Apache-2.0
"""Headers of safetensors files and the part of a tensor that one tensor-parallel worker takes."""
import json
import math
import struct

# Projections that make heads or ffn columns are cut by their rows, those that use them by their columns.
BY_ROWS = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "gate_proj.weight", "up_proj.weight",
           "embed_tokens.weight", "lm_head.weight")
BY_COLUMNS = ("o_proj.weight", "down_proj.weight")
ELEMENT_BYTES = 2  # BF16, the one type that bench/gpu makes


def header(path):
    """(byte at which data starts, {name: (shape, begin, end)} in the order of the file)."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        table = json.loads(file.read(size))
    table.pop("__metadata__", None)
    entries = {name: (tuple(one["shape"]), *one["data_offsets"]) for name, one in table.items()}
    return 8 + size, dict(sorted(entries.items(), key=lambda item: item[1][1]))


def cut(name, shape, rank, ranks):
    """(dimension, begin, end) of a worker's part; None: all of the tensor."""
    dimension = 0 if name.endswith(BY_ROWS) else 1 if name.endswith(BY_COLUMNS) else None
    if ranks == 1 or dimension is None or shape[dimension] % ranks != 0:
        return None
    step = shape[dimension] // ranks
    return dimension, rank * step, (rank + 1) * step


def runs(name, shape, rank, ranks):
    """(offset in the tensor, bytes) of each run of bytes that a worker's part consists of."""
    part = cut(name, shape, rank, ranks)
    if part is None:
        return [(0, math.prod(shape) * ELEMENT_BYTES)]
    dimension, begin, end = part
    row = math.prod(shape[1:]) * ELEMENT_BYTES
    if dimension == 0:
        return [(begin * row, (end - begin) * row)]
    return [(at * row + begin * ELEMENT_BYTES, (end - begin) * ELEMENT_BYTES) for at in range(shape[0])]
