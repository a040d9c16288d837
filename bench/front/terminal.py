# SPDX-License-Identifier: Apache-2.0
"""A kept transcript as a picture of a terminal."""
import os
import textwrap
from xml.sax.saxutils import escape

from report import svg

from . import starts

SIZE, STEP, LEFT, TOP = 13, 18, 18, 40
COLUMN = SIZE * 0.602  # a column of a monospaced font
COLUMNS = 100
PAPER, INK, PROMPT, QUIET = "#14181d", "#d7dde4", "#7ee2a8", "#8b97a5"


def _line(number, content):
    y = TOP + STEP * (number + 1)
    colour = PROMPT if content.startswith("$ ") else QUIET if content.startswith("# ") else INK
    inside = content.lstrip()
    # Its length is said, so that columns stay below each other whatever the font.
    return svg.tag("text", escape(inside.replace(" ", "\u00a0")), x=LEFT + (len(content) - len(inside)) * COLUMN, y=y,
                   fill=colour, textLength=len(inside) * COLUMN if inside else None, lengthAdjust="spacingAndGlyphs")


def draw(file="run.txt"):
    with open(os.path.join(starts.FOLDER, file), encoding="utf-8") as transcript:
        lines = [part for line in transcript.read().splitlines()
                 for part in textwrap.wrap(line, COLUMNS, subsequent_indent="    ", drop_whitespace=False) or [""]]
    width = LEFT * 2 + max(map(len, lines)) * COLUMN
    height = TOP + STEP * len(lines) + 22
    dots = "".join(svg.tag("circle", cx=LEFT + 6 + 18 * place, cy=20, r=5, fill=colour)
                   for place, colour in enumerate(("#e06c5f", "#e0b84f", "#62b96b")))
    body = svg.rect(0, 0, width, height, PAPER, rx=8) + dots + "".join(map(_line, range(len(lines)), lines))
    inside = svg.tag("g", body, font_family="DejaVu Sans Mono, Menlo, Consolas, monospace", font_size=SIZE)
    return svg.document(width, height, inside, "A terminal: ppcctl run, then ppcctl report")
