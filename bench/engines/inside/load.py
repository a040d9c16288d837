# SPDX-License-Identifier: Apache-2.0
"""load.py FILE...: copies all tensors of these safetensors files to memory, in order, as loaders with torch do."""
import hashlib
import sys

import torch
from safetensors import safe_open

total = hashlib.sha256()
for path in sys.argv[1:]:
    with safe_open(path, "pt") as file:
        for name in file.keys():
            total.update(file.get_tensor(name).clone().view(torch.int16)[:, 0].numpy().tobytes())
print("READY", flush=True)
print("DIGEST", total.hexdigest()[:12], flush=True)
