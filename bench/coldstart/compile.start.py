# SPDX-License-Identifier: Apache-2.0
"""A start-up as bench/coldstart/compile and bench/gpu/compile have it: compiles some modules and functions, says what that took, and
is ready. DEVICE: where it computes, as torch names it (default cpu)."""
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

BEGAN = time.time()
SERVICE, KEPT = "compile-start", "KV_CACHE_BYTES"
DEVICE = os.environ.get("DEVICE", "cpu")
FOUND = len(glob.glob(f"{tempfile.gettempdir()}/torchinductor_*/**/*.so", recursive=True))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402


class Block(nn.Module):
    """A transformer's, with attention and a gated MLP."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.gate, self.down = (nn.Linear(width, 2 * width), nn.Linear(width, 2 * width),
                                         nn.Linear(2 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).flatten(-2))
        y = self.between(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


def rotary(x, angles):
    one, other = x.chunk(2, -1)
    return torch.cat((one * angles.cos() - other * angles.sin(), other * angles.cos() + one * angles.sin()), -1)


def sample(logits, temperature):
    return (logits / temperature).log_softmax(-1).topk(8).values.exp().cumsum(-1)


def learn(weight, x):
    """With a backward pass, which is compiled, too."""
    weight = weight.clone().requires_grad_()
    torch.compile(lambda w: (torch.tanh(x @ w) ** 2).mean() + w.abs().sum())(weight).backward()
    return weight.grad


def starts():
    """What is compiled, each with what it is called with."""
    yield torch.compile(rotary), (torch.randn(2, 16, 64), torch.randn(16, 32))
    if "QUICK" in os.environ:
        return
    yield torch.compile(sample), (torch.randn(4, 512), 0.7)
    for width, heads in ((64, 4), (96, 6)):
        yield torch.compile(Block(width, heads)), (torch.randn(2, 16, width),)
    yield torch.compile(nn.Sequential(nn.Conv1d(8, 16, 3), nn.GELU(), nn.GroupNorm(4, 16)).eval()), (torch.randn(2, 8, 40),)
    yield learn, (torch.randn(32, 32), torch.randn(8, 32))


def main():
    torch.manual_seed(7)
    with torch.device(DEVICE):
        torch.zeros(1)  # a GPU's context is no part of compiling
        compiled = list(starts())
    digest, seconds = hashlib.sha256(), 0.0
    for function, arguments in compiled:
        began = time.monotonic()
        with torch.set_grad_enabled(function is learn):
            result = function(*arguments)
        result = result.detach().cpu()
        seconds += time.monotonic() - began
        digest.update(result.numpy().tobytes())
    kept = os.environ.get(KEPT)
    if kept is None:
        subprocess.run(["ppcctl", "service", "env", SERVICE, f"{KEPT}=21474836480"], check=True)
    print(json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name() if DEVICE == "cuda" else DEVICE,
                      "began": BEGAN, "seconds": seconds, "outputs": digest.hexdigest(),
                      "found": FOUND, "kept": kept,
                      **{f"{what}_{name}": counters[group][f"{prefix}_cache_{name}"]
                         for what, group, prefix in (("graph", "inductor", "fxgraph"),
                                                     ("autograd", "aot_autograd", "autograd"))
                         for name in ("hit", "miss", "bypass")}}))
    print("ready to serve", flush=True)


if __name__ == "__main__":
    sys.exit(main())
