# SPDX-License-Identifier: Apache-2.0
"""Runs in the loaders' root: writes FILE, a checkpoint with GPT-2's names, for tests that would fetch GPT-2."""
import os
import sys

import torch
from safetensors.torch import save_file

SHAPES = {"mlp.c_proj.weight": (3072, 768), "mlp.c_fc.weight": (768, 3072), "attn.c_proj.weight": (768, 768),
          "attn.c_attn.weight": (768, 2304), "attn.c_proj.bias": (768,), "mlp.c_fc.bias": (3072,)}

if __name__ == "__main__":
    torch.manual_seed(1)
    os.makedirs(os.path.dirname(sys.argv[1]))
    save_file({f"h.{layer}.{name}": torch.randn(shape) for layer in range(12) for name, shape in SHAPES.items()},
              sys.argv[1], metadata={"format": "pt"})
