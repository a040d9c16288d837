# SPDX-License-Identifier: Apache-2.0
"""The chart of README: one pair of bars a start-up."""
from report import look, svg

from . import starts

ROW, HEAD, LEFT, WIDTH, RIGHT, TOP = 30, 44, 326, 430, 120, 58
WORSE = "#b91c1c"


def _pair(panel, start, y):
    native, ppc = look.colour("native"), look.colour("maio")
    out = [svg.text(LEFT - 10, y + 17, start.name, 12, svg.INK, "end")]
    for top, seconds, colour in ((y + 2, start.native_s, native), (y + 14, start.ppc_s, ppc)):
        out.append(svg.rect(LEFT, top, panel.x(seconds) - LEFT, 10, colour))
        out.append(svg.text(panel.x(seconds) + 5, top + 9, f"{seconds:.1f} s", 10, colour))
    worse = start.ratio > 1.005
    out.append(svg.text(LEFT + WIDTH + RIGHT - 12, y + 18, f"x {start.ratio:.2f}", 13, WORSE if worse else svg.INK, "end",
                        font_weight=700))
    return "".join(out)


def draw():
    groups = [(title, starts.recorded(file), list(rows())) for title, file, rows in starts.GROUPS]
    longest = max(max(row.native_s, row.ppc_s) for _, _, rows in groups for row in rows)
    height = TOP + sum(HEAD + ROW * len(rows) for _, _, rows in groups) + 12
    panel = svg.Panel(LEFT, TOP, WIDTH, height - TOP, (0, longest * 1.1), (0, 1))
    width = LEFT + WIDTH + RIGHT
    body = [svg.rect(0, 0, width, height, "#ffffff"),
            svg.text(16, 24, "Start-up from a cold page cache, seconds", 16, svg.INK, font_weight=700),
            svg.legend(16, 46, [(look.colour("native"), "the kernel's own policy", "box"),
                                (look.colour("maio"), "with PPC, a later start", "box")], 12),
            svg.text(width - 12, 46, "ratio", 12, svg.MUTED, "end")]
    y = TOP
    for title, (date, commit, machine), rows in groups:
        body.append(svg.line(16, y + 6, width - 12, y + 6))
        body.append(svg.text(16, y + 22, title, 13, svg.INK, font_weight=700))
        body.append(svg.text(16, y + 37, f"{machine}; {date}, commit {commit}", 10.5, svg.MUTED))
        y += HEAD
        for row in rows:
            body.append(_pair(panel, row, y))
            y += ROW
    inside = svg.tag("g", "".join(body), font_family="DejaVu Sans, Verdana, sans-serif")
    return svg.document(width, height, inside, "Start-up times natively and with PPC, from bench/results")
