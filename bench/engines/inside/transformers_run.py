# SPDX-License-Identifier: Apache-2.0
"""transformers_run.py DIR TOKENS: greedy, on two threads."""
import hashlib
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

torch.set_num_threads(2)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print("READY", flush=True)
tokens, cache, found = tokenizer("hello", return_tensors="pt").input_ids, None, []
with torch.inference_mode():
    for _ in range(int(sys.argv[2])):
        started = time.monotonic()
        answer = model(input_ids=tokens, past_key_values=cache, use_cache=True)
        cache, tokens = answer.past_key_values, answer.logits[:, -1:].argmax(-1)
        found.append(int(tokens))
        print("STEP", 1000 * (time.monotonic() - started), flush=True)
print("DIGEST", hashlib.sha256(repr(found).encode()).hexdigest()[:12], flush=True)
