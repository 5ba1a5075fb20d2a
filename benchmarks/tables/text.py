"""The text of a results file's sections: titles, paragraphs and tables.

A section is data, and is in the file beside the numbers: its title, and a body of paragraphs and tables. Both
are templates as those of `str.format`, for the file or for a row, with a few things more. A table has a path
of rows and a template per column.

    {seconds:.1f ms}       a unit scales: from seconds, bytes or numbers
    {peer/ours:.2f}        a ratio of two fields; {runs[cpu][passes]} is a field of a field
    {all:.2f span}         a list: its least and largest number, or its median, sum or count; else all of it
    {late:, late/}         one text or another, by whether the field is true; * stands for its value
    @                      each word of a table's "each" in turn: one row per word

A cell whose field is missing is "-", and a column that no row has is left out.
"""

from __future__ import annotations

import statistics
import string
from collections.abc import Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]

UNITS = {"min": 1 / 60, "ms": 1e3, "us": 1e6, "kB": 1e-3, "MB": 1e-6, "GB": 1e-9, "T": 1e-12}
LISTS = {
    "span": lambda numbers: [min(numbers), max(numbers)],
    "median": statistics.median,
    "sum": sum,
    "count": len,
}
AIMS = {
    "result": "{name}",
    "measured": "{value:.3g}{unit}",
    "aim": "{below:</>=} {bound:g}{unit}",
    "reached": "{passed:yes/no}",
}
NOTHING = "-"
FOLDED_ROWS = 40
"""A longer table is folded, so that the text around it can be read."""


class MissingError(Exception):
    """A field is not there, or null."""


class Template(string.Formatter):
    """Formats templates."""

    def get_field(self, name: str, args: Any, fields: Any) -> tuple[Any, str]:
        """Return a field, None if it is missing, or the ratio of two."""
        found = []
        for part in name.split("/"):
            try:
                found.append(super().get_field(part, args, fields)[0])
            except (KeyError, IndexError, TypeError):
                return None, name
        if None in found:
            return None, name
        return (found[0] / found[1] if len(found) == 2 else found[0]), name

    def format_field(self, value: Any, style: str) -> str:
        """Format a field, a list item by item."""
        if "/" in style:
            yes, no = style.split("/")
            return yes.replace("*", str(value)) if value else no
        if value is None:
            raise MissingError
        style, *words = style.split(" ")
        for word in words:
            value = LISTS[word](value) if word in LISTS else value
        if isinstance(value, (list, tuple)):
            each = " ".join([style, *(word for word in words if word in UNITS)])
            between = " to " if "span" in words else ", "
            return between.join(self.format_field(item, each) for item in value)
        for word in words:
            value = value * UNITS.get(word, 1)
        return format(value, style)


def fill(template: str, fields: Row) -> str:
    """Return a template with its fields."""
    return Template().vformat(template, (), fields)


def items(found: Any) -> Iterator[Row]:
    """Yield the rows of a list, or of a mapping, whose keys become names; none of what is missing."""
    if isinstance(found, list):
        yield from found
        return
    for name, value in (found or {}).items():
        for each in value if isinstance(value, list) else [value]:
            yield {"name": name, **(each if isinstance(each, dict) else {"value": each})}


def rows(results: Row, path: str) -> list[Row]:
    """Return the rows at a path of fields, as "rows.runs", with those that they are in; "." is the file."""
    found: list[Row] = [results]
    for name in filter(None, path.split(".")):
        found = [
            {**outer, **inner} for outer in found for inner in items(Template().get_field(name, (), outer)[0])
        ]
    return found


def cell(template: str, row: Row) -> str:
    """Return a cell of a table."""
    try:
        return fill(template, row)
    except MissingError:
        return NOTHING


def markdown(columns: list[str], cells: list[list[str]]) -> str:
    """Return a table, nothing without rows; all columns except the first hold numbers."""
    if not cells:
        return ""
    kept = [i for i in range(len(columns)) if any(line[i] != NOTHING for line in cells)]
    lines = [[line[i] for i in kept] for line in (columns, ["---", *["---:"] * (len(columns) - 1)], *cells)]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
    if len(cells) <= FOLDED_ROWS:
        return text
    return f"<details><summary>{len(cells)} rows</summary>\n\n{text}\n</details>\n"


def table(results: Row, about: Row) -> str:
    """Return a table of a results file; without columns it is that of the aims."""
    columns, wanted = about.get("columns", AIMS), about.get("where", {})
    cells = [
        [cell(template.replace("@", word), row) for template in columns.values()]
        for row in rows(results, about["rows"])
        if all(str(row.get(key)) in values for key, values in wanted.items())
        for word in about.get("each", ["@"])
    ]
    return markdown(list(columns), cells)


def body(results: Row, section: Row) -> str:
    """Return the paragraphs and tables of a section."""
    parts = [
        fill(part, results) + "\n" if isinstance(part, str) else table(results, part)
        for part in section["body"]
    ]
    return "\n".join(part for part in parts if part.strip())
