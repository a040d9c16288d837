# SPDX-License-Identifier: Apache-2.0
"""onnx_run.py MODEL INFERENCES: ONNX Runtime on two threads."""
import hashlib
import sys
import time

import numpy
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print("READY", flush=True)
total = hashlib.sha256()
for number in range(int(sys.argv[2])):
    started = time.monotonic()
    found = session.run(None, {"x": numpy.full((1, 2048), 1 + number, numpy.float32)})[0]
    print("STEP", 1000 * (time.monotonic() - started), flush=True)
    total.update(found.tobytes())
print("DIGEST", total.hexdigest()[:12], flush=True)
