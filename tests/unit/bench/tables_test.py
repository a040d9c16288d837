# SPDX-License-Identifier: Apache-2.0
"""The tables in documents are what the kept raw results give, and say what these say."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import unittest
from xml.etree import ElementTree

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


fast = program("fast")


class Documents(unittest.TestCase):
    def test_no_table_was_typed(self):
        for made in (fast, filesystems, program("folios"), gpu, loaders):
            is_kept = os.path.exists(tables.kept_path(made.NAME))
            self.assertEqual(tables.written(made.PAGE, made.COMMAND),
                             "\n".join(made.lines(tables.kept(made.NAME))) if is_kept else "",
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


class Fast(unittest.TestCase):
    @staticmethod
    def raw(*loads, gbps=2.0):
        """One speed; fio reads 2 GB/s in each round, a start with MAIO takes half of a native one."""
        def one(load):
            starts = {f"{mode} {init_s} {system}": {"s": 4 if system == "native" else 2, "cpu": 1, "read": 1}
                      for mode, init_s in fast.READERS for system in ("native", "maio")}
            return {"load": {"rate": load, "cpu": 0.25}, "direct": {"rate": 2, "cpu": 0.125, "device": 0.5},
                    "buffered": {"rate": 1, "cpu": 1}, "cat": {"rate": 1, "cpu": 1}, **starts}
        return {"cpus": 2, "linux": "6.18", "bytes": 2e9, "files": 4, "threads": 4, "most": 5.04, "unreached": [7.0, 14.0],
                "speeds": [{"gbps": gbps, "rounds": [one(load) for load in loads]}]}

    def test_the_loader_is_judged_by_the_median_of_the_pairs(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(list(fast.judge(self.raw(1, 1.9, 2))), [])
            self.assertEqual(list(fast.judge(self.raw(1, 1.7, 2))),
                             ["2 GB/s: the loader reads 0.85 of what fio reads with O_DIRECT, promised 0.9"])
            self.assertEqual(list(fast.judge(self.raw(1, gbps=None))), [])
        self.assertIn("# 2 GB/s: loader / fio with O_DIRECT 0.95 (0.50 to 1.00)\n", said.getvalue())
        self.assertIn("# not measured: 7, 14 GB/s; this disk gives 5.04\n", said.getvalue())

    def test_lines_have_rates_cpu_and_starts(self):
        lines = list(fast.lines(self.raw(1.9)))
        self.assertIn("disk gives 5.0 GB/s; 7, 14 GB/s were not reached. It takes 0.50 CPU s a GB itself, at least.", lines[0])
        self.assertIn("| 2 | 2.00 | 1.00 | 1.00 | 1.90 | 0.95 (0.95 to 0.95) | 1.90 (1.90 to 1.90) |", lines)
        self.assertIn("| 2 | 0.12 | 1.00 | 1.00 | 0.25 | 1.00 | 1.00 | 1.00 | 1.00 |", lines)
        self.assertIn("| 2 | mapped | 1 | 4.00 | 2.00 | 0.50 (0.50 to 0.50) | 1.00 |", lines)

    def test_the_picture_has_a_curve_for_each_reader(self):
        drawn = ElementTree.fromstring(fast.picture(self.raw(1.9)))
        self.assertEqual(len(list(drawn.iter("{http://www.w3.org/2000/svg}polyline"))), len(fast.READERS))


if __name__ == "__main__":
    unittest.main()
