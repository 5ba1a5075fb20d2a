"""What an answer shows of itself: title, facts and tables, as text and for notebooks; its columns as a frame.

Tables have the leading rows alone, so that an answer of any size prints at once. Their texts come from data
that nobody has checked: they are escaped, for terminals and for HTML, and shortened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.frames import frame_of
from bmrm.base.tables import format_table
from bmrm.base.vectors import Vector
from bmrm.errors import ParameterError, escape_unprintable

MAX_ROWS = 10
"""Rows of a table that is shown."""

MAX_COLUMNS = 8
"""Columns of one; those of many features are left out."""

MAX_CHARS = 40
"""Of a text in a table."""

STOPS = {
    "converged": "converged",
    "max_iter": "stopped at the iteration limit",
    "max_time": "stopped at the time limit",
    "precision": "stopped at the limit of precision: the tolerance cannot be resolved",
    "max_cuts": "stopped because the maximum number of cuts is too small for further progress",
    "interrupted": "interrupted",
}
"""Why an iteration ended, by status."""


NAMES = {"loss.name": "loss", "placement.device": "device"}
"""What parts of attributes are called."""

IN_WORDS = {"n_iter": "iterations", "n_products": "products"}
"""Facts whose names are no words."""


class ShownTable(NamedTuple):
    """A table that is shown: columns by their names, and how many rows there are besides."""

    columns: Mapping[str, Sequence[Any]]
    more: int = 0

    def cells(self) -> list[list[str]]:
        """Return the texts of its rows."""
        return [[cell(value) for value in row] for row in zip(*self.columns.values(), strict=True)]


class Answer:
    """Something that was found, and prints itself.

    A subclass says its title, and either names attributes that are facts (`_numbers`) or overrides `_facts`.
    """

    _numbers: ClassVar[tuple[str, ...]] = ()
    """Attributes that are facts: ``status_``, ``placement.device``."""

    def _title(self) -> str:
        """Return the first line, "" for none."""
        raise NotImplementedError

    def _columns(self) -> Mapping[str, Any]:
        """Return all columns, by their names."""
        raise NotImplementedError

    def _facts(self) -> Mapping[str, Any]:
        """Return facts by their names."""
        return {
            IN_WORDS.get(name, name.replace("_", " ")): value
            for name, value in self._values()
            if value is not None
        }

    def _tables(self) -> Iterable[ShownTable]:
        """Return the tables that are shown."""
        return [leading(self._columns())]

    def _values(self) -> Iterator[tuple[str, Any]]:
        """Yield the attributes that are facts and exist, by their names."""
        missing = object()
        for path in self._numbers:
            value: Any = self
            for name in path.split("."):
                value = getattr(value, name, missing)
            if value is not missing:
                yield NAMES.get(path.replace("_.", "."), path.rstrip("_")), value

    def __str__(self) -> str:
        tables = (table_text(table) for table in self._tables() if table.columns)
        first = "\n".join(filter(None, [self._title(), *fact_lines(self._facts())]))
        return "\n\n".join(filter(None, [first, *tables]))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return facts and tables for notebooks."""
        title = escape(escape_unprintable(self._title()))
        facts = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in _fact_texts(self._facts())
        )
        tables = (_table_html(table) for table in self._tables() if table.columns)
        return (
            (f"<p>{title}</p>" if title else "")
            + (f"<table>{facts}</table>" if facts else "")
            + "".join(tables)
        )

    def to_dict(self) -> dict[Any, Any]:
        """Return facts and columns as numbers, texts and lists of Python.

        Returns
        -------
        dict
            Facts by their names, then lists, one per column of `to_frame`.
        """
        return {name: plain(value) for name, value in [*self._values(), *self._columns().items()]}

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the columns as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars"}, default "pandas"

        Returns
        -------
        DataFrame

        Raises
        ------
        ParameterError
            If the library is not installed.
        """
        return frame_of(self._columns(), library)


def leading(columns: Mapping[str, Any], order: Any = None) -> ShownTable:
    """Return the first rows and columns, in an order of the rows if one is given."""
    count = min(map(len, columns.values()), default=0)
    chosen = slice(MAX_ROWS) if order is None else order[:MAX_ROWS]
    shown = {
        name: np.asarray(column)[chosen].tolist() for name, column in list(columns.items())[:MAX_COLUMNS]
    }
    if len(columns) > MAX_COLUMNS:
        shown["..."] = ["..."] * min(count, MAX_ROWS)
    return ShownTable(shown, max(0, count - MAX_ROWS))


def ranked(scores: Vector, count: int) -> NDArray[np.intp]:
    """Return the places of the ``count`` largest scores, in descending order, ties by number."""
    if arguments.integer("count", count) < 0:
        raise ParameterError(f"count: found {count}, expected at least 0")
    if count < len(scores):
        threshold = np.partition(scores, len(scores) - count)[len(scores) - count] if count else np.inf
        places = np.flatnonzero(scores >= threshold)
    else:
        places = np.arange(len(scores))
    return places[np.lexsort((places, -scores[places]))][:count]


def with_coordinates(
    columns: Mapping[str, Any], names: Sequence[str] | None, values: Vector
) -> dict[str, Any]:
    """Return columns with those of a matrix, by their names, or ``x0`` and so on if they have none.

    Examples
    --------
    >>> list(with_coordinates({"weight": np.ones(1)}, ["height", "weight"], np.ones((1, 2))))
    ['weight', 'height', 'weight_']
    """
    found = dict(columns)
    known = [f"x{j}" for j in range(values.shape[1])] if names is None else names
    for name, column in zip(known, values.T, strict=True):
        while name in found:
            name += "_"
        found[name] = column
    return found


def cell(value: Any) -> str:
    r"""Return a value as a text of one short line.

    Examples
    --------
    >>> cell(0.123456789), cell("two\nlines"), cell(3)
    ('0.123457', 'two\\nlines', '3')
    """
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    text = escape_unprintable(str(value))
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}..."


def fact_lines(facts: Mapping[str, Any]) -> list[str]:
    """Return a line per fact, with the texts below each other."""
    width = max([11, *map(len, facts)])
    return [f"{name:<{width}}  {text}" for name, text in _fact_texts(facts)]


def _fact_texts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and texts of facts; a status is told in words, and a text stands as it is."""
    texts = {name: STOPS.get(value, value) if name == "status" else value for name, value in facts.items()}
    return [
        (name, escape_unprintable(text) if isinstance(text, str) else cell(text))
        for name, text in texts.items()
    ]


def table_text(table: ShownTable) -> str:
    """Return a table as aligned text."""
    text = format_table([cell(name) for name in table.columns], table.cells())
    return f"{text}\n... and {table.more} more" if table.more else text


def _table_html(table: ShownTable) -> str:
    def row(tag: str, texts: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"

    head, rows = row("th", map(cell, table.columns)), [row("td", texts) for texts in table.cells()]
    more = f"<p>... and {table.more} more</p>" if table.more else ""
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>{more}"


def plain(value: Any) -> Any:
    """Return a value of NumPy as one of Python."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
