# SPDX-License-Identifier: Apache-2.0
"""tests/all/loaders: verdicts on made-up figures, ranges from made-up lines of strace, kept results."""
import tempfile
import unittest

import paths  # noqa: F401 (sets the paths)
from loaders import catalog, judge, results, truth
from loaders.environment import ROOT, SuiteError

MAPPED, READ = catalog.find("safetensors"), catalog.find("runai")


def runs(*seconds, digest="same"):
    return [{"seconds": value, "digest": digest} for value in seconds]


class Judge(unittest.TestCase):
    def test_other_bytes_fail_however_fast(self):
        self.assertEqual(judge.cell(READ, runs(1.0, digest="other"), runs(10.0), 5.0)[0], "not ok")

    def test_a_mapped_cell_takes_half_or_what_the_bound_does_but_never_more_than_native(self):
        for seconds, bound, verdict in ((4.9, 3.0, "ok"), (5.1, 3.0, "not ok"), (6.5, 6.0, "ok"),
                                        (6.7, 6.0, "not ok"), (10.5, 12.0, "not ok")):
            self.assertEqual(judge.cell(MAPPED, runs(seconds), runs(10.0), bound)[0], verdict, (seconds, bound))

    def test_a_disturbed_machine_is_undecided(self):
        self.assertEqual(judge.cell(READ, runs(10.5, 10.5, 12.6), runs(10.0, 10.0, 12.0), 1.0)[0], "skip")
        self.assertEqual(judge.cell(READ, runs(10.5, 10.5, 10.5), runs(10.0, 10.0, 10.0), 1.0)[0], "not ok")

    def test_rounds(self):
        native = runs(10.0, 10.0, 10.0, 10.0, 10.0)
        for cell, seconds, more in ((READ, [], True), (READ, [5.0], False), (READ, [9.9] * 4, True),
                                    (READ, [9.9] * 5, False), (MAPPED, [4.8] * 2, True), (MAPPED, [4.8] * 3, False)):
            self.assertEqual(judge.needs_more(cell, runs(*seconds), native, 1.0), more, seconds)

    def test_template(self):
        self.assertEqual(judge.template(0.981, 0.019)[0], "ok")
        self.assertEqual(judge.template(0.979, 0.0)[0], "not ok")
        self.assertEqual(judge.template(1.0, 0.021)[0], "not ok")


class Truth(unittest.TestCase):
    PATH = f"{ROOT}/models/hf/a.safetensors"

    def reads(self, *lines):
        found = truth.Reads("/models/hf")
        for line in lines:
            found.add(line.replace("PATH", self.PATH))
        return found

    def test_positions(self):
        found = self.reads('7 openat(AT_FDCWD, "/models/hf/a.safetensors", O_RDONLY) = 3<PATH>',
                           '7 read(3<PATH>, ""..., 8) = 8',
                           '7 lseek(3<PATH>, 4096, SEEK_SET) = 4096',
                           '7 read(3<PATH>, ""..., 100) = 50',
                           '8 pread64(3<PATH>, ""..., 4096, 8192) = 4096',
                           '8 read(4</etc/passwd>, ""..., 100) = 50')
        self.assertEqual(found.ranges, {"a.safetensors": [(0, 8), (4096, 50), (8192, 4096)]})

    def test_interrupted_lines(self):
        found = self.reads('7 pread64(3<PATH>,  <unfinished ...>',
                           '8 pread64(3<PATH>, ""..., 10, 20) = 10',
                           '7 <... pread64 resumed>""..., 4096, 8192) = 4096')
        self.assertEqual(found.ranges, {"a.safetensors": [(20, 10), (8192, 4096)]})

    def test_what_it_cannot_see_is_told(self):
        found = self.reads('7 openat(AT_FDCWD, "/models/hf/a.safetensors", O_RDONLY|O_DIRECT) = 3<PATH>')
        self.assertEqual(found.foreign, {"O_DIRECT"})

    def test_compare(self):
        read = {"a": bytes([1, 1, 1, 1])}
        self.assertEqual(truth.compare(read, {"a": bytes([1, 1, 1, 0]), "b": bytes([1])}), (0.75, 0.25))
        with self.assertRaises(SuiteError):
            truth.compare({"a": bytes(4)}, read)


class Kept(unittest.TestCase):
    def test_another_key_starts_anew(self):
        with tempfile.TemporaryDirectory() as folder:
            before, results.OUT = results.OUT, folder
            try:
                first = results.Results("x", {"disk": 1})
                self.assertEqual(first.keep("native-0", lambda: 5), 5)
                self.assertEqual(first.keep("native-0", lambda: 6), 5)
                self.assertEqual(results.Results("x", {"disk": 1}).rounds("native"), [5])
                self.assertEqual(results.Results("x", {"disk": 2}).rounds("native"), [])
            finally:
                results.OUT = before


if __name__ == "__main__":
    unittest.main()
