# SPDX-License-Identifier: Apache-2.0
"""ctranslate2_run.py DIR TOKENS: greedy, on two threads."""
import hashlib
import sys
import time

import ctranslate2

generator = ctranslate2.Generator(sys.argv[1], device="cpu", intra_threads=2, inter_threads=1)
print("READY", flush=True)
found, started = [], time.monotonic()
for step in generator.generate_tokens(["h", "e", "l", "l", "o"], max_length=int(sys.argv[2]), sampling_topk=1,
                                      end_token=[]):
    print("STEP", 1000 * (time.monotonic() - started), flush=True)
    found.append(step.token_id)
    started = time.monotonic()
print("DIGEST", hashlib.sha256(repr(found).encode()).hexdigest()[:12], flush=True)
