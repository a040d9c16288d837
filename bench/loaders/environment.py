# SPDX-License-Identifier: Apache-2.0
"""Where everything lies, and how a program of the loaders' root is run."""
import ctypes
import os
import subprocess

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
BUILD = os.path.join(TOP, "build")
OUT = os.path.join(BUILD, "loaders")
ROOT = os.path.join(BUILD, "roots", "loaders")
IMAGE = os.path.join(OUT, "models.ext4")
MODELS = os.path.join(ROOT, "models")  # the slow disk; /models in the root
INSIDE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "inside")
CLONE_NEWNS = 0x20000
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "2",
    "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "/opt/site", "HF_HUB_OFFLINE": "1", "UCX_LOG_LEVEL": "fatal",
    "LD_LIBRARY_PATH": f"{LIBRARIES}/blas:{LIBRARIES}/lapack", "RUNAI_STREAMER_DIST": "0"}


class SuiteError(Exception):
    """The suite cannot go on; one line."""


def enter():
    """Mounts what programs in the root need, in a new mount namespace: nothing stays mounted behind us."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        raise SuiteError(f"no mount namespace: {os.strerror(ctypes.get_errno())}; run it as root")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for name in ("dev", "proc", "sys", "tmp", "models", "suite"):
        os.makedirs(f"{ROOT}/{name}", exist_ok=True)
    for name in ("dev", "proc", "sys"):
        subprocess.run(["mount", "--rbind", f"/{name}", f"{ROOT}/{name}"], check=True)
    subprocess.run(["mount", "--bind", "-o", "ro", INSIDE, f"{ROOT}/suite"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", f"{ROOT}/tmp"], check=True)
    # What the packages' scripts would have set up.
    if not os.path.exists(f"{ROOT}/etc/passwd"):
        with open(f"{ROOT}/etc/passwd", "w", encoding="utf-8") as file:
            file.write("root:x:0:0:root:/:/bin/bash\n")
    if not os.path.lexists(f"{ROOT}/bin/sh"):
        os.symlink("bash", f"{ROOT}/bin/sh")


def inside(command, extra=None):
    """The command, with the root's programs and nothing of the caller's environment."""
    words = [f"{key}={value}" for key, value in {**ENVIRONMENT, **(extra or {})}.items()]
    return ["chroot", ROOT, "/usr/bin/env", "-i", *words, *command]


def run_inside(command, what, timeout=600):
    done = subprocess.run(inside(command), capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise SuiteError(f"{what}: {said[-1]}")
    return done.stdout


def versions():
    """{package: version} of what is in the root."""
    code = ("import importlib.metadata as m, sys\n"
            "for n in sys.argv[1:]: print(n, m.version(n))\n")
    names = ("torch", "safetensors", "transformers", "fastsafetensors", "runai-model-streamer", "instanttensor")
    found = dict(line.split() for line in
                 run_inside(["python3", "-c", code, *names], "versions of the loaders").splitlines())
    llama = subprocess.run(inside(["llama-completion", "--version"]), capture_output=True, text=True, check=False)
    found["llama.cpp"] = (llama.stdout + llama.stderr).partition("version: ")[2].splitlines()[0]
    return found
