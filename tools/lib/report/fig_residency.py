# SPDX-License-Identifier: Apache-2.0
"""Which part of the model is in the page cache over time: files from top to bottom, time to the
right, darker where more is resident."""
from . import png, svg

LEFT, WIDTH = 118, 774
CELL_ROWS = 8  # picture rows a file of average size gets
PALETTE = [(247, 248, 249)] + [
    (int(222 - 211 * k / 9), int(235 - 125 * k / 9), int(229 - 150 * k / 9)) for k in range(1, 10)]
GAP_COLOUR = (255, 255, 255)


def _rows_of(files):
    """How many picture rows each shown file gets, by size; small files get none."""
    largest = max(file["bytes"] for file in files)
    total = sum(file["bytes"] for file in files if file["bytes"] * 50 > largest)
    count = sum(1 for file in files if file["bytes"] * 50 > largest)
    return [max(2, round(file["bytes"] / total * count * CELL_ROWS))
            if file["bytes"] * 50 > largest else 0 for file in files]


def _column(residency, heights, pages):
    """One moment, top to bottom: a palette index per row."""
    cells = []
    for digits, rows in zip(residency, heights):
        for row in range(rows):
            part = digits[len(digits) * row // rows:max(len(digits) * (row + 1) // rows,
                                                        len(digits) * row // rows + 1)]
            share = sum(map(int, part)) / (len(part) * pages)
            cells.append(0 if share == 0 else max(1, round(share * 9)))
    return cells


def _picture(samples, heights, x_range, step):
    columns, index = [], 0
    time = x_range[0]
    while time < x_range[1]:
        while (index + 1 < len(samples.residency) and
               samples.residency[index + 1][0] <= time + step / 2):
            index += 1
        at, residency = samples.residency[index]
        is_known = samples.residency[0][0] - step <= time <= samples.residency[-1][0] + step
        columns.append(_column(residency, heights, samples.pages) if is_known and at <= time + step
                       else [len(PALETTE)] * sum(heights))
        time += step
    return [list(row) for row in zip(*columns)]


def draw(samples, stages, x_range, title, step=0.5):
    if not samples.residency or not samples.files:
        return svg.document(LEFT + WIDTH, 30, svg.text(LEFT, 20, "no residency samples"), title)
    heights = _rows_of(samples.files)
    picture = _picture(samples, heights, x_range, step)
    panel = svg.Panel(LEFT, 12, WIDTH, min(max(1.1 * sum(heights), 140), 330), x_range, (0, 1))
    body = [svg.tag("image", x=panel.left, y=panel.top, width=panel.width, height=panel.height,
                    href=png.data_uri(picture, PALETTE + [GAP_COLOUR]),
                    preserveAspectRatio="none", style="image-rendering:pixelated")]
    scale, at = panel.height / sum(heights), panel.top
    last_label = -99
    for file, rows in zip(samples.files, heights):
        if not rows:
            continue
        if at - last_label >= 22 or at == panel.top:
            name = file["name"].replace(".safetensors", "")
            body.append(svg.text(LEFT - 6, at + rows * scale / 2 + 3, name[:24], 8.5, svg.MUTED, "end"))
            last_label = at
        at += rows * scale
        body.append(svg.line(panel.left, at, panel.right, at, "#ffffff", 0.6, stroke_opacity=0.7))
    for stage, begin, end in stages:
        for edge in (begin, end):
            body.append(svg.line(panel.x(edge), panel.top, panel.x(edge), panel.bottom, svg.INK,
                                 0.9, stroke_dasharray="2 2", stroke_opacity=0.6))
        if panel.x(end) - panel.x(begin) > 24:
            body.append(svg.text((panel.x(begin) + panel.x(end)) / 2, panel.top - 3, stage, 9,
                                 svg.MUTED, "middle"))
    body.append(panel.frame([], x_ticks=[]))
    for tick in svg.ticks(*x_range, 14):
        body.append(svg.text(panel.x(tick), panel.bottom + 14, svg.label(tick), 10, svg.MUTED,
                             "middle"))
    body.append(panel.x_title("seconds from the start of the clock"))
    return svg.document(LEFT + WIDTH + 16, panel.bottom + 36, "".join(body), title)


def legend():
    entries = [(f"rgb{PALETTE[0]}", "not in the page cache", "box"),
               (f"rgb{PALETTE[4]}", "partly", "box"), (f"rgb{PALETTE[9]}", "all of it", "box")]
    return svg.document(900, 22, svg.legend(LEFT, 15, entries), "legend")
