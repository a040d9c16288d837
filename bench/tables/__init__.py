# SPDX-License-Identifier: Apache-2.0
"""Tables in documents, made from raw results that are kept beside them in bench/results, so that a figure can be
traced to its runs and nobody types one."""
import json
import os

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
END = "<!-- end -->"


def kept_path(name):
    return os.path.join(TOP, "bench", "results", f"{name}.json")


def keep(name, raw):
    """Raw results, one JSON object."""
    with open(kept_path(name), "w", encoding="utf-8") as file:
        json.dump(raw, file, indent=1, sort_keys=True)
        file.write("\n")


def kept(name):
    with open(kept_path(name), encoding="utf-8") as file:
        return json.load(file)


def _split(page, command):
    begin = f"<!-- written by {command} -->"
    with open(os.path.join(TOP, page), encoding="utf-8") as file:
        before, rest = file.read().split(begin)
    inside, after = rest.split(END, 1)
    return before + begin, inside, END + after


def written(page, command):
    """What the page has between the marks of the command."""
    return _split(page, command)[1].strip("\n")


def write(page, command, lines):
    before, _, after = _split(page, command)
    with open(os.path.join(TOP, page), "w", encoding="utf-8") as file:
        file.write(before + "\n\n" + "\n".join(lines) + "\n\n" + after)


def markdown(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
