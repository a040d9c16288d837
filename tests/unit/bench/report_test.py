# SPDX-License-Identifier: Apache-2.0
"""The renderer: small known data in, numbers and well-formed XML out."""
import base64
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
import zlib

from paths import TOP
import synthetic_results
from report import page, png, runs, start, svg, table

SVG = "{http://www.w3.org/2000/svg}"


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        synthetic_results.make(cls.folder.name)
        cls.results = runs.Results(cls.folder.name)
        cls.html = page.Page(cls.results).render()
        cls.root = ElementTree.fromstring(cls.html.split("\n", 1)[1])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def text(self):
        return " ".join("".join(self.root.itertext()).split())

    def test_page_is_one_file(self):
        links = re.findall(r'(?:src|href)="([^"]*)"', self.html)
        self.assertTrue(links)
        self.assertTrue(all(link.startswith("data:image/png;base64,") for link in links))
        self.assertNotIn("<script", self.html)

    def test_every_picture_is_there(self):
        labels = [node.find(SVG + "title").text for node in self.root.iter(SVG + "svg")]
        for wanted in ("Start-up times", "Disk bandwidth", "Positions", "Residency", "Page cache"):
            self.assertTrue(any(label.startswith(wanted) for label in labels), wanted)

    def test_text_is_escaped(self):
        self.assertIn("Made-up numbers & shapes <only>.", self.text())

    def test_numbers_are_in_the_table(self):
        rows = [["".join(cell.itertext()) for cell in row.iter() if cell.tag.endswith("td")]
                for row in self.root.iter() if row.tag.endswith("tr")]
        native = next(row for row in rows if row and row[0] == "Native")
        self.assertEqual(native[2:7], ["62.7", "57.0", "14.3", "4.38", "1.00"])
        maio = next(row for row in rows if row and row[0] == "MAIO")
        self.assertEqual(maio[1:4], ["3", "14.4 (14.1..14.8)", "8.7 (8.7..8.7)"])
        self.assertEqual(maio[10:], ["2270", "0 / 0", "99.6%", "0", "equal"])

    def test_plain_table_has_the_same_cells(self):
        view = page.Page(self.results)
        lines = table.plain(view.rows, view.cases).splitlines()
        self.assertTrue(any(line.startswith("With a memory limit: loader's own") for line in lines))
        self.assertTrue(any(re.match(r"  MAIO +3 +14\.4 \(14\.1\.\.14\.8\)", l) for l in lines))

    def test_failed_claims_are_marked(self):
        self.assertIn("FAIL something else < 1: 1.20", self.text())

    def test_coordinates_are_numbers(self):
        for node in self.root.iter(SVG + "polyline"):
            for point in node.get("points").split():
                self.assertRegex(point, r"^-?[0-9.]+,-?[0-9.]+$")

    def test_command_line(self):
        tool = [sys.executable, os.path.join(TOP, "tools", "report")]
        out = os.path.join(self.folder.name, "x.html")
        done = subprocess.run(tool + [self.folder.name, "-o", out], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, out + "\n"))
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), self.html)
        broken = os.path.join(self.folder.name, "broken.json")
        for content, message in (("{", "not JSON"), ("[]", "no list of runs"),
                                 ('{"runs": [], "rows": [{}]}', "incomplete results")):
            with open(broken, "w", encoding="utf-8") as file:
                file.write(content)
            done = subprocess.run(tool + [broken], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


class StartTest(unittest.TestCase):
    """The page of one start-up: `ppcctl report` hands over its words, this draws."""

    REPORT = {"service_id": "svc-<b>", "directory": "/models", "command": "serve 'x' && y", "head": "start-up 4.0 s",
              "parts": {"total_s": 4.0, "bytes": 3 << 20}, "phase_rows": [{"name": "init", "began": "0.00", "took": ""}],
              "limit": {"name": "disk", "reason": "3.0 s of 4.0 s", "advice": "record it"},
              "rows": [{"key": "init_s", "name": "before", "s": 1.0, "seconds": "1.00", "share": "25%"},
                       {"key": "disk_s", "name": "waiting", "s": 3.0, "seconds": "3.00", "share": "75%"}],
              "progress": [[1.0, 0, 0], [2.5, 1 << 20, 4096], [4.0, 3 << 20, 8192]]}

    def drawn(self, **changes):
        self.html = start.render({**self.REPORT, **changes})
        root = ElementTree.fromstring(self.html.split("\n", 1)[1])
        return {node.find(SVG + "title").text: node for node in root.iter(SVG + "svg")}, " ".join(root.itertext())

    def test_bar_is_as_long_as_the_start(self):
        pictures, words = self.drawn()
        bars = [rect for rect in pictures["Parts of the start-up"].iter(SVG + "rect")]
        self.assertEqual([float(bar.get("width")) for bar in bars], [start.WIDTH / 4, start.WIDTH * 3 / 4])
        self.assertEqual(float(bars[1].get("x")), start.LEFT + start.WIDTH / 4)
        self.assertIn("Start-up of svc-<b> in /models", words)
        self.assertIn("serve 'x' && y", words)
        self.assertIn("record it", words)

    def test_curve_ends_where_all_is_read(self):
        pictures, _ = self.drawn()
        read = list(pictures["How far the readers were"].iter(SVG + "polyline"))[-1]
        (x0, y0), (x1, y1), (x2, y2) = ([float(n) for n in pair.split(",")] for pair in read.get("points").split())
        self.assertEqual((x0, x1, x2), (start.LEFT + start.WIDTH / 4, start.LEFT + start.WIDTH * 2.5 / 4, start.LEFT + start.WIDTH))
        self.assertAlmostEqual((y0 - y1) * 3, y0 - y2, delta=0.1)

    def test_nothing_seen_is_no_picture_of_it(self):
        nothing = {"parts": {"total_s": 0, "bytes": 0}, "progress": [], "phase_rows": []}
        rows = [{**row, "s": 0, "seconds": "0.00"} for row in self.REPORT["rows"]]
        self.assertEqual(list(self.drawn(**nothing, rows=rows)[0]), ["Parts of the start-up"])
        self.assertNotIn("nan", self.html)

    def test_page_is_one_file(self):
        self.drawn()
        self.assertEqual(re.findall(r"<script|src=|href=|url[(]", self.html), [])


class SeriesTest(unittest.TestCase):
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False)

    def tearDown(self):
        os.unlink(self.file.name)

    def write(self, *lines):
        for line in lines:
            self.file.write(line if isinstance(line, str) else json.dumps(line) + "\n")
        self.file.close()

    def test_bandwidth_is_the_slope_of_the_counter(self):
        self.write({"files": [], "pages": 8}, *({"t": int(t * 1e9) + 5 * 10**9, "read_bytes": b}
                                                for t, b in ((0, 100), (1, 100), (2, 300), (4, 300))))
        samples = runs.read_samples(self.file.name, 5 * 10**9)
        self.assertEqual(samples.bandwidth(1.0, 4.0),
                         [(1.0, 0.0), (2.0, 200.0), (3.0, 0.0), (4.0, 0.0), (5.0, 0.0)])

    def test_torn_and_foreign_lines_are_skipped(self):
        self.write({"t": 1, "read_bytes": 5}, "[1]\n", '{"t": 2, "read')
        self.assertEqual(runs.read_samples(self.file.name, 0).read_bytes, [5])

    def test_trace_is_grouped_and_sorted(self):
        self.write({"t": 2 * 10**9, "group": 1, "front": 2, "prefetch": 3, "evict": 1, "total": 9},
                   {"t": 10**9, "group": 1, "front": 1, "prefetch": 3, "evict": 0, "total": 9},
                   {"t": 10**9, "group": 0, "front": 1, "prefetch": 3, "evict": 0}, {"group": 4})
        groups = runs.read_trace(self.file.name, 10**9)
        self.assertEqual(list(groups), [0, 1])
        self.assertEqual([point[0] for point in groups[1]], [0.0, 1.0])


class PartsTest(unittest.TestCase):
    def test_ticks(self):
        self.assertEqual(svg.ticks(0, 100, 5), [0, 20, 40, 60, 80, 100])
        self.assertEqual([svg.label(v) for v in svg.ticks(0, 1, 5)],
                         ["0", "0.2", "0.4", "0.6", "0.8", "1"])
        self.assertEqual(svg.ticks(-3, 7, 5), [-2, 0, 2, 4, 6])

    def test_png_round_trip(self):
        data = png.encode([[0, 1], [2, 1]], [(1, 2, 3), (4, 5, 6), (7, 8, 9)])
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">II", data[16:24]), (2, 2))
        at = data.index(b"IDAT")
        length = struct.unpack(">I", data[at - 4:at])[0]
        self.assertEqual(zlib.decompress(data[at + 4:at + 4 + length]), b"\0\0\1\0\2\1")
        self.assertTrue(base64.b64decode(png.data_uri([[0]], [(0, 0, 0)]).split(",")[1]))


if __name__ == "__main__":
    unittest.main()
