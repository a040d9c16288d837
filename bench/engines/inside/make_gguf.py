# SPDX-License-Identifier: Apache-2.0
"""make_gguf.py DIR FILE[,FILE...] LAYERS WIDTH [EXPERTS USED]: each a llama in f16 with random weights and a tokenizer of bytes; dense, or
with so many experts in each layer, of which each token uses some."""
import os
import sys

import gguf
import numpy

VOCABULARY = 32000
BYTES = 256


def tokenizer(writer):
    named = [b"<unk>", b"<s>", b"</s>"]
    others = VOCABULARY - BYTES - len(named)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(named + [f"<0x{value:02X}>".encode() for value in range(BYTES)]
                          + [f"t{number}".encode() for number in range(others)])
    writer.add_token_scores([0.0] * VOCABULARY)
    writer.add_token_types([2, 3, 3] + [6] * BYTES + [1] * others)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def weights(writer, layers, width, inner, experts):
    random = numpy.random.default_rng(1)

    def tensor(name, *shape, kind=numpy.float16):
        writer.add_tensor(name, (random.standard_normal(shape, dtype=numpy.float32) * 0.02).astype(kind))

    tensor("token_embd.weight", VOCABULARY, width)
    tensor("output_norm.weight", width, kind=numpy.float32)
    tensor("output.weight", VOCABULARY, width)
    for layer in range(layers):
        name = f"blk.{layer}."
        tensor(name + "attn_norm.weight", width, kind=numpy.float32)
        tensor(name + "ffn_norm.weight", width, kind=numpy.float32)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"{name}{part}.weight", width, width)
        kind, of_each = ("_exps", (experts,)) if experts else ("", ())
        if experts:
            # Larger, so that tokens choose different ones.
            writer.add_tensor(f"{name}ffn_gate_inp.weight", random.standard_normal((experts, width), dtype=numpy.float32))
        tensor(f"{name}ffn_gate{kind}.weight", *of_each, inner, width)
        tensor(f"{name}ffn_up{kind}.weight", *of_each, inner, width)
        tensor(f"{name}ffn_down{kind}.weight", *of_each, width, inner)


def main(directory, name, layers, width, experts=0, used=0):
    writer = gguf.GGUFWriter(os.path.join(directory, name), "llama")
    heads = width // 64
    inner = width * 3 // 4 if experts else width * 11 // 4 // 64 * 64
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(used)
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(1)  # mostly f16
    writer.add_rope_dimension_count(64)
    tokenizer(writer)
    weights(writer, layers, width, inner, experts)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


for each in sys.argv[2].split(","):
    main(sys.argv[1], each, *map(int, sys.argv[3:]))
