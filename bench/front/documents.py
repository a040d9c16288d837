# SPDX-License-Identifier: Apache-2.0
"""What the command writes: the pictures, and the three numbers in README."""
import os

import tables

from . import chart, starts, terminal

PAGE, COMMAND = "README.md", "bench/front/draw"
PICTURES = {"docs/pictures/starts.svg": chart.draw, "docs/pictures/run.svg": terminal.draw}


def _row(what, native_s, ppc_s, ratio, file):
    date, commit, machine = starts.recorded(file)
    return [what, f"{native_s:.1f} s", f"{ppc_s:.1f} s", ratio, f"{date}, {commit.split()[0]}", machine]


def lines():
    """Three numbers: a usual one on a slow disk, one of a GPU, and the weakest that is kept."""
    usual = next(start for start in starts.of_loaders() if start.name.startswith("transformers"))
    one = next(starts.of_gpu())
    title = starts.CASES[-1][0]
    native_s, ppc_s, ratio, size = starts.case(title, "run 1")
    yield from tables.markdown(
        ("start-up, cold page cache", "kernel", "PPC", "ratio", "date, commit", "machine"),
        [_row("transformers `from_pretrained`, 2.2 GB", usual.native_s, usual.ppc_s, f"{usual.ratio:.2f}", "loaders.json"),
         _row("safetensors to a GPU, 16 GB", one.native_s, one.ppc_s, f"{one.ratio:.2f}", "gpu.json"),
         _row("**the weakest**: 1.2 GB while a neighbour drops the page cache each second", native_s, ppc_s,
              f"**{ratio:.2f}**, {size:.2f} of the bytes", "cases.md")])


def write():
    for name, draw in PICTURES.items():
        with open(os.path.join(tables.TOP, name), "w", encoding="utf-8") as file:
            file.write(draw() + "\n")
    tables.write(PAGE, COMMAND, list(lines()))
