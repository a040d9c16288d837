# SPDX-License-Identifier: Apache-2.0
"""Grouped bars in panels side by side, as most figures of the paper are drawn."""
from report import svg

HEIGHT, LEFT, GAP, TOP = 210, 62, 34, 56
FONT = "DejaVu Sans, Verdana, sans-serif"


def document(width, height, body, label):
    """A picture that stands alone in a page."""
    inside = svg.rect(0, 0, width, height, "#ffffff") + svg.tag("g", "".join(body), font_family=FONT)
    return svg.document(width, height, inside, label)


def short(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _bar(panel, x, width, value, colour):
    out = [svg.rect(x, panel.y(value.median), width, panel.bottom - panel.y(value.median), colour)]
    middle = x + width / 2
    if panel.y(value.low) - panel.y(value.high) > 1:
        out.append(svg.line(middle, panel.y(value.low), middle, panel.y(value.high), svg.INK, 1))
    at = panel.y(value.high) - 4
    out.append(svg.text(middle + 3, at, short(value.median), 8.5, svg.INK,
                        transform=f"rotate(-90 {svg.num(middle + 3)} {svg.num(at)})"))
    return "".join(out)


def _panel(panel, groups, series):
    out = []
    slot = panel.width / len(groups)
    width = slot * 0.84 / len(series)
    for index, (name, cells) in enumerate(groups):
        left = panel.left + slot * (index + 0.08)
        for place, (key, _, colour) in enumerate(series):
            if cells.get(key):
                out.append(_bar(panel, left + place * width, width - 1, cells[key], colour))
        out.append(svg.text(panel.left + slot * (index + 0.5), panel.bottom + 15, name, 10, svg.INK, "middle"))
    return "".join(out)


def draw(label, y_title, panels, series, width=900):
    """panels: [(name, [(group, {key: Spread})])]; series: [(key, name, colour)].  Bars: medians; lines: lowest to highest."""
    highest = max((value.high for _, groups in panels for _, cells in groups for value in cells.values() if value), default=1)
    each = (width - LEFT - 14 - GAP * (len(panels) - 1)) / len(panels)
    body = [svg.legend(LEFT, 18, [(colour, name, "box") for _, name, colour in series])]
    for index, (name, groups) in enumerate(panels):
        panel = svg.Panel(LEFT + index * (each + GAP), TOP, each, HEIGHT, (0, 1), (0, highest * 1.18))
        body.append(panel.frame(svg.ticks(0, highest * 1.18, 5)))
        body.append(_panel(panel, groups, series))
        body.append(svg.text(panel.left, TOP - 12, name, 11.5, svg.INK, font_weight=700))
        if index == 0:
            body.append(panel.y_title(y_title))
    return document(width, TOP + HEIGHT + 28, body, label)
