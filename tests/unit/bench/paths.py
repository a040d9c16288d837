# SPDX-License-Identifier: Apache-2.0
"""Importing this lets a test import what lies in bench/ and tools/lib/."""
import os
import sys

sys.dont_write_bytecode = True
TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../.."))
sys.path[:0] = [os.path.join(TOP, "bench"), os.path.join(TOP, "tools/lib")]
