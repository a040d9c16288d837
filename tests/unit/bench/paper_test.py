# SPDX-License-Identifier: Apache-2.0
"""bench/paper: which starts are missing, what results of other commits change, tables and pictures; on made-up figures."""
import asyncio
import json
import os
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import paths  # noqa: F401 (sets the paths)
import tables
from engines import records
from paper_figures import balancer, catalog, command, curves, documents, figures, programs, shown, throughput
from paper_figures.results import Results

SECONDS = {"native": 10.0, "eager": 3.0, "precache": 2.0, "direct": 4.0, "maio": 2.5, "maio-p": 3.5, "maio-pa": 3.0,
           "maio-pae": 2.5}


def found(key, number=0):
    load = SECONDS[key] + number
    return {"date": "2026-01-02", "startup_s": load + 2 + (3 if key == "precache" else 0), "load_s": load, "init_s": 2.0,
            "cache_s": 3.0 if key == "precache" else 0.0, "loader_cpu_s": 0.25, "cache_cpu_s": 0.125 if key == "precache" else None,
            "runner_cpu_s": 0.5 if key.startswith("maio") else None, "runner_kib": {"RssAnon": 1024, "VmHWM": 10240}}


def series():
    return {"date": "2026-01-02", "cache_s": 0.0, "exec_ns": 0, "load_ns": 2 * 10**9, "ready_ns": 4 * 10**9, "end_ns": 4 * 10**9,
            "samples": [[0.0, 0], [2.0, 0], [4.0, 300 * 10**6], [4.5, 300 * 10**6]]}


def served(start):
    """Eight tokens a second and server that is ready, until 40 s; a request each second, which waits until one is."""
    wait = SECONDS[start.system] + start.round
    if start.model == "sequence":
        return {"date": "2026-01-02", "ready": [wait] * 3, "tokens": [[0] * int(2 * wait) + [4] * int(60 - 2 * wait)] * 3}
    return {"date": "2026-01-02", "started": [0.0, 20.0], "ready": [wait, 20 + wait],
            "tokens": [4 * ((at / 2 >= wait) + (at / 2 >= 20 + wait)) for at in range(80)],
            "requests": [[float(at), max(0.25, wait - at)] for at in range(100)]}


def filled(kept, rounds=2):
    """Every figure's lines."""
    for model in catalog.MODELS:
        kept.add("6", model, "measured", "", 0, {"model_bytes": 10**9, "disk_bytes_per_s": 300e6})
    for figure in ("6", "11", "10", "4.3"):
        for start in catalog.of_figure(figure, rounds):
            kept.add(*start, found({"10": "native", "4.3": start.system.split("-")[0]}.get(figure, start.system), start.round))
            if figure == "6" and start.system in catalog.SERIES and start.model in catalog.LARGE and start.round == 0:
                kept.add(*start._replace(figure="8"), series())
    for start in catalog.of_figure("12", rounds):
        kept.add(*start, {"date": "2026-01-02", "starts": [found(start.system)] * len(catalog.SEQUENCE)})
    for start in catalog.of_figure(catalog.SERVERS, rounds):
        kept.add(*start, served(start))
    kept.add("9", "cached", "1 MiB reads, inside", "rich", 0,
             {"date": "2026-01-02", "alone_us": 50.0, "idle": [0.5, -1.0, 1.0], "loads": [5.0, 4.0, 6.0]})
    kept.add("table3", "qwen2.5-7b", "maio", "rich", 0,
             {"date": "2026-01-02", "workers": 4, "extents": 1851, "bytes": 2065, "paper_bytes": 11000})
    return kept


class PaperTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "paper.jsonl")

    def records(self, commit="abc"):
        return records.Records(self.path, "a machine", commit, catalog.KEYS)


class Missing(PaperTest):
    def test_each_start_is_wanted_once(self):
        for figure in ("4.3", "6", "10", "11", "12", catalog.SERVERS):
            starts = list(catalog.of_figure(figure, 2))
            self.assertEqual(len(starts), len(set(starts)), figure)

    def test_the_rounds_come_one_after_the_other(self):
        numbers = [start.round for start in catalog.of_figure("6", 3)]
        self.assertEqual(numbers, sorted(numbers))

    def test_the_pool_of_direct_reads_has_no_limit_to_fit_in(self):
        self.assertEqual({start.memory for start in catalog.of_figure("6", 1) if start.system == "direct"}, {"rich"})

    def test_what_was_recorded_is_not_run_again(self):
        starts = catalog.missing("6", 2, self.records())
        self.records().add(*starts[3], found("maio"))
        self.assertEqual(catalog.missing("6", 2, self.records()), starts[:3] + starts[4:])

    def test_a_line_that_was_cut_off_is_run_again(self):
        first = catalog.missing("6", 1, self.records())[0]
        self.records().add(*first, found("maio"))
        with open(self.path, "r+", encoding="utf-8") as file:
            file.truncate(os.path.getsize(self.path) - 20)
        self.assertIn(first, catalog.missing("6", 1, self.records()))

    def test_another_commit_is_measured_anew(self):
        filled(self.records("old"))
        self.assertEqual(catalog.missing("6", 2, self.records("old")), [])
        self.assertEqual(len(catalog.missing("6", 2, self.records("new"))), len(list(catalog.of_figure("6", 2))))

    def test_another_figure_does_not_count(self):
        start = catalog.missing("11", 1, self.records())[0]
        self.records().add(*start._replace(figure="6"), found("maio"))
        self.assertIn(start, catalog.missing("11", 1, self.records()))


    def test_a_disturbed_start_is_run_again_when_asked(self):
        start = catalog.missing("6", 1, self.records())[0]
        self.records().add(*start, found("maio") | {"others": 0.2})
        self.assertNotIn(start, catalog.missing("6", 1, self.records()))
        self.assertIn(start, catalog.missing("6", 1, self.records(), True))
        self.records().add(*start, found("maio"))
        self.assertNotIn(start, catalog.missing("6", 1, self.records(), True))

    def test_a_sequence_is_disturbed_as_one_of_its_starts_is(self):
        self.assertTrue(catalog.is_disturbed({"starts": [found("maio"), found("maio") | {"others": 0.06}]}))
        self.assertFalse(catalog.is_disturbed({"starts": [found("maio") | {"others": 0.04}]}))


class Shown(PaperTest):
    def results(self):
        return Results(filled(self.records()).all)

    def rows(self, lines):
        return {row[0]: row for row in ([cell.strip() for cell in line.strip("|").split("|")]
                                        for line in lines if line.startswith("| "))}

    def test_the_last_commit_is_shown_alone(self):
        filled(self.records("old"), 3)
        kept = filled(self.records("new"), 1)
        results = Results(kept.all)
        self.assertEqual(results.spread("6", "qwen2.5-7b", "native", "rich", shown.load).count, 1)
        self.assertIn("1 round; a machine; commit new, 2026-01-02", results.origin("6"))

    def test_the_least_disturbed_of_several_lines_counts(self):
        kept = self.records()
        for number, others in ((1, 0.3), (2, 0.2), (3, 0.6)):
            kept.add("6", "qwen2.5-72b", "native", "rich", 0, found("native", number) | {"others": others})
        self.assertEqual(Results(kept.all).get("6", "qwen2.5-72b", "native", "rich")["load_s"], 12.0)

    def test_a_disturbed_round_is_left_out_where_there_is_another(self):
        kept = filled(self.records(), 1)
        kept.add("6", "qwen2.5-72b", "native", "rich", 1, found("native", 90) | {"others": 0.5})
        results = Results(kept.all)
        self.assertEqual(results.spread("6", "qwen2.5-72b", "native", "rich", shown.load), (10.0, 10.0, 10.0, 1))
        self.assertTrue(results.origin("6").endswith("disturbed by other processes: 1 of the starts"))

    def test_medians_and_ratios_of_loads(self):
        row = self.rows(shown.loads(self.results()))["Qwen2.5-72B, 1:128"]
        self.assertEqual(row[1:4], ["1.00 GB", "10.5 / 10.5", "3.5 / 3.5"])
        self.assertEqual(row[5:8], ["4.5 / -", "3.0 / 3.0", "0.29 / 0.29"])

    def test_filling_the_cache_is_no_part_of_a_start(self):
        row = self.rows(shown.startups(self.results()))["Llama-7B, 1:16"]
        self.assertEqual(row[4], "4.5 / 4.5")

    def test_cpu_time_by_its_owner(self):
        lines = [line for line in shown.cpu(self.results()) if line.startswith("| Qwen2.5-7B | enough")]
        self.assertEqual(lines, ["| Qwen2.5-7B | enough | 0.25 | 0.25 | 0.12 | 0.25 | 0.50 | 3.00 |"])

    def test_steps_are_compared_with_the_step_before(self):
        lines = [line for line in shown.breakdown(self.results()) if line.startswith("| Llama-70B | 45%")]
        self.assertEqual(lines, ["| Llama-70B | 45% | 10.5 | 4.0 | 3.5 | 3.0 | 0.38 | 0.88 | 0.86 |"])

    def test_share_of_the_disk_by_stage(self):
        lines = [line for line in curves.native_share(self.results()) if "| Qwen2.5-72B | Native | 45%" in line]
        self.assertEqual(lines, ["| Qwen2.5-72B | Native | 45% | 0% | 50% | 25% |"])

    def test_two_nodes_have_loaded_when_both_have(self):
        kept = filled(self.records(), 1)
        kept.add("4.3", "deepseek-r1", "maio-1", "rich", 0, found("maio", 2))
        self.assertIn("| MAIO | 2.5 | 4.5 | 4.5 | 0.45 | 452 s, 0.70 |", shown.two_nodes(Results(kept.all)))

    def test_overhead_is_a_share_of_the_time_alone(self):
        self.assertIn("| 1 MiB reads, inside | 50.00 us | +1.0% [-2.0, +2.0] | +10.0% [+8.0, +12.0] |", shown.overhead(self.results()))

    def test_throughput(self):
        self.assertEqual(curves.throughput(30.0, 10.0), 0.5)
        self.assertEqual(curves.total_s({"starts": [found("precache")] * 3}), 12.0)

    def test_tokens_in_the_window_after_each_start(self):
        found = served(catalog.Start(catalog.SERVERS, "elastic", "native", "rich", 0))
        self.assertEqual(throughput.after_starts(found), [8 * 5 / 15, 8 + 8 * 5 / 15])
        self.assertEqual(throughput.first_tokens(found, 0.99), 9.0)

    def test_tokens_of_a_part_of_a_step(self):
        self.assertEqual([throughput.tokens_by([0, 4, 8], at) for at in (-1, 0.5, 0.75, 1.25, 9)], [0, 0, 2, 8, 12])

    def test_servers_that_scale_out(self):
        lines = list(throughput.table(self.results()))
        row = next(line for line in lines if line.startswith("| MAIO"))
        self.assertEqual(row, "| MAIO | 3.0 / 3.0 | 6.4 / 14.4 | 10.4 | 2.40 / 1.62 / 1.38 | 0.2 | 2.0 | 0.21 |")

    def test_servers_in_sequence(self):
        start = catalog.Start(catalog.SERVERS, "sequence", "native", "rich", 0)
        self.assertEqual([throughput.sequence_rate(served(start), t) for t in (10, 20)], [0.0, 4.0])

    def test_nothing_kept_says_the_command(self):
        for figure in documents.shown_here():
            self.assertEqual(list(documents.block(figure, [])), [f"Not measured yet: `bench/paper {figure.name}`."])

    def test_a_part_of_the_starts_can_be_shown(self):
        kept = self.records()
        kept.add("6", "qwen2.5-7b", "measured", "", 0, {"model_bytes": 10**9, "disk_bytes_per_s": 300e6})
        kept.add("6", "qwen2.5-7b", "native", "limit", 0, found("native"))
        row = self.rows(shown.loads(Results(kept.all)))["Qwen2.5-7B, 1:16"]
        self.assertEqual(row[2:], ["- / 10.0", "- / -", "- / -", "- / -", "- / -", "- / -", "- / -"])
        self.assertIn("10.0", shown.figure_6(Results(kept.all)))

    def test_every_picture_is_well_formed_and_has_its_numbers(self):
        for figure in documents.shown_here():
            for name, picture in documents.pictures(figure, filled(self.records()).all).items():
                root = ElementTree.fromstring(picture)
                self.assertTrue(root.tag.endswith("svg"), name)
                if name == "paper-6":
                    self.assertEqual(sum("10.5" == text.text for text in root.iter() if text.tag.endswith("text")), 10)

    def test_series_as_csv(self):
        documents.write_series(filled(self.records()).all, self.folder.name)
        with open(os.path.join(self.folder.name, "bandwidth.csv"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(lines[0], "model,system,memory,seconds,bytes")
        self.assertIn("llama-2-70b,maio,limit,4.0,300000000", lines)


class Programs(unittest.TestCase):
    def test_sizes_of_templates(self):
        said = ("model        workers   extents     bytes   paper's   share encode ms decode ms in use KB\n"
                "llama-2-7b         4       877      1573     14000   11.2%       1.2       0.1       532\n")
        self.assertEqual(programs.template_sizes(said),
                         {"llama-2-7b": {"workers": 4, "extents": 877, "bytes": 1573, "paper_bytes": 14000}})

    def test_costs_of_the_observer(self):
        said = ("hot 4 KiB reads, inside: 0.434 us with nothing attached\n"
                "  programs that do nothing                      +0.072 us [-0.022, +0.115]\n"
                "  registered, nothing loads                     +0.024 us [-0.130, +0.030]\n"
                "  one directory loads                           +0.345 us [+0.266, +0.383]\n"
                "  one directory loads, above an empty program   +0.278 us [+0.254, +0.288]\n"
                "mapped passes over 1 MiB, inside: 25.981 us with nothing attached\n"
                "  one directory loads                           -0.5 us [-3.167, +7.817]\n"
                "events lost: 0\n")
        self.assertEqual(programs.observer_costs(said),
                         {"4 KiB reads, inside": {"alone_us": 0.434, "idle": [0.024, -0.13, 0.03], "loads": [0.345, 0.266, 0.383]},
                          "mapped passes over 1 MiB, inside": {"alone_us": 25.981, "loads": [-0.5, -3.167, 7.817]}})

    def test_memory_of_the_runner(self):
        said = "from          anon before\nservice 3 did not start\ntemplate   1 2 3 4\n"
        self.assertEqual(programs.runner_memory(said),
                         {"template": {"anon_before": 1, "peak_before": 2, "peak": 3, "anon_settled": 4}})


class FakeServer:
    """Streams as many tokens as a request asks for."""

    def __init__(self, answers=True):
        self.answers, self.port, self.asked = answers, None, 0

    def start(self):
        self.port = 1  # nobody listens there yet
        if self.answers:
            asyncio.get_running_loop().create_task(self.listen())

    def is_running(self):
        return self.answers

    async def listen(self):
        async with await asyncio.start_server(self.answer, "127.0.0.1", 0) as listener:
            self.port = listener.sockets[0].getsockname()[1]
            await listener.serve_forever()

    async def answer(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        if head.startswith(b"POST"):
            self.asked += 1
            length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
            for _ in range(json.loads(await reader.readexactly(length))["n_predict"]):
                writer.write(b'data: {"content": "x", "tokens": [7], "stop": false}\n\n')
            writer.write(b'data: {"content": "", "tokens": [], "stop": true}\n\n')
        writer.close()


class Balancing(unittest.TestCase):
    def test_one_more_server_when_more_requests_come_than_all_answer(self):
        slow, fast = [2.0 * at for at in range(5)], [10.0 + 0.5 * at for at in range(40)]
        self.assertEqual(balancer.scale_outs(slow, 3), [0.0])
        self.assertEqual(balancer.scale_outs(slow + fast, 3), [0.0, 12.0])
        self.assertEqual(balancer.scale_outs([0.0] * 16, 3), [0.0] * 3)
        self.assertEqual(balancer.scale_outs([], 3), [])

    def test_the_kept_trace_scales_out_to_three(self):
        times = balancer.arrivals()
        self.assertEqual(times, sorted(times))
        begun = balancer.scale_outs(times, 3)
        self.assertEqual(len(begun), 3)
        for first, second in zip(begun, [*begun[1:], times[-1]]):
            self.assertGreater(second - first, throughput.WINDOW_S)

    def test_every_request_of_a_trace_is_answered(self):
        servers = [FakeServer(), FakeServer()]
        done = asyncio.run(balancer.replay([0.0] * 8, servers, 5))
        self.assertEqual([len(one.tokens) for one in done.requests], [5] * 8)
        self.assertEqual(sum(one.asked for one in servers), 8)
        self.assertGreaterEqual(min(one.tokens[0] for one in done.requests), min(done.ready.values()))

    def test_a_server_has_always_one_request(self):
        server = FakeServer()
        done = asyncio.run(balancer.occupy(server, 3, 0.2))
        self.assertGreater(len(done.requests), 1)
        self.assertLessEqual(server.asked, len(done.requests))

    def test_a_server_that_ends_fails_the_run(self):
        with self.assertRaisesRegex(balancer.ServerError, "before it was ready"):
            asyncio.run(balancer.replay([0.0], [FakeServer(answers=False)], 1))


class Commands(unittest.TestCase):
    def test_all_leaves_out_what_needs_a_guest(self):
        names = {one.name for one in command.wanted(command.parse(["all"]))}
        self.assertTrue({"6", "12", "table3"} <= names)
        self.assertNotIn("9-module", names)
        self.assertEqual([one.name for one in command.wanted(command.parse(["cpu"]))], ["cpu"])


class Documents(unittest.TestCase):
    def test_no_block_was_typed(self):
        lines = records.read(command.RESULTS)
        for figure in documents.shown_here():
            self.assertEqual(tables.written(documents.PAGE, documents.mark(figure)), "\n".join(documents.block(figure, lines)),
                             "write it with `bench/paper --docs`")
            for name, picture in documents.pictures(figure, lines).items():
                with open(os.path.join(tables.TOP, documents.PICTURES, f"{name}.svg"), encoding="utf-8") as file:
                    self.assertEqual(file.read(), picture + "\n", f"{name}: draw it with `bench/paper --docs`")

    def test_every_figure_has_a_section(self):
        with open(os.path.join(tables.TOP, documents.PAGE), encoding="utf-8") as file:
            page = file.read()
        for figure in figures.ALL:
            self.assertTrue(f"bench/paper {figure.name}\n" in page, figure.name)


if __name__ == "__main__":
    unittest.main()
