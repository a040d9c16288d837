# SPDX-License-Identifier: Apache-2.0
"""Runs in the loaders' root: writes OUT/hf and OUT/gguf, TinyLlama-1.1B's layers with random weights."""
import json
import os
import sys

import gguf
import numpy
import torch
from safetensors.torch import save_file

WIDTH, LAYERS, FFN, VOCAB, HEADS, KV_HEADS = 2048, 22, 5632, 32000, 32, 4
KV_WIDTH = WIDTH // HEADS * KV_HEADS
# Hugging Face's and llama.cpp's names of a layer's tensors, and their shapes.
LAYER = (("input_layernorm", "attn_norm", (WIDTH,)),
         ("self_attn.q_proj", "attn_q", (WIDTH, WIDTH)),
         ("self_attn.k_proj", "attn_k", (KV_WIDTH, WIDTH)),
         ("self_attn.v_proj", "attn_v", (KV_WIDTH, WIDTH)),
         ("self_attn.o_proj", "attn_output", (WIDTH, WIDTH)),
         ("post_attention_layernorm", "ffn_norm", (WIDTH,)),
         ("mlp.gate_proj", "ffn_gate", (FFN, WIDTH)),
         ("mlp.up_proj", "ffn_up", (FFN, WIDTH)),
         ("mlp.down_proj", "ffn_down", (WIDTH, FFN)))
SHARD_BYTES = 640 << 20
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
          "intermediate_size": FFN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB, "max_position_embeddings": 2048,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
          "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"}


def tensors():
    """(Hugging Face's name, llama.cpp's name, shape), in the order of the files."""
    yield "model.embed_tokens.weight", "token_embd.weight", (VOCAB, WIDTH)
    for layer in range(LAYERS):
        for name, short, shape in LAYER:
            yield f"model.layers.{layer}.{name}.weight", f"blk.{layer}.{short}.weight", shape
    yield "model.norm.weight", "output_norm.weight", (WIDTH,)
    yield "lm_head.weight", "output.weight", (VOCAB, WIDTH)


def values(name, shape):
    """The same for both formats; norms are ones, as in a fresh model."""
    if len(shape) == 1:
        return torch.ones(shape)
    generator = torch.Generator().manual_seed(sum(name.encode()))
    return torch.randn(shape, generator=generator) * 0.02


def write_hf(out):
    os.makedirs(out)
    shards, size = [{}], 0
    for name, _, shape in tensors():
        tensor = values(name, shape).to(torch.bfloat16)
        if size + tensor.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    index = {}
    for number, shard in enumerate(shards):
        file = f"model-{number + 1:05}-of-{len(shards):05}.safetensors"
        save_file(shard, f"{out}/{file}", metadata={"format": "pt"})
        index.update(dict.fromkeys(shard, file))
    total = sum(tensor.nbytes for shard in shards for tensor in shard.values())
    with open(f"{out}/model.safetensors.index.json", "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": index}, file)
    with open(f"{out}/config.json", "w", encoding="utf-8") as file:
        json.dump(CONFIG, file, indent=1)


def write_gguf(out):
    os.makedirs(out)
    writer = gguf.GGUFWriter(f"{out}/model.gguf", "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(VOCAB)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * (VOCAB - len(words))
    words += [f"\u2581w{number}" for number in range(len(words), VOCAB)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([-float(number) for number in range(VOCAB)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, short, shape in tensors():
        kind = numpy.float32 if len(shape) == 1 else numpy.float16
        writer.add_tensor(short, values(name, shape).numpy().astype(kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write_hf(f"{sys.argv[1]}/hf")
    write_gguf(f"{sys.argv[1]}/gguf")
