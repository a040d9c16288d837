# SPDX-License-Identifier: Apache-2.0
"""Page cache charged to the service over time, all systems in one picture, with the limit."""
from . import look, svg

LEFT, WIDTH, HEIGHT = 62, 830, 230


def draw(runs, samples_of, limit_bytes, x_range, title):
    series, peak = [], limit_bytes or 0
    for run in runs:
        samples = samples_of(run)
        points = [(t, value) for t, value in zip(samples.times, samples.cache_bytes)
                  if value is not None and x_range[0] <= t <= x_range[1]]
        if points:
            series.append((run, points))
            peak = max(peak, max(value for _, value in points))
    panel = svg.Panel(LEFT, 34, WIDTH, HEIGHT, x_range, (0, (peak or 1) / 1e6 * 1.06))
    entries = [(look.colour(run["system"]), run["name"], "line") for run, _ in series]
    body = [svg.legend(LEFT, 14, entries),
            panel.frame(svg.ticks(0, panel.y_range[1], 6), None, svg.ticks(*x_range, 14))]
    if limit_bytes:
        y = panel.y(limit_bytes / 1e6)
        body.append(svg.line(LEFT, y, panel.right, y, "#b91c1c", 1.3, stroke_dasharray="5 3"))
        body.append(svg.text(panel.right - 4, y - 5, f"room for page cache {limit_bytes / 1e6:.0f} MB", 10,
                             "#b91c1c", "end"))
    for run, points in series:
        body.append(svg.polyline([(panel.x(t), panel.y(v / 1e6)) for t, v in points],
                                 look.colour(run["system"]), 1.8))
    body.append(panel.y_title("page cache, MB", 46))
    body.append(panel.x_title("seconds from the start of the clock"))
    return svg.document(LEFT + WIDTH + 16, panel.bottom + 36, "".join(body), title)
