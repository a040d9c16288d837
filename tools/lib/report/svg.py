# SPDX-License-Identifier: Apache-2.0
"""Small SVG vocabulary: numbers, axes, panels.  Output is well-formed XML."""
import math
from xml.sax.saxutils import escape, quoteattr

INK = "#1f2933"
MUTED = "#667280"
GRID = "#e3e7eb"


def num(value):
    """A coordinate, short."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def tag(name, body=None, **attributes):
    """<name k="v">body</name>; underscores in keys become hyphens, a trailing one is dropped."""
    parts = []
    for key, value in attributes.items():
        if value is None:
            continue
        text = num(value) if isinstance(value, (int, float)) else str(value)
        parts.append(f" {key.rstrip('_').replace('_', '-')}={quoteattr(text)}")
    if body is None:
        return f"<{name}{''.join(parts)}/>"
    return f"<{name}{''.join(parts)}>{body}</{name}>"


def text(x, y, content, size=11, fill=INK, anchor="start", **more):
    return tag("text", escape(str(content)), x=x, y=y, font_size=size, fill=fill,
               text_anchor=anchor, **more)


def line(x1, y1, x2, y2, stroke=GRID, width=1, **more):
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, stroke_width=width, **more)


def rect(x, y, width, height, fill, **more):
    return tag("rect", x=x, y=y, width=max(width, 0), height=max(height, 0), fill=fill, **more)


def polyline(points, stroke, width=1.6, **more):
    joined = " ".join(f"{num(x)},{num(y)}" for x, y in points)
    return tag("polyline", points=joined, fill="none", stroke=stroke, stroke_width=width,
               stroke_linejoin="round", **more)


def polygon(points, fill, **more):
    joined = " ".join(f"{num(x)},{num(y)}" for x, y in points)
    return tag("polygon", points=joined, fill=fill, **more)


def document(width, height, body, label):
    """An inline picture; label is what a screen reader says."""
    title = tag("title", escape(label))
    return tag("svg", title + body, xmlns="http://www.w3.org/2000/svg", role="img",
               viewBox=f"0 0 {num(width)} {num(height)}", width="100%",
               style=f"max-width:{num(width)}px")


def nice_step(span, most):
    """A step of 1, 2 or 5 times a power of ten that gives at most `most` steps over span."""
    if span <= 0:
        return 1
    rough = span / max(most, 1)
    power = 10 ** math.floor(math.log10(rough))
    for factor in (1, 2, 5, 10):
        if factor * power >= rough * 0.999999:
            return factor * power
    return 10 * power


def ticks(low, high, most=6):
    step = nice_step(high - low, most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def label(value):
    """A tick's number: 0.5, 20, 1500."""
    rounded = round(value, 6)
    return str(int(rounded)) if rounded == int(rounded) else f"{rounded:g}"


class Panel:
    """A plotting area with linear axes.  x and y map data to pixels."""

    def __init__(self, left, top, width, height, x_range, y_range):
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x_range, self.y_range = x_range, y_range

    def x(self, value):
        low, high = self.x_range
        return self.left + (value - low) / (high - low or 1) * self.width

    def y(self, value):
        low, high = self.y_range
        return self.top + self.height - (value - low) / (high - low or 1) * self.height

    @property
    def bottom(self):
        return self.top + self.height

    @property
    def right(self):
        return self.left + self.width

    def frame(self, y_ticks, y_names=None, x_ticks=(), show_x=True, size=10):
        """Grid lines and tick labels; y_names replaces the numbers."""
        out = []
        names = y_names or [label(value) for value in y_ticks]
        for value, name in zip(y_ticks, names):
            out.append(line(self.left, self.y(value), self.right, self.y(value)))
            out.append(text(self.left - 5, self.y(value) + size * 0.35, name, size, MUTED, "end"))
        for value in x_ticks:
            out.append(line(self.x(value), self.top, self.x(value), self.bottom))
            if show_x:
                out.append(text(self.x(value), self.bottom + size + 4, label(value), size, MUTED,
                                "middle"))
        out.append(line(self.left, self.bottom, self.right, self.bottom, "#9aa5b1"))
        return "".join(out)

    def x_title(self, content, offset=28):
        return text((self.left + self.right) / 2, self.bottom + offset, content, 11, INK, "middle")

    def y_title(self, content, offset=38):
        x, y = self.left - offset, (self.top + self.bottom) / 2
        return text(x, y, content, 11, INK, "middle", transform=f"rotate(-90 {num(x)} {num(y)})")


def legend(x, y, entries, size=11, gap=18):
    """Swatches and names in one line; entries are (colour, name, kind), kind box, line or dash."""
    out = []
    for colour, name, kind in entries:
        if kind == "box":
            out.append(rect(x, y - 9, 12, 10, colour))
        else:
            out.append(line(x, y - 4, x + 18, y - 4, colour, 2.2,
                            stroke_dasharray="5 3" if kind == "dash" else None))
        x += 17 if kind == "box" else 23
        out.append(text(x, y, name, size, INK))
        x += len(name) * size * 0.53 + gap
    return "".join(out)
