# SPDX-License-Identifier: Apache-2.0
"""The models, random weights all of them, each made once as an image with a folder `model`."""
import os
import shutil

from loaders.disk import make_image

from .store import INSIDE, quietly

# {image: (virtual environment, script, arguments after the folder)}
MAKERS = {
    "llama": ("light", "make_gguf.py", ("dense.gguf", "20", "2048")),
    "llama-sparse": ("light", "make_gguf.py", ("sparse.gguf", "8", "1024", "64", "2")),
    "llama-small": ("light", "make_gguf.py", ("small.gguf", "20", "1536")),
    "llama-experts": ("light", "make_gguf.py", ("experts.gguf", "16", "1024", "32", "4")),
    "llama-two": ("light", "make_gguf.py", ("a.gguf,b.gguf", "20", "1024")),
    "hf": ("torch", "make_hf.py", ("24", "2048")),
    "openvino": ("light", "make_openvino.py", ()),
    "ctranslate2": ("torch", "make_ctranslate2.py", ("16", "1024")),
    "whisper": ("light", "make_whisper.py", ("24", "768")),
    "pipeline": ("torch", "make_pipeline.py", ()),
    "files-440": ("light", "make_files.py", ("shards", "4", "110")),
    "files-1230": ("light", "make_files.py", ("shards", "5", "235")),
    "files-1850": ("light", "make_files.py", ("shards", "8", "220")),
    "diffusers": ("light", "make_files.py", ("diffusers",)),
    "flat": ("light", "make_files.py", ("flat",)),
    "onnx": ("light", "make_files.py", ("onnx",)),
}


def ensure(store, name):
    """The image's path."""
    image = os.path.join(store.images, f"{name}.ext4")
    if os.path.exists(image):
        return image
    site, script, words = MAKERS[name]
    python = store.python(site)
    print(f"# making the model {name} ...", flush=True)
    content = store.path("content")
    shutil.rmtree(content, ignore_errors=True)
    os.makedirs(f"{content}/model")
    os.makedirs(store.images, exist_ok=True)
    quietly([python, os.path.join(INSIDE, script), f"{content}/model", *words], f"making the model {name}")
    make_image(content, image)
    shutil.rmtree(content)
    return image
