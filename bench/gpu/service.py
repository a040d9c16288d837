#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service as a serving framework starts it: one process that starts its workers and waits.

Prints READY and a line of JSON with the workers' reports when all have loaded, and a second line with
their checksums after a line on stdin, or its end, lets them go.
"""
import json
import os
import subprocess
import sys

READY = "ppc-gpu: model loaded"


def _line(worker):
    text = worker.stdout.readline()
    if not text:
        raise SystemExit(f"service: worker {worker.args[-1]} ended with status {worker.wait()}")
    return json.loads(text)


def main(arguments):
    ranks = int(arguments.pop(0))
    loader = os.path.join(os.path.dirname(os.path.realpath(__file__)), "loader.py")
    workers = []
    try:
        for rank in range(ranks):
            environment = dict(os.environ)
            if ranks > 1:  # as torchrun and vLLM do; a single worker is found by what it has open
                environment["LOCAL_RANK"] = str(rank)
            workers.append(subprocess.Popen(
                [sys.executable, loader, *arguments, "--ranks", str(ranks), "--rank", str(rank)],
                env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        print(READY, json.dumps([_line(worker) for worker in workers]), flush=True)
        sys.stdin.readline()
        for worker in workers:
            worker.stdin.close()
        print(json.dumps([_line(worker) for worker in workers]), flush=True)
    finally:
        for worker in workers:
            worker.stdin.close()
            if worker.poll() is None:
                try:
                    worker.wait(10)
                except subprocess.TimeoutExpired:
                    worker.kill()
                    worker.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
