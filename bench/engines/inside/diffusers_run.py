# SPDX-License-Identifier: Apache-2.0
"""diffusers_run.py DIR STEPS [offload]: a picture of 128 x 128, on two threads; with accelerate's disk offload of the largest
model, which is read again for each step."""
import hashlib
import sys
import time

import torch
from accelerate import disk_offload, init_empty_weights
from diffusers import StableDiffusionPipeline, UNet2DConditionModel

torch.set_num_threads(2)
parts = {}
if sys.argv[3:] == ["offload"]:
    with init_empty_weights():
        parts["unet"] = UNet2DConditionModel.from_config(UNet2DConditionModel.load_config(sys.argv[1], subfolder="unet"))
    disk_offload(parts["unet"].to(torch.bfloat16), f"{sys.argv[1]}/offload", "cpu")
pipeline = StableDiffusionPipeline.from_pretrained(sys.argv[1], torch_dtype=torch.bfloat16, safety_checker=None, **parts)
pipeline.set_progress_bar_config(disable=True)
print("READY", flush=True)
started = time.monotonic()


def told(*words):
    global started
    print("STEP", 1000 * (time.monotonic() - started), flush=True)
    started = time.monotonic()
    return words[-1]


picture = pipeline("a cat", height=128, width=128, num_inference_steps=int(sys.argv[2]), output_type="np",
                   generator=torch.Generator().manual_seed(1), callback_on_step_end=told).images[0]
print("DIGEST", hashlib.sha256(picture.tobytes()).hexdigest()[:12], flush=True)
