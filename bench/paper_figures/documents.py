# SPDX-License-Identifier: Apache-2.0
"""What docs/reproduce.md shows of the results: a block for each figure, and its pictures."""
import os

import tables

from . import curves, figures
from .results import Results

PAGE, PICTURES = "docs/reproduce.md", "docs/pictures"


def mark(figure):
    """Of tables.write: what wrote the block."""
    return f"bench/paper {figure.name} --docs"


def is_kept(figure, results):
    needed = figure.starts or (figure.name,)
    return figure.table is not None and all(results.has(key) for key in needed)


def block(figure, lines):
    """Picture and table; without a kept result the command that makes one."""
    results = Results(lines)
    if not is_kept(figure, results):
        yield f"Not measured yet: `bench/paper {figure.name}`."
        return
    for name in figure.pictures:
        yield f"![{figure.title[0].upper()}{figure.title[1:]}](pictures/{name}.svg)"
        yield ""
    yield from figure.table(results)


def pictures(figure, lines):
    """{name: picture}"""
    results = Results(lines)
    return {name: draw(results) for name, draw in figure.pictures.items()} if is_kept(figure, results) else {}


def write_pictures(figure, lines, folder):
    for name, picture in pictures(figure, lines).items():
        with open(os.path.join(folder, f"{name}.svg"), "w", encoding="utf-8") as file:
            file.write(picture + "\n")


def shown_here():
    """Figures that the page has a block of."""
    return [figure for figure in figures.ALL if figure.table]


def write(lines):
    for figure in shown_here():
        tables.write(PAGE, mark(figure), list(block(figure, lines)))
        write_pictures(figure, lines, os.path.join(tables.TOP, PICTURES))


def write_series(lines, folder):
    curves.write_csv(Results(lines), folder)
