# SPDX-License-Identifier: Apache-2.0
"""How long each system takes from exec to ready, in stages, beside the bound."""
from . import look, svg

ROW = 24
LEFT, WIDTH = 190, 660


def _bar(panel, row, y):
    out, at = [], 0.0
    for stage in ("cache", "init", "load"):
        seconds = row.get(f"{stage}_s") or 0
        if seconds <= 0:
            continue
        shade = look.colour(row["system"]) if stage == "load" else look.STAGES[stage]
        out.append(svg.rect(panel.x(at), y + 4, panel.x(at + seconds) - panel.x(at), ROW - 9, shade))
        at += seconds
    low, high = row.get("startup_min", at), row.get("startup_max", at)
    if high - low > 0.05:
        middle = y + ROW / 2 - 0.5
        out.append(svg.line(panel.x(low), middle, panel.x(high), middle, svg.INK, 1.4))
        out += [svg.line(panel.x(v), middle - 4, panel.x(v), middle + 4, svg.INK, 1.4)
                for v in (low, high)]
    out.append(svg.text(panel.x(max(at, high)) + 6, y + ROW - 9, f"{row['startup_s']:.1f} s", 11))
    out.append(svg.text(LEFT - 8, y + ROW - 9, row["name"], 11,
                        look.colour(row["system"]), "end", font_weight=600))
    return "".join(out)


def draw(rows, bound_s, x_max, title):
    """rows of one memory case; bound_s: start-up bound or None."""
    panel = svg.Panel(LEFT, 24, WIDTH, ROW * len(rows), (0, x_max), (0, 1))
    body = [panel.frame([], x_ticks=svg.ticks(0, x_max, 8)),
            panel.x_title("seconds from the start of the clock (exec, or caching where there is any)")]
    for index, row in enumerate(rows):
        body.append(_bar(panel, row, panel.top + index * ROW))
    if bound_s:
        x = panel.x(bound_s)
        body.append(svg.line(x, panel.top - 6, x, panel.bottom, "#b91c1c", 1.4,
                             stroke_dasharray="4 3"))
        body.append(svg.text(x + 4, panel.top - 8, f"bound {bound_s:.1f} s", 10, "#b91c1c"))
    return svg.document(LEFT + WIDTH + 60, panel.bottom + 36, "".join(body), title)


def legend(rows):
    shown = ["cache", "init"] if any(row.get("cache_s") for row in rows) else ["init"]
    entries = [(look.STAGES[stage], look.STAGE_NAMES[stage], "box") for stage in shown]
    entries += [("#52606d", "load (in the system's colour)", "box"),
                ("#b91c1c", "bound: no system can be faster", "dash")]
    return svg.document(900, 22, svg.legend(4, 15, entries), "legend")
