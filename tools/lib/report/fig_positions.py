# SPDX-License-Identifier: Apache-2.0
"""Positions over time, per group: what was prefetched, read and evicted."""
from . import svg

LINES = (("prefetch", 2, "#0b6e4f", "prefetched up to here"),
         ("front end", 1, "#c2410c", "read by the worker up to here"),
         ("eviction", 3, "#5a6ac0", "evicted up to here"))
LEFT, WIDTH, HEIGHT, GAP = 62, 830, 150, 46


def _column(points, index):
    return [point[index] for point in points]


def _group(panel, points, unit):
    x = [panel.x(point[0]) for point in points]
    series = {name: [(px, panel.y(value / unit)) for px, value in zip(x, _column(points, index))]
              for name, index, _, _ in LINES}
    slack = series["prefetch"] + series["front end"][::-1]
    kept = series["front end"] + series["eviction"][::-1]
    out = [svg.polygon(slack, "#0b6e4f", fill_opacity=0.14),
           svg.polygon(kept, "#5a6ac0", fill_opacity=0.10)]
    out += [svg.polyline(series[name], colour, 1.8) for name, _, colour, _ in LINES]
    return "".join(out)


def draw(groups, stages, x_range, title, names=None):
    """groups: {group: [(time, front, prefetch, evict, total, state)]}."""
    shown = {g: points for g, points in groups.items() if len(points) > 1}
    entries = [(colour, meaning, "line") for _, _, colour, meaning in LINES]
    entries += [("#dbe9e3", "ready for the worker (slack)", "box"),
                ("#e6e8f5", "read, still cached", "box")]
    body = [svg.legend(LEFT, 14, entries, gap=14)]
    top = 34
    for index, (group, points) in enumerate(shown.items()):
        total = max([point[4] for point in points] + [max(_column(points, 2)), 1])
        unit = 1e9 if total >= 2e9 else 1e6
        panel = svg.Panel(LEFT, top + 12, WIDTH, HEIGHT, x_range, (0, total / unit * 1.04))
        body.append(panel.frame(svg.ticks(0, total / unit, 5), None, svg.ticks(*x_range, 14)))
        for _, begin, _ in stages[1:]:
            body.append(svg.line(panel.x(begin), panel.top, panel.x(begin), panel.bottom, "#9aa5b1",
                                 1, stroke_dasharray="2 2"))
        body.append(_group(panel, points, unit))
        name = (names or {}).get(str(group), f"group {group}")
        body.append(svg.text(LEFT, panel.top - 4, f"{name}: {total / 1e6:.0f} MB", 11.5,
                             font_weight=600))
        body.append(panel.y_title("GB of its sequence" if unit == 1e9 else "MB of its sequence", 44))
        if index == len(shown) - 1:
            body.append(panel.x_title("seconds from exec (dashed lines: init ends, load begins)"))
        top = panel.bottom + GAP - 22
    return svg.document(LEFT + WIDTH + 16, top + 32, "".join(body), title)
