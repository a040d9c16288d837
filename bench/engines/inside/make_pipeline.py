# SPDX-License-Identifier: Apache-2.0
"""make_pipeline.py DIR [offload]: a small Stable Diffusion pipeline with random weights in bfloat16, as diffusers stores it;
the largest model also as accelerate's disk offload has it, a file for each tensor."""
import json
import sys
import tempfile

import torch
from accelerate.utils import offload_state_dict
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

torch.manual_seed(1)
torch.set_default_dtype(torch.bfloat16)
WIDTH = 768
unet = UNet2DConditionModel(sample_size=16, in_channels=4, out_channels=4, cross_attention_dim=WIDTH,
                            block_out_channels=(256, 512, 1024, 1024), attention_head_dim=8)
vae = AutoencoderKL(block_out_channels=(64, 128, 256, 256), latent_channels=4, norm_num_groups=32,
                    down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4)
text = CLIPTextModel(CLIPTextConfig(vocab_size=1000, hidden_size=WIDTH, intermediate_size=4 * WIDTH,
                                    num_hidden_layers=12, num_attention_heads=12, bos_token_id=0, eos_token_id=1))
with tempfile.TemporaryDirectory() as scratch:
    letters = [chr(code) + end for code in range(97, 123) for end in ("", "</w>")]
    words = {name: number for number, name in enumerate(["<|startoftext|>", "<|endoftext|>", *letters])}
    with open(f"{scratch}/vocab.json", "w", encoding="utf-8") as file:
        json.dump(words, file)
    with open(f"{scratch}/merges.txt", "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n")
    tokenizer = CLIPTokenizer(f"{scratch}/vocab.json", f"{scratch}/merges.txt", model_max_length=77)
StableDiffusionPipeline(vae=vae, text_encoder=text, tokenizer=tokenizer, unet=unet, scheduler=DDIMScheduler(),
                        safety_checker=None, feature_extractor=None,
                        requires_safety_checker=False).save_pretrained(sys.argv[1])
if sys.argv[2:] == ["offload"]:
    offload_state_dict(f"{sys.argv[1]}/offload", unet.state_dict())
