# SPDX-License-Identifier: Apache-2.0
"""turns.py TURNS REST_S DIR PROGRAM [WORD...]: runs it with one model of DIR after the other, as servers of several do.

In the words {} is the name of the model's file without its ending.
"""
import glob
import hashlib
import os
import subprocess
import sys
import time

turns, rest_s, directory, words = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:]
names = sorted(os.path.splitext(os.path.basename(path))[0] for path in glob.glob(f"{directory}/*.gguf"))
total = hashlib.sha256()
for turn in range(turns):
    begin = time.monotonic()
    command = [word.replace("{}", names[turn % len(names)]) for word in words]
    total.update(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    print("READY" if turn == 0 else f"STEP {1000 * (time.monotonic() - begin):.3f}", flush=True)
    if turn + 1 < turns:
        time.sleep(rest_s)
print("DIGEST", total.hexdigest()[:12], flush=True)
