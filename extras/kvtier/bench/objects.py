# SPDX-License-Identifier: Apache-2.0
"""A file an object, named, written and read as LMCache's local-disk backend does (0.5.6, _key_to_path and read_file;
without O_DIRECT); and passes over them, as an engine reads the layers of a request."""
import hashlib
import os
import random
import shutil
import subprocess
import time

TOOLS = {"PATH": os.environ.get("PATH", "") + ":/sbin:/usr/sbin"}


def name_of(number):
    chunk = hashlib.sha256(str(number).encode()).hexdigest()
    return f"meta-llama-Llama-3.1-8B-Instruct@1@0@{chunk}@bfloat16.pt"


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")


def order_of(kind, count):
    """Numbers of objects: "chain" as they come, "turned" a sequence of its own from the middle on, "random"."""
    numbers = list(range(count))
    if kind == "turned":
        rest = numbers[count // 2:]
        random.Random(7).shuffle(rest)
        return numbers[:count // 2] + rest
    if kind.startswith("random"):
        random.Random(kind).shuffle(numbers)
    return numbers


def make_image(scratch, count, object_bytes):
    """An ext4 image with a folder kv of so many objects; its path."""
    source, image = os.path.join(scratch, "source"), os.path.join(scratch, "kv.img")
    os.makedirs(os.path.join(source, "kv"))
    content = random.Random(1)
    for number in range(count):
        with open(os.path.join(source, "kv", name_of(number)), "wb") as file:
            file.write(content.randbytes(object_bytes))
    megabytes = count * object_bytes // 900000 + count // 1000 + 100
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", source, image, f"{megabytes}M"], check=True,
                   env=os.environ | TOOLS, stdout=subprocess.DEVNULL)
    # Builds the directory's index as the kernel would; status 1: it was built.
    done = subprocess.run(["e2fsck", "-fyD", image], env=os.environ | TOOLS, stdout=subprocess.DEVNULL, check=False)
    if done.returncode > 1:
        raise SystemExit(f"e2fsck -D: status {done.returncode}")
    shutil.rmtree(source)
    return image


def read_pass(folder, order, layer, compute_s, object_bytes=64 << 10):
    """Reads the objects, and computes after each layer, a digest of its bytes first.  Seconds in all, seconds stalled, the
    digest, and how long an object took at the 99th percentile."""
    digest = hashlib.blake2b()
    buffer = memoryview(bytearray(layer * object_bytes))
    waits = []
    computed = 0.0
    began = time.monotonic()
    for place, number in enumerate(order):
        at = place % layer
        before = time.monotonic()
        with open(os.path.join(folder, name_of(number)), "rb") as file:
            file.readinto(buffer[at * object_bytes:(at + 1) * object_bytes])
        waits.append(time.monotonic() - before)
        if at + 1 == layer or place + 1 == len(order):
            before = time.monotonic()
            digest.update(buffer[:(at + 1) * object_bytes])
            time.sleep(max(before + compute_s - time.monotonic(), 0))
            computed += time.monotonic() - before
    took = time.monotonic() - began
    return {"took": took, "stalled": took - computed, "digest": digest.hexdigest(),
            "p99": sorted(waits)[len(waits) * 99 // 100]}
