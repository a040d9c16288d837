# SPDX-License-Identifier: Apache-2.0
"""The page of one start-up, of what `ppcctl report` says of it: it calls this, and gives every word that is shown."""
import json
import sys
from xml.sax.saxutils import escape

from . import frame, svg

# The parts, by their names in a report.
COLOURS = {"init_s": "#d9dee4", "disk_s": "#b91c1c", "device_s": "#3a9bd9", "kernel_s": "#e08e0b", "user_s": "#9b8fd0",
           "no_cpu_s": "#52606d", "unexplained_s": "#e3e7eb"}
READ, MISSED = "#0b6e4f", "#b91c1c"
LEFT, WIDTH = 60, 720
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


def parts(report):
    """One bar, of the whole start-up."""
    total = report["parts"]["total_s"]
    panel = svg.Panel(LEFT, 6, WIDTH, 40, (0, total), (0, 1))
    body, at = [panel.frame([], x_ticks=svg.ticks(0, total, 8))], 0.0
    for part in report["rows"]:
        name = svg.tag("title", escape(f"{part['name']}: {part['seconds']} s"))
        body.append(svg.tag("rect", name, x=panel.x(at), y=panel.top, width=panel.x(at + part["s"]) - panel.x(at),
                            height=panel.height, fill=COLOURS[part["key"]]))
        at += part["s"]
    body.append(panel.x_title("seconds from the start of the command"))
    return svg.document(LEFT + WIDTH + 20, panel.bottom + 36, "".join(body), "Parts of the start-up")


def table(report):
    rows = [f'<tr><td class="name"><i style="background:{COLOURS[part["key"]]}"></i>{escape(part["name"])}</td>'
            f"<td>{escape(part['seconds'])}</td><td>{escape(part['share'])}</td></tr>" for part in report["rows"]]
    return f"<table><thead><tr><th>part</th><th>seconds</th><th>share</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"


def phases(report):
    """What the service itself has told of."""
    rows = [f'<tr><td class="name">{escape(phase["name"])}</td><td>{escape(phase["began"])}</td>'
            f"<td>{escape(phase['took'])}</td></tr>" for phase in report["phase_rows"]]
    head = "<tr><th>phase</th><th>began, s</th><th>took, s</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>" if rows else ""


def progress(report):
    """How far the readers were, over time."""
    total, points = report["parts"]["total_s"], report["progress"]
    most = max([report["parts"]["bytes"]] + [max(point[1:3]) for point in points])
    if total <= 0 or most <= 0:
        return ""
    size, unit = next((size, unit) for size, unit in UNITS if most >= size)
    panel = svg.Panel(LEFT, 30, WIDTH, 220, (0, total), (0, most / size * 1.05))
    body = [svg.legend(LEFT, 14, [(READ, "read of the model", "line"), (MISSED, "not found in memory", "dash")]),
            panel.frame(svg.ticks(0, most / size), x_ticks=svg.ticks(0, total, 8)),
            panel.x_title("seconds from the start of the command"), panel.y_title(unit, 46)]
    for index, colour, dashes in ((2, MISSED, "5 3"), (1, READ, None)):
        line = [(panel.x(min(point[0], total)), panel.y(point[index] / size)) for point in points]
        body.append(svg.polyline(line, colour, stroke_dasharray=dashes))
    return svg.document(LEFT + WIDTH + 20, panel.bottom + 36, "".join(body), "How far the readers were")


def render(report):
    title = f"Start-up of {report['service_id']} in {report['directory']}"
    limit = report["limit"]
    command = f"<p><code>{escape(report['command'])}</code></p>" if report["command"] else ""
    because = f"<p><b>{escape(limit['name'])}.</b> {escape(limit['reason'])}; {escape(limit['advice'])}.</p>"
    guard = f"<p>{escape(report['guard'])}.</p>" if report.get("guard") else ""
    return frame.page(title, report["head"] + ".", [
        ("What limits it", because), ("What the guard withheld", guard), ("Where its time went", frame.figure(parts(report) + table(report), command)),
        ("What it told of itself", phases(report)), ("How far the readers were", progress(report))])


def main():
    """A report on standard input, its page on standard output."""
    sys.stdout.write(render(json.load(sys.stdin)))
