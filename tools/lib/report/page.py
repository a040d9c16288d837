# SPDX-License-Identifier: Apache-2.0
"""The page of results: table, pictures, captions and notes."""
from xml.sax.saxutils import escape

from . import (fig_bandwidth, fig_memory, fig_positions, fig_residency, fig_startup, frame, look,
               table)


def _claims(claims):
    lines = []
    for claim in claims:
        kind, word = {True: ("ok", "PASS"), False: ("fail", "FAIL"),
                      None: ("open", "UNDECIDED")}[claim["ok"]]
        lines.append(f'<li><span class="{kind}">{word}</span> {escape(claim["text"])}: '
                     f'<b>{escape(claim["value"])}</b></li>')
    return f'<ul class="claims">{"".join(lines)}</ul>'


def _lower(case):
    """"with a memory limit", for headings of single pictures."""
    name = look.MEMORY_NAMES[case]
    return escape(name[0].lower() + name[1:])


class Page:
    """Builds the page of one results file."""

    def __init__(self, results):
        self.results = results
        self.rows = results.data.get("rows", [])
        self.cases = [(case, heading) for case, heading in look.MEMORY_NAMES.items()
                      if any(row["memory"] == case for row in self.rows)]
        for case, heading in self.cases[:]:
            detail = results["case_names"].get(case)
            if detail:
                self.cases[self.cases.index((case, heading))] = (case, f"{heading}: {detail}")
        self.cache = {}

    def samples(self, run):
        if run["id"] not in self.cache:
            self.cache[run["id"]] = self.results.samples(run)
        return self.cache[run["id"]]

    def x_range(self, runs):
        lead = max([run.get("lead_s") or 0 for run in runs] + [0])
        return (-lead, max((run["ready_ns"] - run["zero_ns"]) / 1e9 for run in runs) * 1.03)

    def startup(self):
        shown = [row for row in self.rows if not row.get("is_note")]
        if not shown:
            return ""
        x_max = max(max(row["startup_s"], row.get("startup_max", 0)) for row in shown) * 1.08
        out = [fig_startup.legend(shown)]
        for case, heading in self.cases:
            rows = [row for row in shown if row["memory"] == case]
            bound = self.results["bounds"].get(case, {}).get("startup_s")
            out.append(f"<h3>{escape(heading)}</h3>" +
                       fig_startup.draw(rows, bound, x_max, f"Start-up times, {heading}"))
        return frame.figure("".join(out), escape(
            "Medians; the thin line is the range of several runs. What to see: init costs everybody "
            "the same, a good policy reads during it, and then the load takes only as long as the "
            "devices need."))

    def bandwidth(self):
        out = []
        for case, heading in self.cases:
            runs = self.results.shown_runs(case)
            if not runs:
                continue
            disk = self.results["measured"].get("disk_mbps", 200)
            out.append(f"<h3>{escape(heading)}</h3>" + frame.figure(
                fig_bandwidth.draw(runs, self.samples, disk, self.x_range(runs),
                                   f"Disk bandwidth over time, {heading}"),
                escape("Same axes for all. What to see: Native leaves the disk idle during init and "
                       "mostly idle during the load. Reading ahead fills init" +
                       (", and here it pays only when what was read is still there when it is "
                        "needed." if case == "limit" else ", and the load hits the cache."))))
        return "".join(out)

    def positions(self):
        out = []
        for case, heading in self.cases:
            runs = [run for run in self.results.shown_runs(case) if run["system"] == "maio"]
            for run in runs:
                groups = self.results.trace(run)
                if not groups:
                    continue
                picture = fig_positions.draw(groups, look.stages(run), self.x_range([run]),
                                             f"Positions, {heading}", self.results["group_names"])
                out.append(f"<h3>{escape(run['name'])}, {_lower(case)}</h3>" + frame.figure(
                    picture, escape(
                        "Each line is a position in the recorded sequence of one group. What to see: "
                        "prefetch runs ahead of the worker, by as much as memory allows; eviction "
                        "follows it at a distance. Where prefetch meets the worker, the disk is the "
                        "limit.")))
        return "".join(out)

    def residency(self):
        out = []
        for case, heading in reversed(self.cases):
            for run in self.results.shown_runs(case):
                samples = self.samples(run)
                if run["system"] not in self.results["residency_of"].get(case, []):
                    continue
                picture = fig_residency.draw(samples, look.stages(run), self.x_range([run]),
                                             f"Residency, {run['name']}, {heading}")
                out.append(f"<h3>{escape(run['name'])}, {_lower(case)}</h3>" + picture)
        if not out:
            return ""
        return frame.figure(fig_residency.legend() + "".join(out), escape(
            "The model's files from top to bottom; each sample asks the kernel about 8 neighbouring "
            "pages in each of 64 parts of a file. What to see: a moving window under MAIO (read "
            "ahead above the front, dropped behind it); with everything prefetched blindly, parts "
            "are thrown away before they are used and read twice."))

    def memory(self):
        out = []
        for case, heading in self.cases:
            runs = self.results.shown_runs(case)
            limit = self.results["measured"].get("limit_bytes") if case == "limit" else None
            if case != "limit" or not runs:
                continue
            out.append(frame.figure(fig_memory.draw(runs, self.samples, limit, self.x_range(runs),
                                               f"Page cache over time, {heading}"),
                               escape("What the kernel charges to the service as page cache. What to "
                                      "see: who runs into the limit makes the kernel choose what to "
                                      "drop; MAIO stays below it and chooses itself.")))
        return "".join(out)

    def render(self):
        data = self.results.data
        sections = [("Claims", _claims(data.get("claims", [])) if data.get("claims") else ""),
                    ("Table", f'<div class="scroll">{table.html(self.rows, self.cases)}</div>'
                              f"<details><summary>What the columns mean</summary>"
                              f"{table.legend_html()}</details>" if self.rows else ""),
                    ("Start-up times", self.startup()),
                    ("Disk bandwidth over time", self.bandwidth()),
                    ("Positions of prefetch, worker and eviction", self.positions()),
                    ("What is in the page cache", self.residency()),
                    ("Page cache under the limit", self.memory()),
                    ("How it was measured", frame.facts(data.get("settings", {}))),
                    ("Notes", "<ul>" + "".join(f"<li>{escape(note)}</li>"
                                               for note in data.get("notes", [])) + "</ul>"
                     if data.get("notes") else "")]
        return frame.page(data.get("title", "Results"), data.get("lead"), sections)
