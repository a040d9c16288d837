# SPDX-License-Identifier: Apache-2.0
"""Tables and bars of Figures 6, 7, 10, 11, of section 5.2.2 and Table 3, from the kept results alone."""
import tables
from report import look

from . import bars, catalog
from .results import Spread

CASE_NAMES = {"rich": "(a) enough memory", "limit": "(b) memory for 45% of the model"}
NAMES = {"native": "Native", "eager": "EagerLoad", "precache": "PreCache", "direct": "ServerlessLLM's store",
         "maio": "MAIO"}
STEPS = {"native": "Base", "maio-p": "Base+P", "maio-pa": "Base+P+A", "maio-pae": "Base+P+A+E"}
COLOURS = {"direct": "#b0436e", "maio-p": "#b9d7c9", "maio-pa": "#5fae8f", "maio-pae": look.SYSTEMS["maio"]}


def colour(key):
    return COLOURS.get(key) or look.colour(key)


def load(found):
    return found["load_s"]


def startup(found):
    """Without what filled the cache before, as the paper's PreCache does not count it."""
    return found["startup_s"] - found["cache_s"]


def seconds(value):
    return "-" if value is None else f"{value.median:.1f}"


def ratio(value, base):
    return "-" if not value or not base else f"{value.median / base.median:.2f}"


def both(texts):
    return " / ".join(texts)


def short(model):
    return catalog.TITLES[model].replace("Qwen2.5", "Qwen")


def series(names):
    return [(key, name, colour(key)) for key, name in names.items()]


def _cells(results, value, names):
    """case -> model -> system -> Spread."""
    return {case: {model: {key: results.spread("6", model, key, case, value) for key in names}
                   for model in catalog.MODELS} for case in catalog.CASES}


def _by_model(results, value):
    cells = _cells(results, value, NAMES)
    rows = []
    for model, scale in catalog.MODELS.items():
        here = [cells[case][model] for case in catalog.CASES]
        if not any(value for one in here for value in one.values()):
            continue
        known = results.get("6", model, "measured", "")
        rows.append([f"{catalog.TITLES[model]}, 1:{scale}", f"{known['model_bytes'] / 1e9:.2f} GB",
                     *(both([seconds(one[key]) for one in here]) for key in NAMES),
                     both([ratio(one["maio"], one["native"]) for one in here]),
                     both([ratio(one["maio"], one["precache"]) for one in here])])
    head = ["model", "bytes", *(f"{name}, s" for name in NAMES.values()), "MAIO / Native", "MAIO / PreCache"]
    yield f"Enough memory / memory for 45% of the model. Medians of {results.origin('6')}."
    yield ""
    yield from tables.markdown(head, rows)


def loads(results):
    yield from _by_model(results, load)


def startups(results):
    yield from _by_model(results, startup)


def _bars_by_model(results, value, label, y_title):
    cells = _cells(results, value, NAMES)
    panels = [(CASE_NAMES[case], [(short(model), cells[case][model])
                                  for model in catalog.MODELS]) for case in catalog.CASES]
    return bars.draw(label, y_title, panels, series(NAMES))


def figure_6(results):
    return _bars_by_model(results, load, "Load time of five models, as Figure 6", "load, s")


def figure_7(results):
    return _bars_by_model(results, startup, "Start-up time of five models, as Figure 7", "start-up, s")


# CPU time.

CPU_NAMES = {"native": "Native", "precache": "PreCache (cat)", "maio": "MAIO"}


def cpu_parts(found, size):
    """CPU seconds per GB of the model: loader, what fills the cache before, runner."""
    return [(found[key] or 0) / size * 1e9 for key in ("loader_cpu_s", "cache_cpu_s", "runner_cpu_s")]


def _cpu(results, model, key, case, pick):
    known = results.get("6", model, "measured", "")
    return known and results.spread("6", model, key, case, lambda found: pick(cpu_parts(found, known["model_bytes"])))


def cpu(results):
    head = ["model", "memory", "Native: loader", "PreCache: loader", "cat", "MAIO: loader", "runner", "MAIO / Native"]
    rows = []
    for model in catalog.MODELS:
        for case in catalog.CASES:
            def of(key, pick, model=model, case=case):
                return _cpu(results, model, key, case, pick)

            native, maio = of("native", sum), of("maio", sum)
            if native and maio:
                cells = [of("native", lambda parts: parts[0]), *(of("precache", lambda parts, i=i: parts[i]) for i in (0, 1)),
                         *(of("maio", lambda parts, i=i: parts[i]) for i in (0, 2))]
                rows.append([catalog.TITLES[model], "enough" if case == "rich" else "45%",
                             *("-" if cell is None else f"{cell.median:.2f}" for cell in cells), ratio(maio, native)])
    yield f"CPU seconds per GB of the model. Medians of {results.origin('6')}."
    yield ""
    yield from tables.markdown(head, rows)


def figure_cpu(results):
    panels = [(CASE_NAMES[case], [(short(model),
                                   {key: _cpu(results, model, key, case, sum) for key in CPU_NAMES}) for model in catalog.MODELS])
              for case in catalog.CASES]
    return bars.draw("CPU time per GB of a model, section 5.2.2", "CPU s per GB", panels, series(CPU_NAMES))


# Memory of the runtime.

WAYS = {"null-read": ("empty policy, read", "#7b8794"), "null-mmap": ("empty policy, mmap", "#3a9bd9"),
        "maio-read": ("MAIO, read", "#5fae8f"), "maio-mmap": ("MAIO, mmap", look.SYSTEMS["maio"])}


def _mib(name):
    return lambda found: found["runner_kib"][name] / 1024


def memory(results):
    yield f"MiB of `ppc-runner` at the end of a load, its peak with programs / its own. {results.origin('10')}."
    yield ""
    rows = []
    for way, (name, _) in WAYS.items():
        cells = []
        for workers in catalog.WORKERS:
            found = [results.spread("10", catalog.MEMORY_MODEL[0], f"{way}-{workers}", "rich", _mib(kind))
                     for kind in ("VmHWM", "RssAnon")]
            cells.append(both(["-" if one is None else f"{one.median:.1f}" for one in found]))
        rows.append([name, *cells])
    yield from tables.markdown(["", *(f"{count} process{'es' if count > 1 else ''}" for count in catalog.WORKERS)], rows)
    large = {way: results.get("10", "deepseek-r1", way, "rich") for way in ("template", "headers")}
    if all(large.values()):
        yield ""
        yield "DeepSeek-R1's layout at full size with 16 workers, from a template / from headers: " + "; ".join(
            f"{text} {both([f'{one[key] / 1024:.1f}' for one in large.values()])} MiB"
            for key, text in (("peak", "peak"), ("anon_settled", "its own after 10 s"))) + "."


def figure_10(results):
    groups = [(str(count), {way: results.spread("10", catalog.MEMORY_MODEL[0], f"{way}-{count}", "rich", _mib("VmHWM"))
                            for way in WAYS}) for count in catalog.WORKERS]
    return bars.draw("Memory of the runtime, as Figure 10", "MiB",
                     [("peak of ppc-runner, by processes that read", groups)],
                     [(way, name, shade) for way, (name, shade) in WAYS.items()], 560)


# Overhead for readers.

STATES = {"idle": ("registered, nothing loads", "#b9d7c9"), "loads": ("while a service loads", look.SYSTEMS["maio"])}


def _costs(results):
    """operation -> found, in the order of the lines."""
    return {key[2]: found for key, found in results.of.items() if key[0] == "9"}


def _percent(found, state):
    return Spread(*(100 * one / found["alone_us"] for one in found[state]), 1)


def overhead(results):
    machine, commit, date = results.origins["9"]
    yield f"Cached files; medians of 40 rounds with 90% intervals; {machine}; commit {commit}, {date}."
    yield ""
    rows = [[operation, f"{found['alone_us']:.2f} us",
             *("{0.median:+.1f}% [{0.low:+.1f}, {0.high:+.1f}]".format(_percent(found, state)) for state in STATES)]
            for operation, found in _costs(results).items()]
    yield from tables.markdown(["operation", "alone", *(name for name, _ in STATES.values())], rows)


def figure_9(results):
    groups = [(operation, {state: Spread(*(max(0.0, one) for one in _percent(found, state)[:3]), 1) for state in STATES})
              for operation, found in _costs(results).items()]
    return bars.draw("Overhead for readers of cached files, as Figure 9", "% longer", [("time of one operation", groups)],
                     [(state, name, shade) for state, (name, shade) in STATES.items()], 760)


# Two nodes.

PAPER_S = {"native": 649, "precache": 561, "maio": 452}


def two_nodes(results):
    """A service has loaded when both of its nodes have."""
    each = {key: [results.spread("4.3", catalog.NODES_MODEL[0], f"{key}-{node}", "rich", load) for node in (0, 1)]
            for key in PAPER_S}
    both_s = {key: max(one.median for one in nodes) for key, nodes in each.items() if all(nodes)}
    rows = [[NAMES[key], *(seconds(one) for one in each[key]), f"{both_s[key]:.1f}", f"{both_s[key] / both_s['native']:.2f}",
             f"{PAPER_S[key]} s, {PAPER_S[key] / PAPER_S['native']:.2f}"] for key in both_s if "native" in both_s]
    yield f"Load, s. Medians of {results.origin('4.3')}."
    yield ""
    yield from tables.markdown(["", "node 0", "node 1", "both", "/ Native", "paper"], rows)


# The mechanisms' gains.


def _step(results, model, key, case):
    """The baseline is Figure 6's."""
    return results.spread("6" if key == "native" else "11", model, key, case, load)


def breakdown(results):
    rows = [[catalog.TITLES[model], "enough" if case == "rich" else "45%",
             *(seconds(_step(results, model, key, case)) for key in STEPS),
             *(ratio(_step(results, model, key, case), _step(results, model, before, case))
               for before, key in zip(STEPS, list(STEPS)[1:]))]
            for model in catalog.LARGE for case in catalog.CASES]
    yield f"Load, s, and ratios to the step before. Medians of {results.origin('11')}."
    yield ""
    yield from tables.markdown(["model", "memory", *STEPS.values(), "P", "A", "E"], rows)


def figure_11(results):
    panels = [(CASE_NAMES[case], [(catalog.TITLES[model], {key: _step(results, model, key, case) for key in STEPS})
                                  for model in catalog.LARGE]) for case in catalog.CASES]
    return bars.draw("What each mechanism of MAIO gains, as Figure 11", "load, s", panels, series(STEPS))


# Templates.


def templates(results):
    rows = []
    for model, title in catalog.TITLES.items():
        found = results.get("table3", model, "maio", "rich")
        if found:
            rows.append([title, str(found["workers"]), f"{found['extents']:,}", f"{found['bytes'] / 1000:.1f} KB",
                         f"{found['paper_bytes'] / 1000:.0f} KB", f"{found['bytes'] / found['paper_bytes']:.2f}"])
    machine, commit, date = results.origins["table3"]
    yield f"Recordings of simulated loads at full size; {machine}; commit {commit}, {date}."
    yield ""
    yield from tables.markdown(["model", "workers", "extents", "template", "paper's", "ratio"], rows)
