# SPDX-License-Identifier: Apache-2.0
"""The guest's side of the demo:  python3 -m demo.guest SETTINGS.json"""
import json
import sys

from . import control
from .session import Session


class Guest(Session):
    """With the module, on a ppc mount."""

    def __init__(self, settings):
        super().__init__(settings, control.OnMount(settings["base"], "/mnt/ppc", settings["out"]))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as settings_file:
        Guest(json.load(settings_file)).main()
