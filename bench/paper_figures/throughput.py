# SPDX-License-Identifier: Apache-2.0
"""Figure 12 with real servers: tokens a second and time to first token, from the kept results alone."""
import math
import statistics

import tables
from report import svg

from . import bars, catalog, shown

WINDOW_S, WINDOWS_S = 15, (10, 15, 20)  # about one native start, and less and more
INTERVALS_S = (10, 15, 20, 25, 30)
SMOOTH_S = 3.0
DASHES = {"native": None, "precache": "7 5", "maio": None}


def tokens_by(counts, at):
    """Tokens until a time."""
    whole, part = divmod(max(0.0, at) / catalog.TOKEN_STEP_S, 1)
    last = counts[int(whole)] if whole < len(counts) else 0
    return sum(counts[:int(whole)]) + part * last


def after_starts(found, window_s=WINDOW_S):
    """Tokens a second in the window after each start of a server."""
    return [(tokens_by(found["tokens"], at + window_s) - tokens_by(found["tokens"], at)) / window_s for at in found["started"]]


def first_tokens(found, share):
    """Time to first token that this share of the requests stays within."""
    waits = sorted(wait for _, wait in found["requests"])
    return waits[math.ceil(share * len(waits)) - 1]


def sequence_rate(found, interval_s):
    """Tokens a second of services that follow each other at this interval, their starts included."""
    return sum(tokens_by(counts, interval_s) for counts in found["tokens"]) / interval_s / len(found["tokens"])


def _spread(results, experiment, key, value):
    return results.spread(catalog.SERVERS, experiment, key, "rich", value)


def _each(results, experiment, key, values, digits=1):
    """Medians of a list's members."""
    count = len(values(results.rounds(catalog.SERVERS, experiment, key, "rich")[0]))
    cells = [_spread(results, experiment, key, lambda found, index=index: values(found)[index]) for index in range(count)]
    return shown.both([f"{cell.median:.{digits}f}" for cell in cells])


def _starts(found):
    begun = found.get("started") or [0] * len(found["ready"])
    return [ready - at for at, ready in zip(begun, found["ready"])]


def _rows(results, experiment, cells):
    for key in catalog.SERVER_SYSTEMS:
        if results.rounds(catalog.SERVERS, experiment, key, "rich") and results.rounds(catalog.SERVERS, experiment, "native", "rich"):
            yield [shown.NAMES[key], _each(results, experiment, key, _starts), *cells(key)]


def _ratio(results, experiment, key, value):
    base = _spread(results, experiment, "native", value)
    return shown.ratio(_spread(results, experiment, key, value), base if base and base.median else None)


def _elastic_cells(results, key):
    def number(value, text):
        return text.format(_spread(results, "elastic", key, value).median)

    def mean(window_s):
        return lambda found: statistics.mean(after_starts(found, window_s))

    def late(found):
        return first_tokens(found, 0.99)

    return [_each(results, "elastic", key, after_starts), number(mean(WINDOW_S), "{:.1f}"),
            shown.both([_ratio(results, "elastic", key, mean(window_s)) for window_s in WINDOWS_S]),
            number(lambda found: first_tokens(found, 0.5), "{:.1f}"), number(late, "{:.1f}"), _ratio(results, "elastic", key, late)]


def table(results):
    yield f"Medians of {results.origin(catalog.SERVERS)}."
    yield ""
    yield from tables.markdown(
        ["scale-out", "starts, s", f"tokens/s in the {WINDOW_S} s after each start", "mean",
         f"/ Native, in {shown.both(map(str, WINDOWS_S))} s", "time to first token, s: median", "p99", "/ Native"],
        _rows(results, "elastic", lambda key: _elastic_cells(results, key)))
    yield ""
    yield from tables.markdown(
        ["in sequence", "starts, s", *(f"tokens/s, interval {t} s" for t in INTERVALS_S[::2]), f"/ Native, {INTERVALS_S[0]} s",
         f"{INTERVALS_S[-1]} s"],
        _rows(results, "sequence", lambda key: [
            *(f"{_spread(results, 'sequence', key, lambda found, t=t: sequence_rate(found, t)).median:.1f}" for t in INTERVALS_S[::2]),
            *(_ratio(results, "sequence", key, lambda found, t=t: sequence_rate(found, t))
              for t in (INTERVALS_S[0], INTERVALS_S[-1]))]))


def _over_time(results, key, end_s):
    """Points of the mean of all rounds."""
    found = results.rounds(catalog.SERVERS, "elastic", key, "rich")
    steps = range(int(end_s / catalog.TOKEN_STEP_S) + 1)
    for at in (step * catalog.TOKEN_STEP_S for step in steps):
        low, high = max(0.0, at - SMOOTH_S / 2), at + SMOOTH_S / 2
        yield at, statistics.mean((tokens_by(one["tokens"], high) - tokens_by(one["tokens"], low)) / (high - low) for one in found)


def _waits(results, key):
    found = results.rounds(catalog.SERVERS, "elastic", key, "rich")
    for same in zip(*(one["requests"] for one in found)):
        yield statistics.mean(at for at, _ in same), statistics.mean(wait for _, wait in same)


def _panel(index, title, x_title, y_title, lines, marks=()):
    each = 236
    ends = [max((point[axis] for points in lines.values() for point in points), default=1) for axis in (0, 1)]
    panel = svg.Panel(bars.LEFT + index * (each + 52), bars.TOP, each, bars.HEIGHT, (0, ends[0]), (0, ends[1] * 1.08))
    body = [panel.frame(svg.ticks(0, ends[1] * 1.08, 5), x_ticks=svg.ticks(0, ends[0], 5))]
    body += [svg.line(panel.x(at), panel.top, panel.x(at), panel.bottom, svg.MUTED, 1, stroke_dasharray="2 2") for at in marks]
    body += [svg.polyline([(panel.x(x), panel.y(y)) for x, y in points], shown.colour(key), 1.8, stroke_dasharray=DASHES[key])
             for key, points in lines.items() if points]
    body += [svg.text(panel.left, bars.TOP - 12, title, 11.5, svg.INK, font_weight=700), panel.x_title(x_title),
             panel.y_title(y_title, 30)]
    return "".join(body)


def picture(results):
    runs = [one for key in catalog.SERVER_SYSTEMS for one in results.rounds(catalog.SERVERS, "elastic", key, "rich")]
    end_s = max((len(one["tokens"]) * catalog.TOKEN_STEP_S for one in runs), default=1)
    marks = runs[0]["started"] if runs else ()
    keys = [key for key in catalog.SERVER_SYSTEMS if results.rounds(catalog.SERVERS, "elastic", key, "rich")]
    rates = {key: [(t, spread.median) for t in INTERVALS_S
                   if (spread := _spread(results, "sequence", key, lambda found, t=t: sequence_rate(found, t)))]
             for key in catalog.SERVER_SYSTEMS}
    body = [svg.legend(bars.LEFT, 18, [(shown.colour(key), shown.NAMES[key], "dash" if dash else "line") for key, dash in DASHES.items()]),
            _panel(0, "(a) scale-out: throughput", "s; dotted: a server is started", "tokens/s",
                   {key: list(_over_time(results, key, end_s)) for key in keys}, marks),
            _panel(1, "(b) scale-out: waits", "arrival of the request, s", "time to first token, s",
                   {key: list(_waits(results, key)) for key in keys}, marks),
            _panel(2, "(c) models in sequence", "interval, s", "tokens/s", rates)]
    return bars.document(900, bars.TOP + bars.HEIGHT + 40, body, "Tokens a second of servers that scale out, as Figure 12")
