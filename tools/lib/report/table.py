# SPDX-License-Identifier: Apache-2.0
"""The comparison table, as HTML and as plain text for a terminal."""
from xml.sax.saxutils import escape

from . import look


def _seconds(row, key):
    value = row.get(key)
    return "-" if value is None else f"{value:.1f}"


def _spread(row, key):
    low, high = row.get(f"{key}_min"), row.get(f"{key}_max")
    if row.get("runs", 1) < 2 or low is None or high is None:
        return ""
    return f" ({low:.1f}..{high:.1f})"


def _share(value):
    return "-" if value is None else f"{100 * value:.0f}%"


def _ratio(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def _megabytes(value):
    return "-" if value is None else f"{value / 1e6:.0f}"


def _placed(value):
    return "-" if value is None else f"{100 * value:.1f}%"


def _events(row):
    if row.get("events_max") is None:
        return "-"
    return f"{row['events_max']} / {row['oom_kill']}"


def _lost(value):
    return "-" if value is None else str(value)


# (heading, what it means, cell text of a row)
COLUMNS = [
    ("system", "", lambda row: row["name"]),
    ("runs", "measured runs; times are medians", lambda row: str(row.get("runs", 1))),
    ("start-up s", "from exec (or the start of caching) to ready; in brackets the range",
     lambda row: _seconds(row, "startup_s") + _spread(row, "startup")),
    ("load s", "of that, the stage in which workers read the model",
     lambda row: _seconds(row, "load_s") + _spread(row, "load")),
    ("bound s", "no system can start faster on this machine", lambda row: _seconds(row, "bound_s")),
    ("x bound", "start-up divided by the bound", lambda row: _ratio(row.get("bound_ratio"))),
    ("start-up x Native", "start-up divided by Native's of the same memory case",
     lambda row: _ratio(row.get("native_startup_ratio"))),
    ("load x Native", "load divided by Native's of the same memory case",
     lambda row: _ratio(row.get("native_load_ratio"))),
    ("disk used", "share of the disk's bandwidth from the start of the clock to ready",
     lambda row: _share(row.get("bandwidth_share"))),
    ("disk / model", "bytes read from the disk divided by the model's bytes",
     lambda row: _ratio(row.get("disk_ratio"), 3)),
    ("peak cache MB", "largest page cache charged to the service",
     lambda row: _megabytes(row.get("peak_cache_bytes"))),
    ("max / oom", "memory.events of the service: limit hit / processes killed", _events),
    ("on wanted node", "pages that one worker alone needs, on the node of its XPU when copied",
     lambda row: _placed(row.get("placed_share"))),
    ("lost events", "events the kernel had to drop", lambda row: _lost(row.get("lost_events"))),
    ("bytes", "checksums of all workers equal those of a cached native load",
     lambda row: "equal" if row.get("checksum_ok") else "WRONG"),
]


def cells(row):
    return [cell(row) for _, _, cell in COLUMNS]


def html(rows, cases):
    """One table; cases: [(memory, heading)]."""
    head = "".join(f'<th title="{escape(what)}">{escape(name)}</th>' for name, what, _ in COLUMNS)
    body = []
    for memory, heading in cases:
        chosen = [row for row in rows if row["memory"] == memory]
        if not chosen:
            continue
        body.append(f'<tr class="case"><td colspan="{len(COLUMNS)}">{escape(heading)}</td></tr>')
        for row in chosen:
            kind = "ours" if row.get("is_ours") else "note" if row.get("is_note") else ""
            texts = cells(row)
            name = (f'<td class="name"><i style="background:{look.colour(row["system"])}"></i>'
                    f"{escape(texts[0])}</td>")
            body.append(f'<tr class="{kind}">{name}' +
                        "".join(f"<td>{escape(text)}</td>" for text in texts[1:]) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def legend_html():
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>"
                            for name, what, _ in COLUMNS if what) + "</dl>"


def _two_lines(name):
    """A heading in two lines of about the same length."""
    words = name.split()
    cuts = range(len(words) + 1)
    best = min(cuts, key=lambda cut: (max(len(" ".join(words[:cut])), len(" ".join(words[cut:]))),
                                      cut))
    return " ".join(words[:best]), " ".join(words[best:])


def plain(rows, cases):
    """The same as aligned text."""
    heads = [_two_lines(name) for name, _, _ in COLUMNS]
    lines = [[head[0] for head in heads], [head[1] for head in heads]]
    for memory, heading in cases:
        chosen = [row for row in rows if row["memory"] == memory]
        if chosen:
            lines.append(heading)
            lines += [cells(row) for row in chosen]
    grid = [line for line in lines if isinstance(line, list)]
    widths = [max(len(line[i]) for line in grid) for i in range(len(COLUMNS))]
    out = []
    for line in lines:
        if isinstance(line, str):
            out.append(line)
            continue
        parts = [line[0].ljust(widths[0])] + [t.rjust(w) for t, w in zip(line[1:], widths[1:])]
        out.append("  " + "  ".join(parts).rstrip())
    return "\n".join(out)
