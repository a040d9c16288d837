# SPDX-License-Identifier: Apache-2.0
"""Disk bandwidth over time, one small picture per system with its stages (the paper's Figure 8)."""
from . import look, svg

STEP = 1.0  # seconds a point, as in the paper
HEIGHT = 74
GAP = 26
LEFT, WIDTH = 62, 830


def _stage_bar(panel, run):
    out = []
    y = panel.bottom + 2
    for stage, begin, end in look.stages(run):
        begin, end = max(begin, panel.x_range[0]), min(end, panel.x_range[1])
        width = panel.x(end) - panel.x(begin)
        out.append(svg.rect(panel.x(begin), y, width, 7, look.STAGES[stage]))
        if begin > panel.x_range[0]:
            out.append(svg.line(panel.x(begin), panel.top, panel.x(begin), y + 7, "#9aa5b1", 1,
                                stroke_dasharray="2 2"))
    ready = (run["ready_ns"] - run["zero_ns"]) / 1e9
    if ready <= panel.x_range[1]:
        x = panel.x(ready)
        out.append(svg.line(x, panel.top, x, y + 7, svg.INK, 1.4))
        is_near_edge = x > panel.right - 70
        out.append(svg.text(x + (-4 if is_near_edge else 4), panel.top + 11, f"ready {ready:.1f} s",
                            10, svg.INK, "end" if is_near_edge else "start"))
    return "".join(out)


def _curve(panel, run, samples, step):
    end = min(panel.x_range[1], (run["end_ns"] - run["zero_ns"]) / 1e9)
    points = samples.bandwidth(step, end)
    lead = run.get("lead_s") or 0
    if lead:
        before = [(-lead + step * i, 0) for i in range(int(lead / step) + 1)]
        points = [(t, (samples.bytes_at(t) - samples.bytes_at(t - step)) / step)
                  for t, _ in before] + points
    if not points:
        return svg.text(panel.left + 8, panel.top + 30, "no samples", 11, svg.MUTED)
    shade = look.colour(run["system"])
    steps = []
    for time, value in points:
        y = panel.y(min(value / 1e6, panel.y_range[1]))
        steps += [(panel.x(max(time - step, panel.x_range[0])), y), (panel.x(time), y)]
    area = [(steps[0][0], panel.bottom)] + steps + [(steps[-1][0], panel.bottom)]
    return (svg.polygon(area, shade, fill_opacity=0.28) + svg.polyline(steps, shade, 1.4))


def parts(runs, samples_of, disk_mbps, x_range, step=STEP):
    """(width, height, elements).  runs: one per system; samples_of(run) gives its Samples; step: seconds a point."""
    y_max = disk_mbps * 1.15
    body = [svg.legend(LEFT, 14, [(look.STAGES["init"], "init", "box"),
                                  (look.STAGES["load"], "load", "box"),
                                  (look.STAGES["cache"], "caching", "box"),
                                  (look.STAGES["lead"], "lead of the hook", "box"),
                                  ("#b91c1c", f"the disk's {disk_mbps:.0f} MB/s", "dash")])]
    top = 34
    for index, run in enumerate(runs):
        panel = svg.Panel(LEFT, top + 12, WIDTH, HEIGHT, x_range, (0, y_max))
        is_last = index == len(runs) - 1
        body.append(panel.frame([0, disk_mbps / 2, disk_mbps], ["0", f"{disk_mbps / 2:.0f}",
                                                              f"{disk_mbps:.0f}"],
                                svg.ticks(*x_range, 14), show_x=False))
        body.append(_curve(panel, run, samples_of(run), step))
        body.append(svg.line(LEFT, panel.y(disk_mbps), panel.right, panel.y(disk_mbps), "#b91c1c",
                             1, stroke_dasharray="4 3"))
        body.append(_stage_bar(panel, run))
        body.append(svg.text(LEFT, panel.top - 4, run["name"], 11.5, look.colour(run["system"]),
                             font_weight=600))
        body.append(panel.y_title("MB/s", 44))
        if is_last:
            for tick in svg.ticks(*x_range, 14):
                body.append(svg.text(panel.x(tick), panel.bottom + 22, svg.label(tick), 10,
                                     svg.MUTED, "middle"))
            body.append(panel.x_title("seconds from the start of the clock", 38))
        top = panel.bottom + GAP - 8
    return LEFT + WIDTH + 16, top + 36, body


def draw(runs, samples_of, disk_mbps, x_range, title):
    width, height, body = parts(runs, samples_of, disk_mbps, x_range)
    return svg.document(width, height, "".join(body), title)
