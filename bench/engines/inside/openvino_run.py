# SPDX-License-Identifier: Apache-2.0
"""openvino_run.py MODEL INFERENCES: a model.xml, or the blob of a compiled one, on two threads."""
import hashlib
import sys
import time

import numpy
import openvino

core = openvino.Core()
options = {"INFERENCE_NUM_THREADS": 2}
if sys.argv[1].endswith(".blob"):
    compiled = core.import_model(openvino.Tensor(numpy.memmap(sys.argv[1], numpy.uint8, "r")), "CPU", options)
else:
    compiled = core.compile_model(sys.argv[1], "CPU", options)
print("READY", flush=True)
total = hashlib.sha256()
for number in range(int(sys.argv[2])):
    started = time.monotonic()
    found = compiled([numpy.full((1, 2048), 1 + number, numpy.float32)])[0]
    print("STEP", 1000 * (time.monotonic() - started), flush=True)
    total.update(found.tobytes())
print("DIGEST", total.hexdigest()[:12], flush=True)
