"""What the documentation shows of a results file: sections of text and tables, which the file carries.

A benchmark has them as SECTIONS, a text that looks as the page does:

    ## Title
    headline: what | against whom | path of rows | ratio | machine

    A paragraph. {machine[cpu]} is a field of the results file.

    [path.of.rows]
    heading = {field:.2f} | another = {field}, {one/other:.1f ms}

A table has a template per column, as `tables/text.py` explains. Its first line may go on with `where KEY in
ONE, ANOTHER`, which selects rows, or with `each ONE, ANOTHER`, which makes a row per word; @ stands for the
word. [aims] alone is the table of the aims. The line of the headline, which may be missing, is a row of the
table at the head of docs/performance.md.
"""

from __future__ import annotations

import re
from typing import Any

HEADLINE = ("what", "against", "rows", "ratio", "on")
TABLE = re.compile(r"\[(?P<rows>.+?)\](?: where (?P<key>.+) in (?P<values>.+)| each (?P<words>.+))?")


def parse(text: str) -> list[dict[str, Any]]:
    """Return the sections of a text."""
    return [_section(part) for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]]


def _section(text: str) -> dict[str, Any]:
    head, *blocks = re.split(r"\n\s*\n", text.strip())
    title, *headline = head.splitlines()
    section: dict[str, Any] = {"title": title}
    if headline:
        words = headline[0].removeprefix("headline: ").split(" | ")
        section["headline"] = dict(zip(HEADLINE, words, strict=True))
    return section | {"body": [_table(b) if b.startswith("[") else " ".join(b.split()) for b in blocks]}


def _table(block: str) -> dict[str, Any]:
    head, *lines = block.splitlines()
    found = TABLE.fullmatch(head)
    if not found:
        raise ValueError(f"found {head}, expected the rows of a table")
    table: dict[str, Any] = {"rows": found["rows"]}
    if lines:
        table["columns"] = dict(column.split(" = ", 1) for column in " ".join(lines).split(" | "))
    if found["key"]:
        table["where"] = {found["key"]: found["values"].split(", ")}
    if found["words"]:
        table["each"] = found["words"].split(", ")
    return table
