# SPDX-License-Identifier: Apache-2.0
"""The tables in documents are what the kept raw results give, and say what these say."""
import importlib.machinery
import importlib.util
import os
import unittest

import paths
import tables
from filesystems import table as filesystems
from front import documents as front
from gpu import documents as gpu
from loaders import table as loaders



def program(name):
    """One of bench's programs, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(paths.TOP, "bench", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Documents(unittest.TestCase):
    def test_no_table_was_typed(self):
        for made in (filesystems, program("folios"), gpu, loaders):
            self.assertEqual(tables.written(made.PAGE, made.COMMAND), "\n".join(made.lines(tables.kept(made.NAME))),
                             f"{made.PAGE}: write it with `{made.COMMAND}`")

    def test_readme_shows_kept_results(self):
        self.assertEqual(tables.written(front.PAGE, front.COMMAND), "\n".join(front.lines()),
                         f"write it with `{front.COMMAND}`")
        for name, draw in front.PICTURES.items():
            with open(os.path.join(tables.TOP, name), encoding="utf-8") as file:
                self.assertEqual(file.read(), draw() + "\n", f"{name}: draw it with `{front.COMMAND}`")


class FileSystems(unittest.TestCase):
    @staticmethod
    def pair(native, maio, disk=1.0):
        return {"native": {"s": native, "disk": disk}, "maio": {"s": maio, "disk": 1.0}}

    def test_medians_and_spread(self):
        pairs = [self.pair(10, 3), self.pair(10, 1), self.pair(20, 4)]
        self.assertEqual(filesystems.row("x", pairs), ["x", "10.00", "3.00", "0.200 (0.100 to 0.300)", "1.00"])

    def test_one_pair_has_no_spread(self):
        self.assertEqual(filesystems.row("x", [self.pair(10, 3)])[3], "0.300")

    def test_what_native_reads_twice_is_said(self):
        self.assertEqual(filesystems.row("x", [self.pair(10, 3, 1.31)])[4], "1.00, Native 1.31")


if __name__ == "__main__":
    unittest.main()
