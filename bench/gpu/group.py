# SPDX-License-Identifier: Apache-2.0
"""A memory control group for a service, of either version; gone when the block ends."""
import contextlib
import os
import time

PLACES = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))
GONE_S = 5.0  # what ends in a group leaves it a little later


class GroupError(Exception):
    """Why there can be none here; one line."""


def _write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _make(size):
    why = "no memory controller"
    for top, name in PLACES:
        folder = os.path.join(top, f"ppc-gpu-{os.getpid()}")
        try:
            if name == "memory.max":
                with open(os.path.join(top, "cgroup.controllers"), encoding="ascii") as file:
                    if "memory" not in file.read().split():
                        continue
                _write(os.path.join(top, "cgroup.subtree_control"), "+memory")
            os.mkdir(folder)
            _write(os.path.join(folder, name), str(size))
            return folder
        except FileNotFoundError:
            continue
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
    raise GroupError(f"memory cannot be limited: {why}")


def entering(folder, command):
    """The command, as a member of the group from its first instruction on."""
    return ["sh", "-c", 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"', "sh", folder, *command] if folder else command


@contextlib.contextmanager
def limited(size):
    """The folder of a group that holds so many bytes; None: no limit, no group."""
    if size is None:
        yield None
        return
    folder = _make(size)
    try:
        yield folder
    finally:
        until = time.monotonic() + GONE_S
        while True:
            try:
                os.rmdir(folder)
                break
            except OSError:
                if time.monotonic() > until:
                    break
                time.sleep(0.05)
