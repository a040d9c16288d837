# SPDX-License-Identifier: Apache-2.0
"""make_hf.py DIR LAYERS WIDTH: a Qwen2 in bfloat16 with random weights, in shards, and a tokenizer of bytes."""
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM


def model(layers, width):
    torch.set_default_dtype(torch.bfloat16)
    torch.manual_seed(1)
    return Qwen2ForCausalLM(Qwen2Config(
        vocab_size=32000, hidden_size=width, intermediate_size=width * 11 // 4 // 64 * 64, num_hidden_layers=layers,
        num_attention_heads=width // 128, num_key_value_heads=max(2, width // 512), max_position_embeddings=2048,
        tie_word_embeddings=False, bos_token_id=1, eos_token_id=2))


def tokenizer():
    named = ["<unk>", "<s>", "</s>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: number for number, name in enumerate(named + letters)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=named[0]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token=named[0], bos_token=named[1], eos_token=named[2])


model(int(sys.argv[2]), int(sys.argv[3])).save_pretrained(sys.argv[1], max_shard_size="600MB")
tokenizer().save_pretrained(sys.argv[1])
