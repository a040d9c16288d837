# SPDX-License-Identifier: Apache-2.0
"""make_openvino.py DIR: 36 matrix products, as model.xml with its weights in ir/, and compiled in cache/."""
import os
import sys

import numpy
import openvino
from openvino import opset13

WIDTH = 2048
random = numpy.random.default_rng(1)
first = last = opset13.parameter([1, WIDTH], numpy.float32, name="x")
for number in range(36):
    weight = random.standard_normal((WIDTH, WIDTH), dtype=numpy.float32) * numpy.float32(0.02)
    last = opset13.matmul(last, opset13.constant(weight), False, False)
model = openvino.Model([last], [first], "products")
for name in ("ir", "cache"):
    os.makedirs(f"{sys.argv[1]}/{name}")
openvino.save_model(model, f"{sys.argv[1]}/ir/model.xml", compress_to_fp16=False)
compiled = openvino.Core().compile_model(f"{sys.argv[1]}/ir/model.xml", "CPU")
with open(f"{sys.argv[1]}/cache/model.blob", "wb") as file:
    file.write(compiled.export_model().getvalue())
