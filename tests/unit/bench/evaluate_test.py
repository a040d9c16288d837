# SPDX-License-Identifier: Apache-2.0
"""Bounds, rows and claims of the demo from small made-up measurements."""
import copy
import tempfile
import unittest

import paths  # noqa: F401 (sets the paths)
from demo import command, evaluate, prepare, promises, results

SUM = "00ff"


def run(system, memory, startup, load, **more):
    record = {"system": system, "name": system, "memory": memory, "startup_s": startup, "load_s": load,
              "init_s": 5.0, "cache_s": 0.0, "lead_s": 0.0, "bytes_from_disk": 2000,
              "memory_counters": {"events_max": 0, "oom_kill": 0}, "is_ours": system == "maio",
              "is_recording": False, "lost_events": 0,
              "report": {"checksum": SUM, "workers": [
                  {"placement": {"right": 99, "sampled": 100}},
                  {"placement": {"right": 100, "sampled": 100}}]}}
    record.update(more)
    return record


def raw(runs):
    data = {"cpus": 2, "limit_bytes": 1000, "runs": runs, "errors": [],
            "measured": {"disk_bytes_per_s": 200.0, "model_bytes": 2000, "cached_init_s": 5.0,
                         "cached_load_s": 7.5, "cpu_s": 2.0, "loader_bytes": 100, "checksum": SUM}}
    data["bounds"] = evaluate.bounds(data)
    return data


GOOD = [run("native", "rich", 60.0, 50.0), run("eager", "rich", 13.0, 8.0),
        run("maio", "rich", 12.0, 8.0), run("maio", "rich", 14.0, 9.0), run("maio", "rich", 13.0, 7.6),
        run("native", "limit", 60.0, 50.0), run("eager", "limit", 55.0, 50.0),
        run("precache", "limit", 70.0, 55.0), run("maio", "limit", 13.0, 8.0)]


def verdicts(runs, errors=()):
    data = raw(copy.deepcopy(runs))
    table = evaluate.rows(data, "/nonexistent")
    return {claim["text"]: claim for claim in promises.claims(table, list(errors))}


class BoundsTest(unittest.TestCase):
    def test_memory_rich(self):
        data = raw([])
        # max(init 5 + cached load 7.5, 2000 bytes / 200 per second)
        self.assertEqual(data["bounds"]["rich"]["startup_s"], 12.5)
        data["measured"]["cached_load_s"] = 1.0
        self.assertEqual(evaluate.bounds(data)["rich"]["startup_s"], 10.0)
        data["measured"]["cpu_s"] = 60.0
        self.assertEqual(evaluate.bounds(data)["rich"]["startup_s"], 30.0)

    def test_with_the_limit(self):
        data = raw([])
        # 900 bytes of cache fill within init; the other 1100 take 5.5 s, less than the load
        self.assertEqual(data["bounds"]["limit"]["startup_s"], 12.5)
        data["measured"]["cached_load_s"] = 2.0
        self.assertEqual(evaluate.bounds(data)["limit"]["startup_s"], 10.5)
        data["measured"]["cached_init_s"] = 1.0  # init lets in 200 bytes only
        self.assertEqual(evaluate.bounds(data)["limit"]["startup_s"], 10.0)


    def test_told_before(self):
        data = raw([])
        data["measured"].update(cached_load_s=1.0)
        # 2000 bytes / 200 per second, 3 s of it before the clock; then the load itself
        self.assertEqual(evaluate.bounds(data, 3.0)["rich"]["startup_s"], 7.0)
        data["measured"]["cached_init_s"] = 1.0  # with the lead 800 bytes are there, not 200
        self.assertEqual(evaluate.bounds(data, 3.0)["limit"]["startup_s"], 7.0)


class RowsTest(unittest.TestCase):
    @staticmethod
    def maio(runs):
        table = evaluate.rows(raw(runs), "/nonexistent")
        return next(r for r in table if (r["system"], r["memory"]) == ("maio", "rich"))

    def test_disturbed_runs_give_no_times(self):
        runs = copy.deepcopy(GOOD)
        runs[3]["disturbance"] = {"others": 0.2, "stolen": 0.1}
        maio = self.maio(runs)
        self.assertEqual((maio["runs"], maio["startup_s"], maio["disturbed"]), (3, 12.5, 0.0))

    def test_medians_and_ratios(self):
        maio = self.maio(copy.deepcopy(GOOD))
        self.assertEqual((maio["runs"], maio["startup_s"], maio["startup_min"], maio["startup_max"]),
                         (3, 13.0, 12.0, 14.0))
        self.assertEqual(maio["bound_ratio"], 13.0 / 12.5)
        self.assertEqual(maio["native_load_ratio"], 8.0 / 50.0)
        self.assertEqual(maio["placed_share"], 199 / 200)
        self.assertEqual(maio["disk_ratio"], 1.0)
        self.assertAlmostEqual(maio["bandwidth_share"], 2000 / (200 * 13.0))
        self.assertTrue(maio["checksum_ok"])

    def test_worst_run_counts_where_a_median_would_hide(self):
        runs = copy.deepcopy(GOOD)
        runs[3]["bytes_from_disk"] = 2200
        runs[4]["memory_counters"]["events_max"] = 7
        runs[2]["report"]["workers"][0]["placement"]["right"] = 50
        maio = self.maio(runs)
        self.assertEqual((maio["disk_ratio"], maio["events_max"], maio["placed_share"]),
                         (1.1, 7, 0.75))

    def test_headline(self):
        table = evaluate.rows(raw(copy.deepcopy(GOOD)), "/nonexistent")
        self.assertIn("4.6 times as fast as natively (13.0 s, 1.04 x", evaluate.headline(table))


class ClaimsTest(unittest.TestCase):
    def failed(self, runs, errors=()):
        return [text for text, claim in verdicts(runs, errors).items() if not claim["ok"]]

    def changed(self, index, **more):
        runs = copy.deepcopy(GOOD)
        runs[index].update(more)
        return runs

    def test_good_results_pass(self):
        self.assertEqual(self.failed(GOOD), [])

    def test_each_claim_can_fail(self):
        cases = [
            (self.changed(8, startup_s=16.0), "with the limit: MAIO's start-up / bound"),
            (self.changed(8, load_s=23.0), "with the limit: MAIO's load / Native's"),
            (self.changed(5, startup_s=12.0), "with the limit: MAIO's start-up / the best other"),
            (self.changed(6, startup_s=20.0), "with the limit: MAIO's start-up / EagerLoad's"),
            (self.changed(7, startup_s=20.0), "with the limit: MAIO's start-up / PreCache"),
            (self.changed(8, bytes_from_disk=2100), "MAIO's bytes from the disk"),
            (self.changed(8, memory_counters={"events_max": 1, "oom_kill": 0}), "MAIO never hits"),
            (self.changed(8, report={"checksum": SUM, "workers": [
                {"placement": {"right": 98, "sampled": 100}}]}), "MAIO's exclusive pages"),
            (self.changed(0, report={"checksum": "ff00", "workers": []}), "every worker")]
        for runs, wanted in cases:
            failed = self.failed(runs)
            self.assertEqual(len(failed), 1, (wanted, failed))
            self.assertTrue(failed[0].startswith(wanted), failed)

    def test_a_failed_run_fails_the_demo(self):
        failed = self.failed(GOOD, [{"system": "eager", "name": "EagerLoad", "error": "it broke"}])
        self.assertEqual(failed, ["every run finished"])

    def test_missing_rows_fail_unless_not_asked_for(self):
        only_native = [line for line in GOOD if line["system"] == "native"]
        self.assertIn("MAIO ran", self.failed(only_native))
        table = evaluate.rows(raw(copy.deepcopy(only_native)), "/nonexistent")
        self.assertTrue(all(c["ok"] for c in promises.claims(table, [], is_partial=True)))


class UndecidedTest(unittest.TestCase):
    """On the host: who was disturbed took longer than he needs."""

    def claim(self, start, changes, **more):
        runs = copy.deepcopy(GOOD)
        for index, values in changes.items():
            runs[index].update(values)
        table = evaluate.rows(raw(runs), "/nonexistent")
        found = promises.claims(table, [], promise=promises.HOST, **more)
        return next(claim for claim in found if claim["text"].startswith(start))

    NOISE = {"disturbance": {"others": 0.3, "stolen": 0.0}}

    def test_calm_runs_are_judged(self):
        start = "with the limit: MAIO's start-up / Native's"
        self.assertTrue(self.claim(start, {})["ok"])
        self.assertIs(self.claim(start, {8: {"startup_s": 30.0}})["ok"], False)

    def test_native_is_measured_where_the_bound_leaves_room(self):
        start = "with the limit: MAIO's start-up / Native's"
        self.assertEqual(self.claim(start, {})["text"], start + " <= 0.3")
        # the bound is at 12.5 / 30
        near = {5: {"startup_s": 30.0}, 8: {"startup_s": 13.0}}
        self.assertEqual(self.claim(start, near)["text"],
                         start + " <= 0.458 (0.3 is out of reach: the bound is at 0.417)")
        self.assertTrue(self.claim(start, near)["ok"])
        self.assertIsNone(self.claim(start, near, bound_doubt="disturbed")["ok"])
        near[8] = {"startup_s": 14.0}
        self.assertIs(self.claim(start, near)["ok"], False)

    def test_what_several_keep_mapped_is_not_promised(self):
        def promise(**more):
            return promises.of_host({"mbps": 300, "workers": 2, **more})

        self.assertEqual(promise(), promises.HOST)
        self.assertEqual(promise(mbps=None), promises.OWN_DISK)
        self.assertEqual(promise(keeps_mapped=True).bound, (1.05, None))
        self.assertEqual(promise(keeps_mapped=True, workers=1).bound, (1.05, 1.15))

    def test_a_disturbed_miss_says_nothing(self):
        claim = self.claim("with the limit: MAIO's start-up / Native's",
                           {8: {"startup_s": 30.0, **self.NOISE}})
        self.assertIsNone(claim["ok"])
        self.assertIn("others took 30% of the CPUs from 'maio'", claim["value"])

    def test_a_pass_over_a_disturbed_native_says_nothing(self):
        start = "with the limit: MAIO's start-up / Native's"
        self.assertIsNone(self.claim(start, {5: self.NOISE})["ok"])
        # but a miss does: Native would be faster still
        self.assertIs(self.claim(start, {5: self.NOISE, 8: {"startup_s": 30.0}})["ok"], False)

    def test_a_disturbed_pass_stays_one(self):
        self.assertTrue(self.claim("with the limit: MAIO's start-up / bound", {8: self.NOISE})["ok"])

    def test_bounds_and_disks_that_cannot_judge(self):
        start = "with the limit: MAIO's start-up / bound"
        self.assertIsNone(self.claim(start, {}, bound_doubt="the cached load was disturbed")["ok"])
        doubts = {"limit": "the disk gave 200 to 300 MB/s"}
        self.assertIsNone(self.claim(start, {}, doubts=doubts)["ok"])
        self.assertIsNone(self.claim(start, {8: {"startup_s": 30.0}}, doubts=doubts)["ok"])

    def test_bytes_and_lost_events_are_always_judged(self):
        self.assertIs(self.claim("events lost by MAIO", {8: {"lost_events": 1, **self.NOISE}})["ok"],
                      False)
        self.assertIs(self.claim("every worker", {8: {"report": {"checksum": "ff"}, **self.NOISE}})["ok"],
                      False)

    def test_one_node_places_nothing(self):
        with self.assertRaises(StopIteration):
            self.claim("MAIO's exclusive pages", {index: {"report": {"checksum": SUM, "workers": []}}
                                                  for index in range(len(GOOD))})


class OptionsTest(unittest.TestCase):
    def error(self, *arguments):
        with self.assertRaises(prepare.DemoError) as caught:
            command.parse(list(arguments))
        return str(caught.exception)

    def test_quick_is_small(self):
        options = command.parse(["--quick"])
        self.assertEqual((options.model, options.scale, options.repeats), ("qwen2.5-7b", 16, 1))

    def test_disk_of_either_machine(self):
        def disk(*arguments):
            options = command.parse(list(arguments))
            return options.mbps, options.lat_us

        self.assertEqual(disk(), (300, 2000))
        self.assertEqual(disk("--vm"), (200, 4000))
        self.assertEqual(disk("--vm", "--disk", "150,5300"), (150, 5300))
        self.assertEqual(disk("--disk", "none"), (None, None))
        with tempfile.TemporaryDirectory() as folder:  # one's own model, on the disk it lies on
            self.assertEqual(disk("--model", folder), (None, None))
            self.assertEqual(disk("--model", folder, "--disk", "100,500"), (100, 500))
        self.assertIn("neither MBPS,LAT_US", self.error("--disk", "fast"))
        self.assertIn("too slow", self.error("--vm", "--disk", "none"))
        self.assertIn("at least 1", self.error("--disk", "0,10"))

    def test_refusals_are_one_line(self):
        self.assertIn("neither a directory nor one of", self.error("--model", "gpt-9"))
        self.assertIn("at least 1", self.error("--scale", "0"))
        self.assertIn("no case 'poor'; there are rich, limit", self.error("--cases", "rich,poor"))
        self.assertIn("needs --mode mmap", self.error("--keep-mapped", "--mode", "read"))

    def test_a_part_is_known_as_one(self):
        self.assertFalse(command.parse(["--cases", "limit,rich"]).is_partial)
        self.assertTrue(command.parse(["--cases", "limit"]).is_partial)
        self.assertTrue(command.parse(["--systems", "native"]).is_partial)

    def test_own_model_must_be_safetensors(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(prepare.DemoError) as caught:
                prepare.own_model(folder, folder)
            self.assertIn("no *.safetensors", str(caught.exception))


class Warnings(unittest.TestCase):
    """What makes times of a run doubtful is said beside the claims."""

    def warnings(self, disk_mbps, cpu_busy_s):
        data = raw([run("maio", "limit", 10.0, 8.0, zero_ns=0, end_ns=10 * 10**9, cpu_busy_s=cpu_busy_s)])
        data["measured"]["disk_measured"] = disk_mbps * 1e6
        data["settings"] = {"mbps": 200}
        return results.warnings(data)

    def test_a_host_that_is_busy_or_too_slow(self):
        self.assertEqual(self.warnings(201, 16.0), [])
        self.assertIn("the disk gave 150 MB/s", self.warnings(150, 16.0)[0])
        self.assertIn("90% busy in a run of MAIO", self.warnings(201, 18.0)[0])


if __name__ == "__main__":
    unittest.main()
