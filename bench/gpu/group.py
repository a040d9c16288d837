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


def _has_memory(path):
    with open(path, encoding="ascii") as file:
        return "memory" in file.read().split()


def _hand_down(top):
    """Groups below the second version's root may be limited; what undoes it, None where they could before."""
    control = os.path.join(top, "cgroup.subtree_control")
    if _has_memory(control):
        return None
    _write(control, "+memory")
    return control


def _undo(folder, changed):
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    if changed:
        with contextlib.suppress(OSError):
            _write(changed, "-memory")


def _make(size):
    """(the group's folder, the file that was changed for it or None)"""
    why = "no memory controller"
    for top, name in PLACES:
        folder = os.path.join(top, f"ppc-gpu-{os.getpid()}")
        changed = None
        try:
            if name == "memory.max":
                if not _has_memory(os.path.join(top, "cgroup.controllers")):
                    continue
                changed = _hand_down(top)
            os.mkdir(folder)
            _write(os.path.join(folder, name), str(size))
            return folder, changed
        except FileNotFoundError:
            continue
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
            _undo(folder, changed)
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
    folder, changed = _make(size)
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
        _undo(folder, changed)
