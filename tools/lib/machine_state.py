# SPDX-License-Identifier: Apache-2.0
"""Owns what a run of the tests changes on this machine: says it, and puts the settings back."""
import contextlib
import os
import re

SETTINGS = ("/sys/fs/cgroup/cgroup.subtree_control", "/proc/sys/kernel/yama/ptrace_scope", "/sys/kernel/mm/transparent_hugepage/enabled")


def setting(path):
    try:
        with open(path, encoding="ascii") as file:
            text = file.read().strip()
    except OSError:
        return None
    chosen = re.search(r"\[(.*)\]", text)
    return chosen[1] if chosen else text


@contextlib.contextmanager
def as_it_was(say):
    """Says what a run does to this machine, and puts back what tests have set."""
    if os.geteuid() == 0:
        say("this installs packages that are missing, empties the page cache again and again, and makes loop devices, control "
            "groups and BPF programs, which go when it ends")
    before = {path: setting(path) for path in SETTINGS}
    try:
        yield
    finally:
        for path, was in before.items():
            now = setting(path)
            if was is None or now == was:
                continue
            if path.endswith("subtree_control"):
                was = " ".join(f"-{name}" for name in sorted(set(now.split()) - set(was.split())))
            try:
                with open(path, "w", encoding="ascii") as file:
                    file.write(was)
            except OSError as error:
                say(f"{path} was '{before[path]}' and is '{now}': {error.strerror}")
