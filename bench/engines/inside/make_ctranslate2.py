# SPDX-License-Identifier: Apache-2.0
"""make_ctranslate2.py DIR LAYERS WIDTH: a GPT-2 with random weights, converted by CTranslate2."""
import sys
import tempfile

import ctranslate2
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

WORDS = 32000
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
vocabulary = {name: number for number, name in enumerate(["<|endoftext|>", *letters])}
vocabulary |= {f"t{number}": number for number in range(len(vocabulary), WORDS)}
tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
torch.manual_seed(1)
end = "<|endoftext|>"
model = GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_embd=int(sys.argv[3]), n_layer=int(sys.argv[2]),
                                   n_head=int(sys.argv[3]) // 64, n_positions=512, bos_token_id=0, eos_token_id=0))
with tempfile.TemporaryDirectory(dir=sys.argv[1]) as scratch:
    model.save_pretrained(scratch)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=end, eos_token=end,
                            unk_token=end).save_pretrained(scratch)
    ctranslate2.converters.TransformersConverter(scratch).convert(sys.argv[1], force=True)
