# SPDX-License-Identifier: Apache-2.0
"""Roots of Debian for a guest: made when they are named, booted with their own kernel."""
import os
import re
import subprocess

from .errors import VmError
from .options import DEBIAN, TOP


def find_root(options):
    """Makes options.root a directory."""
    if options.root not in DEBIAN:
        return
    number = options.root.removeprefix("debian")
    done = subprocess.run([os.path.join(TOP, "tools", "lib", "debian", "root"), number],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise VmError(f"no root directory of Debian {number}")
    options.root = done.stdout.strip()


def own_kernel(options):
    """(directory with boot/ and lib/modules/, release) of the newest kernel of the root, or None."""
    boot = os.path.join(options.root, "boot")
    if options.kernel or options.root == "/" or not options.systemd or not os.path.isdir(boot):
        return None
    releases = [name.removeprefix("vmlinuz-") for name in os.listdir(boot) if name.startswith("vmlinuz-")]
    if not releases:
        return None
    newest = max(releases, key=lambda release: [int(n) for n in re.findall(r"\d+", release)])
    return options.root, newest
