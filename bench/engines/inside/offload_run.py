# SPDX-License-Identifier: Apache-2.0
"""offload_run.py DIR TOKENS: greedy, on two threads, with accelerate's disk offload: layers are read again for each token."""
import hashlib
import sys
import tempfile
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

torch.set_num_threads(2)
layers = AutoConfig.from_pretrained(sys.argv[1]).num_hidden_layers
places = {f"model.layers.{layer}": "disk" for layer in range(layers)}
for name in ("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"):
    places[name] = "cpu"
with tempfile.TemporaryDirectory() as folder:
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16, device_map=places,
                                                 offload_folder=folder)
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
