# SPDX-License-Identifier: Apache-2.0
"""The image with the models, made once."""
import os
import shutil
import subprocess

from . import disk, environment
from .environment import IMAGE, MODELS, OUT


def ensure():
    if os.path.exists(IMAGE):
        return
    print("# making the models (TinyLlama-1.1B's layers, random weights) ...", flush=True)
    content = os.path.join(OUT, "content")
    shutil.rmtree(content, ignore_errors=True)
    os.makedirs(content)
    # Beside the mount point of the slow disk, which it is not yet.
    subprocess.run(["mount", "--bind", content, MODELS], check=True)
    try:
        environment.run_inside(["python3", "/suite/make_models.py", "/models"], "making the models")
    finally:
        subprocess.run(["umount", MODELS], check=True)
    disk.make_image(content, IMAGE)
    shutil.rmtree(content)

