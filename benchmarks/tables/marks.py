"""Figures in prose and the results that they are from.

A figure on a page is followed by a mark, a comment in Markdown that names the results file, the path of its
rows and a template of `text.py`. Both are those of a benchmark's SECTIONS:

    takes 9.1 ms<!-- scaling_graph_gpu: rows gpus=1 {seconds[pagerank]:.1f ms} --> ms
    2.6 to 4.6<!-- gpu_seeding: rows {seconds[torch_plus_plus]/seconds[plus_plus]:.1f} --> times as fast

The path `.` is the file itself; words `field=value` or `field="some words"` choose rows. The figure is what
the template makes of the only row, or the least and the largest of what it makes of several; with `least` or
`most`, that one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

from benchmarks.tables import text

MARK = re.compile(r'<!-- (\w+): (\S+) ((?:\w+=(?:"[^"]*"|\S+) |least |most )*)(\{.*?) -->')
RATIO = re.compile(r"\d+\.\d+ ?(?:x|×)(?! ?\d)\b|\d+\.\d+ (?:times|of the time|of its time|of \w+'s time)\b")
"""A figure that needs a mark: what follows it in words is what makes it a ratio."""


def figure(results: dict[str, Any], path: str, wanted: str, template: str) -> str:
    """Return the figure that a mark stands for."""
    words = shlex.split(wanted)
    fields = dict(word.split("=", 1) for word in words if "=" in word)
    cells = [
        text.cell(template, row)
        for row in text.rows(results, "" if path == "." else path)
        if all(str(row.get(key)) == value for key, value in fields.items())
    ]
    numbers = sorted({cell for cell in cells if cell != text.NOTHING}, key=_number)
    chosen = numbers[:1] if "least" in words else numbers[-1:] if "most" in words else numbers
    return chosen[0] if len(chosen) == 1 else f"{chosen[0]} to {chosen[-1]}"


def _number(cell: str) -> float:
    return float(re.sub("[^0-9.e-]", "", cell))


def faults(page: str, load: Callable[[str], dict[str, Any]]) -> list[str]:
    """Return what is wrong with the marked figures of a page: the figures that the results do not have."""
    found, before = [], 0
    for mark in MARK.finditer(page):
        name, path, wanted, template = mark.groups()
        expected = figure(load(name), path, wanted, template)
        # The figure itself: no other number is part of it.
        if not re.search(rf"(?<![\d.]){re.escape(expected)}$", " ".join(page[before : mark.start()].split())):
            found.append(f"found {page[before : mark.start()][-30:]!r}, expected {expected} ({mark[0]})")
        before = mark.end()
    return found


def unmarked(page: str) -> list[str]:
    """Return the ratios of a page's prose that no mark follows."""
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return [match[0] for match in RATIO.finditer(" ".join(prose.split()))]
