# SPDX-License-Identifier: Apache-2.0
"""make_files.py DIR KIND...: files as models have them, random weights in f16; needs numpy, safetensors, and onnx for it.

shards COUNT MIB   model-0000K-of-COUNT.safetensors and their index
diffusers          three components in folders of their own beside a checkpoint that no pipeline reads
flat               a, b and c.safetensors of 480 MiB
slices LAYERS PARTS SLICES KIB   model.safetensors as slices.c expects it: experts, or of one layer the rows of a table
onnx               36 matrix products: in one/ with one external file, in many/ with one for each matrix
"""
import json
import os
import sys

import numpy
from safetensors.numpy import save_file

WIDTH = 2048
TENSOR = (WIDTH, 3 * WIDTH)  # 24 MiB
RANDOM = numpy.random.default_rng(1)


def tensor(mebibytes=24):
    """Random bits that are finite numbers."""
    shape = (mebibytes << 8, WIDTH)
    bits = RANDOM.integers(0, 1 << 13, shape, dtype=numpy.uint16) | 0x2000
    return bits.view(numpy.float16)


def write(path, count, mebibytes=24):
    save_file({f"layer.{number}": tensor(mebibytes) for number in range(count)}, path)


def shards(directory, count, mebibytes):
    count, names = int(count), {}
    for number in range(1, count + 1):
        name = f"model-{number:05}-of-{count:05}.safetensors"
        parts = {f"model.layers.{number}.{part}.weight": tensor(int(mebibytes) // 5) for part in "abcde"}
        save_file(parts, f"{directory}/{name}")
        names |= dict.fromkeys(parts, name)
    with open(f"{directory}/model.safetensors.index.json", "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": names}, file)


def diffusers(directory):
    for component, count in (("transformer", 16), ("text_encoder", 8), ("vae", 2)):
        os.makedirs(f"{directory}/{component}")
        write(f"{directory}/{component}/diffusion_pytorch_model.safetensors", count)
    write(f"{directory}/flux-dev.safetensors", 16)


def flat(directory):
    for name in "abc":
        write(f"{directory}/{name}.safetensors", 20)


def slices(directory, *numbers):
    """Written layer by layer: as a whole it would take much memory."""
    layers, parts, count, kib = map(int, numbers)
    shape, each = [count, 1, kib << 9], count * kib << 10
    names = ([f"blk.{layer}.ffn_{part}_exps.weight" for layer in range(layers) for part in ("gate", "up", "down")[:parts]]
             if parts > 1 else ["model.embed_tokens_per_layer.weight"])
    header = json.dumps({name: {"dtype": "F16", "shape": shape if parts > 1 else shape[::2],
                                "data_offsets": [number * each, (number + 1) * each]}
                         for number, name in enumerate(names)}).encode()
    with open(f"{directory}/model.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for _ in names:
            file.write(RANDOM.bytes(each))


def onnx(directory):
    import onnx as library
    nodes, weights, last = [], [], "x"
    for number in range(36):
        weight = RANDOM.standard_normal((WIDTH, WIDTH), dtype=numpy.float32) * numpy.float32(0.02)
        weights.append(library.numpy_helper.from_array(weight, f"w{number}"))
        nodes.append(library.helper.make_node("MatMul", [last, f"w{number}"], [f"h{number}"]))
        last = f"h{number}"
    values = [library.helper.make_tensor_value_info(name, library.TensorProto.FLOAT, [1, WIDTH])
              for name in ("x", last)]
    for name, one in (("one", True), ("many", False)):
        graph = library.helper.make_graph(nodes, "products", values[:1], values[1:], weights)
        model = library.helper.make_model(graph, opset_imports=[library.helper.make_opsetid("", 17)], ir_version=9)
        os.makedirs(f"{directory}/{name}")
        library.save_model(model, f"{directory}/{name}/model.onnx", save_as_external_data=True,
                           all_tensors_to_one_file=one, location="model.data" if one else None, size_threshold=0)


KINDS = {"shards": shards, "diffusers": diffusers, "flat": flat, "slices": slices, "onnx": onnx}
KINDS[sys.argv[2]](sys.argv[1], *sys.argv[3:])
