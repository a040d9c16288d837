# SPDX-License-Identifier: Apache-2.0
"""tests/all/engines: what programs tell, ratios and their intervals, kept results, verdicts, on made-up figures."""
import contextlib
import io
import json
import math
import os
import subprocess
import tempfile
import time
import unittest
from unittest import mock

import paths  # noqa: F401 (sets the paths)
from engines import case_table, cases, catalog, cells, intervals, ppc, records, runs, sitting, table, watch
from engines.store import Missing, Store, SuiteError


def found(ready=10.0, steps=(50.0,), read=1000, digest="same"):
    return {"ready_s": ready, "steps_ms": list(steps), "disk_bytes": read, "digest": digest, "total_s": ready,
            "hits": 0, "ahead_bytes": None, "peak": 3000}


def followed(watcher, script, limit_s=20):
    """Outcome of a shell script, and how often the watcher said that it was ready."""
    told, log = [], io.BytesIO()
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        outcome = watcher.follow(process, time.monotonic(), limit_s, log, lambda: told.append(1))
    return outcome, len(told)


class Watch(unittest.TestCase):
    def test_lines(self):
        outcome, told = followed(watch.Lines(), "echo noise; echo READY; echo STEP 2.5; echo STEP 3; "
                                 "echo NOTE weights 1.5; printf 'DIGEST abc\\n'")
        self.assertEqual(told, 1)
        self.assertIsNotNone(outcome.ready_s)
        self.assertEqual((outcome.steps_ms, outcome.digest, outcome.notes), ([2.5, 3.0], "abc", {"weights": 1.5}))

    def test_lines_that_come_in_pieces(self):
        outcome, told = followed(watch.Lines(), "printf REA; sleep 0.1; printf 'DY\\nSTEP 1'; sleep 0.1; printf '0\\n'")
        self.assertEqual((told, outcome.steps_ms), (1, [10.0]))

    def test_ready_with_the_first_text(self):
        account = "common_perf_print:        eval time =    1440.00 ms /    24 runs   (   60.00 ms per token)"
        outcome, told = followed(watch.Logged(cases.EVALUATED), f"echo load >&2; echo text; echo '{account}' >&2")
        self.assertEqual((told, outcome.steps_ms), (1, [60.0]))
        self.assertEqual(outcome.digest, watch.short(b"text\n"))

    def test_time_of_the_prompt_is_not_that_of_a_token(self):
        account = "common_perf_print: prompt eval time =    9000.00 ms /     2 tokens"
        outcome, _ = followed(watch.Logged(cases.EVALUATED), f"echo text; echo '{account}' >&2")
        self.assertEqual(outcome.steps_ms, [])

    def test_ready_when_it_says_so(self):
        outcome, told = followed(watch.Logged(catalog.ENCODED, b"system_info"), "echo text; echo system_info >&2")
        self.assertEqual(told, 1)
        outcome, told = followed(watch.Logged(catalog.ENCODED, b"system_info"), "echo text")
        self.assertEqual((told, outcome.ready_s), (0, None))

    def test_one_that_hangs_is_not_waited_for(self):
        with self.assertRaisesRegex(SuiteError, "not done after 0.2 s"):
            followed(watch.Lines(), "exec sleep 1", 0.2)


class Intervals(unittest.TestCase):
    def test_means_are_geometric(self):
        self.assertAlmostEqual(intervals.mean([0.5, 2.0]), 1.0)
        self.assertIsNone(intervals.mean([]))

    def test_interval(self):
        self.assertIsNone(intervals.interval([1.0]))
        lower, upper = intervals.interval([0.9, 1.0, 1.0 / 0.9])
        # The deviation of the logarithms is ln(1/0.9); t is 4.303 for three pairs.
        half = 4.303 * math.log(1 / 0.9) / math.sqrt(3)
        self.assertAlmostEqual(upper, math.exp(half))
        self.assertAlmostEqual(lower * upper, 1.0)

    def test_more_pairs_than_the_table_has(self):
        lower, upper = intervals.interval([0.99, 1.01] * 40)
        self.assertTrue(0.99 < lower < 1.0 < upper < 1.01)

    def test_text(self):
        self.assertEqual(intervals.told([]), "-")
        self.assertEqual(intervals.told([0.5]), "0.50 (1)")
        self.assertEqual(intervals.told([1.0, 1.0]), "1.00 (1.00 to 1.00, 2)")


class Folder(unittest.TestCase):
    """Results in a folder of their own."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "results", "engines.jsonl")

    def of(self, machine="here", commit="abc"):
        return records.Records(self.path, machine, commit)


class Kept(Folder):
    def test_what_is_kept_is_found_again(self):
        self.of().add("x", None, 0, "native", found())
        self.of().add("x", 85, 0, "native", found(12.0))
        self.assertEqual(self.of().get("x", 85, 0, "native")["ready_s"], 12.0)
        self.assertIsNone(self.of().get("x", 70, 0, "native"))

    def test_other_commits_and_machines_do_not_count(self):
        self.of().add("x", None, 0, "native", found())
        self.assertIsNone(self.of(commit="def").get("x", None, 0, "native"))
        self.assertIsNone(self.of(machine="there").get("x", None, 0, "native"))

    def test_a_line_that_was_cut_off(self):
        self.of().add("x", None, 0, "native", found())
        with open(self.path, "a", encoding="utf-8") as file:
            file.write('{"engine": "x", "sha')
        self.of().add("x", None, 0, "first", found(5.0))
        self.assertEqual(self.of().get("x", None, 0, "first")["ready_s"], 5.0)
        self.assertEqual(len(self.of().all), 2)

    def test_ratios_are_of_pairs(self):
        kept = self.of()
        for pair, (native, first) in enumerate([(10.0, 5.0), (20.0, 30.0)]):
            kept.add("x", None, pair, "native", found(native))
            kept.add("x", None, pair, "first", found(first))
        kept.add("x", None, 2, "first", found(1.0))  # its native partner is still to come
        self.assertEqual(sorted(kept.ratios("x", None, "first", table.ready)), [0.5, 1.5])

    def test_one_that_failed_has_no_ratio(self):
        kept = self.of()
        kept.add("x", None, 0, "native", {"failed": "out of memory"})
        kept.add("x", None, 0, "first", found())
        self.assertEqual(kept.ratios("x", None, "first", table.ready), [])


class Verdicts(Folder):
    ENGINE = catalog.find("whisper")

    def pairs(self, cell, ratios, **changes):
        kept = self.of()
        for pair, ratio in enumerate(ratios):
            kept.add("whisper", None, pair, "native", found())
            kept.add("whisper", None, pair, cell, found(10.0 * ratio, **changes))
        return list(table.judged(kept, self.ENGINE, None, cell))

    def test_few_pairs_decide_nothing(self):
        self.assertEqual({kind for kind, _, _ in self.pairs("first", [1.5, 1.5])}, {"skip"})

    def test_lower_end_counts(self):
        self.assertEqual(self.pairs("first", [1.02, 1.03, 1.10])[0][0], "ok")
        self.assertEqual(self.pairs("second", [1.10, 1.11, 1.12])[0][0], "not ok")

    def test_native_must_be_like_native(self):
        self.assertEqual(self.pairs("native-again", [1.01, 1.01, 1.01])[0][0], "ok")
        self.assertEqual(self.pairs("native-again", [0.9, 0.9, 0.9])[0][0], "not ok")

    def test_other_output_fails_however_fast(self):
        self.assertEqual(self.pairs("first", [0.5], digest="other")[0][0], "not ok")

    def test_each_cell_counts_once_in_the_mean_of_all(self):
        kept = self.of()
        for pair in range(3):
            kept.add("whisper", None, pair, "native", found())
            kept.add("whisper", None, pair, "first", found(5.0))
        kept.add("vllm-1", None, 0, "native", found())
        kept.add("vllm-1", None, 0, "first", found(20.0))
        self.assertAlmostEqual(intervals.mean(table.means(kept, "first", table.ready)), 1.0)

    def test_table(self):
        self.pairs("first", [0.5, 0.5])
        text = "\n".join(table.lines(self.of()))
        self.assertIn("| whisper.cpp | no limit | 10.0 s, 50 ms, 0 MiB | - | 0.50 (0.50 to 0.50, 2); "
                      "1.00 (1.00 to 1.00, 2); 1.00 (1.00 to 1.00, 2) | - | - | - |", text)
        self.assertIn("no cell is judged", text)

    def test_an_engine_is_shown_by_its_latest_three_pairs(self):
        for machine, commit, engine, pairs in (("here", "old", "whisper", 3), ("here", "old", "vllm-1", 3),
                                               ("there", "mid", "vllm-1", 3), ("there", "new", "whisper", 1)):
            for pair in range(pairs):
                self.of(machine, commit).add(engine, None, pair, "native", found())
        self.assertEqual([(part.machine, part.commit, {key[0] for key in part.mine}) for part in table.newest(self.of())],
                         [("here", "old", {"whisper"}), ("there", "mid", {"vllm-1"})])
        with mock.patch.object(table.tables, "write") as written:
            table.write(self.of())
        self.assertIn("- sglang is not run", "\n".join(written.call_args.args[2]))

    def test_phases_that_engines_tell(self):
        kept = self.of()
        kept.add("vllm-1", None, 0, "native", found() | {"notes": {"weights": 10.0}})
        kept.add("vllm-1", None, 0, "first", found() | {"notes": {"weights": 2.5}})
        self.assertEqual(list(table.phases(kept)), ["- vLLM on the CPU, 1 rank, no limit, time of weights by its own "
                                                    "log: `run`, first 0.25 (1)."])


class MadeUp(sitting.Sitting):
    """Starts are told, not made; one engine can lack its program."""

    def __init__(self, kept, minutes=1, missing=None):
        super().__init__(None, None, kept, minutes)
        self.missing, self.made = missing, []

    def _starts(self, engine, share, pair, slow, way, cells, limit):
        if engine.name == self.missing:
            raise Missing("not there")
        for cell in cells:
            self.made.append((engine.name, share, pair, cell, limit))
            self.records.add(engine.name, share, pair, cell, found())


@mock.patch.object(sitting.models, "ensure", lambda *_: "image")
@mock.patch.object(sitting.disk, "Slow", mock.MagicMock())
@mock.patch("builtins.print", lambda *_, **__: None)
class Sittings(Folder):
    ENGINES = [catalog.find("whisper"), catalog.find("openvino")]

    def store(self):
        return mock.Mock(path=lambda *names: "/".join(names))

    def sit(self, **options):
        made = MadeUp(self.of(), **options)
        made.store = self.store()
        return made, made.measure(self.ENGINES, [None, 70], 2)

    def test_a_group_is_a_share_of_what_no_limit_took(self):
        made, done = self.sit()
        self.assertTrue(done)
        self.assertEqual({limit for _, share, _, _, limit in made.made if share == 70}, {2100})
        self.assertEqual({limit for _, share, _, _, limit in made.made if share is None}, {None})

    def test_the_next_sitting_goes_on(self):
        self.sit()
        self.assertEqual(self.sit()[0].made, [])
        with open(self.path, encoding="utf-8") as file:
            lines = file.readlines()
        with open(self.path, "w", encoding="utf-8") as file:
            file.writelines(line for line in lines if json.loads(line)["cell"] != "native-again")
        made, done = self.sit()
        self.assertTrue(done)
        self.assertEqual({cell for _, _, _, cell, _ in made.made}, {"native-again"})

    def test_one_whose_time_is_up(self):
        made, done = self.sit(minutes=-1)
        self.assertEqual((made.made, done), ([], False))

    def test_what_is_missing_stops_no_other(self):
        made, done = self.sit(missing="whisper")
        self.assertTrue(done)
        self.assertEqual({name for name, *_ in made.made}, {"openvino"})


class Cases(unittest.TestCase):
    def test_time_and_bytes(self):
        self.assertEqual(case_table.judged([(found(10.0), found(10.2))]), "")
        self.assertIn("10.4 s instead of 10.0", case_table.judged([(found(10.0), found(10.4))]))
        self.assertIn("1.06 times the bytes", case_table.judged([(found(), found(read=1060))]))

    def test_short_ones_may_take_60_ms_more(self):
        self.assertEqual(case_table.judged([(found(0.5), found(0.55))]), "")
        self.assertNotEqual(case_table.judged([(found(0.5), found(0.57))]), "")

    def test_other_output(self):
        self.assertEqual(case_table.judged([(found(), found(5.0, digest="other"))]), "other output than natively")

    def test_names_are_of_one_case(self):
        self.assertEqual(len({case.name for case in cases.CASES}), len(cases.CASES))
        for case in cases.CASES:
            self.assertTrue({way for way, _ in case.ways} <= ppc.WAYS.keys())


class FakeCells(cells.Cells):
    """A start reads too much where its cell has a neighbour and more than one pass."""

    def __init__(self):
        super().__init__(None, None)
        self.asked = 0

    def judged(self, cell):
        self.asked += 1
        is_harm = bool(cell["neighbour"]) and cell["reader"].get("passes", 1) > 1
        return {"ratio": 1.5 if is_harm else 1.0}, "1.50" if is_harm else ""


class CellsTest(Folder):
    def test_a_seed_and_a_number_are_one_cell(self):
        drawn = [cells.draw(7, number) for number in range(200)]
        self.assertEqual(drawn, [cells.draw(7, number) for number in range(200)])
        self.assertGreater(len({json.dumps(cell) for cell in drawn}), 150)
        for cell in drawn:
            self.assertIn(cell["way"], ppc.WAYS)
            self.assertIn(cell["files"], cells.IMAGES[cell["image"]])
        for name, plain in cells.PLAIN.items():
            self.assertTrue(any(cell[name] != plain for cell in drawn), name)

    def test_the_group_holds_a_share_of_what_is_read(self):
        for letter in "abcd":
            with open(os.path.join(self.folder.name, f"{letter}.safetensors"), "wb") as file:
                file.truncate(100 << 20)
        cell = {**cells.PLAIN, "files": "abab", "share": 50, "reader": {"part": 80, "workers": 2, "grows_mib": 5}}
        self.assertEqual(cells.group_bytes(cell, self.folder.name), (80 + 2 * 13) << 20)
        self.assertEqual(cells.group_bytes({**cell, "share": 5}, self.folder.name), cells.LEAST_GROUP + (26 << 20))
        self.assertIsNone(cells.group_bytes({**cell, "share": None}, self.folder.name))

    def test_a_credit_is_no_harm(self):
        self.assertEqual(cells.ratio(cells.CREDIT_BYTES + 150, 100), 1.5)
        self.assertEqual(cells.ratio(cells.CREDIT_BYTES, 100), 0)

    def test_a_recording_of_something_else_is_one_pass(self):
        cell = {**cells.PLAIN, "reader": {"passes": 6, "reads": 1}, "recorded": {"part": 50}}
        store = type("Store", (), {"path": lambda _, name: os.path.join(self.folder.name, name)})()
        for name in ("reader", "a.safetensors"):
            with open(os.path.join(self.folder.name, name), "wb"):
                pass
        self.assertEqual(cells.command(cell, False)(store, self.folder.name)[1:-1], ["passes=6", "reads=1"])
        self.assertEqual(cells.command(cell, True)(store, self.folder.name)[1:-1], ["passes=1", "reads=1", "part=50"])

    def test_a_harm_is_made_smaller(self):
        cell = {**cells.PLAIN, "neighbour": "cat", "share": 70, "fault_s": 1, "reader": {"passes": 3, "threads": 2}}
        self.assertEqual(FakeCells().shrunk(cell), {**cells.PLAIN, "neighbour": "cat", "reader": {"passes": 3}})

    def test_a_cell_that_fails_natively_is_skipped(self):
        kept = records.Records(self.path, "m", "c", ("machine", "commit", "seed", "cell"))
        failing = cells.Cells(mock.MagicMock(), None)
        with (mock.patch.object(cells.disk, "Slow"), mock.patch.object(cells.models, "ensure"),
              mock.patch.object(failing, "starts", side_effect=cells.SuiteError("out of memory")),
              contextlib.redirect_stdout(io.StringIO()) as said):
            self.assertTrue(cells.sitting(cells.Options(3, 0, 1, 1), failing, kept))
        self.assertEqual(said.getvalue(), "skip cell 3/0 - natively: out of memory\n")

    def test_a_sitting_goes_on(self):
        kept = records.Records(self.path, "m", "c", ("machine", "commit", "seed", "cell"))
        first = FakeCells()
        harms = [cells.draw(3, number) for number in range(30) if first.judged(cells.draw(3, number))[1]]
        self.assertTrue(harms)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertFalse(cells.sitting(cells.Options(3, 0, 30, 1), FakeCells(), kept))
        self.assertEqual(said.getvalue().count("not ok"), len(harms))
        again = FakeCells()
        with contextlib.redirect_stdout(io.StringIO()) as repeated:
            cells.sitting(cells.Options(3, 0, 30, 1), again, records.Records(self.path, "m", "c", kept.keys))
        self.assertEqual((again.asked, repeated.getvalue()), (0, said.getvalue()))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertTrue(cells.sitting(cells.Options(4, 0, 30, 0), again, kept))
        self.assertIn("the time is up before cell 4/0", said.getvalue())


class Small(unittest.TestCase):
    def test_loaded_bytes_of_all_directories(self):
        status = json.loads('{"mounts": [{"loads": {"loaded": 5, "node_loaded": {"0": 5}}}, {"loads": {"loaded": 2}}]}')
        self.assertEqual(ppc.loaded_bytes(status), 7)

    def test_every_other_pair_begins_at_the_other_end(self):
        self.assertEqual(sitting.order(0), tuple(reversed(sitting.order(1))))
        self.assertEqual(sitting.order(0)[0][1], ("native",))

    def test_what_is_missing_is_told_with_its_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "torch.why"), "w", encoding="utf-8") as file:
                file.write("engines: fetching\nengines: fetching torch failed (status 1)\n")
            with self.assertRaisesRegex(Missing, "fetching torch failed"):
                Store(folder).python("torch")
            with self.assertRaisesRegex(Missing, "is not there"):
                Store(folder).program("llama-completion")

    def test_a_build_that_lacks_programs(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(Missing, "lacks ppcd"):
            ppc.Build(folder).check()

    def test_line(self):
        self.assertEqual(runs.line("x", found(read=3 << 20)), "x: ready 10.0 s, 50.0 ms per token, 3 MiB read, "
                         "0 hits of the limit, 10.0 s in all, output same")


if __name__ == "__main__":
    unittest.main()
