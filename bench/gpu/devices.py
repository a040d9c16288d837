#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints as JSON which frameworks are here and which CUDA devices torch sees.

A process of its own: whoever asks stays without torch, and the frameworks' compiled files are there
afterwards, so that the first run does not pay for them.
"""
import importlib
import json
import sys

sys.dont_write_bytecode = True  # beside this file
import loader  # noqa: E402

sys.dont_write_bytecode = False  # of the frameworks


def main():
    facts = {"cuda": []}
    for name in ("torch", "safetensors", "transformers"):
        try:
            facts[name] = importlib.import_module(name).__version__
        except Exception as error:  # whatever a broken installation raises
            facts[name] = None
            facts[f"{name}_error"] = f"{type(error).__name__}: {error}"
    if facts["torch"]:
        import torch
        if torch.cuda.is_available():
            facts["cuda"] = [{"name": torch.cuda.get_device_name(index),
                              "bus_id": loader.bus_id(torch, index)}
                             for index in range(torch.cuda.device_count())]
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
