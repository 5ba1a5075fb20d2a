"""Read the edges of a rank: each rank parses its own range of bytes of a plain text.

What ids are is decided by the first edges of the text, which every rank looks at.
"""

from __future__ import annotations

from collections.abc import Sequence

from bmrm.distributed.group import Group
from bmrm.errors import DataError
from bmrm.io.edge_data import Edges
from bmrm.io.edges import EdgeParser, LabelKind
from bmrm.io.sources import Source
from bmrm.io.svmlight import resolve_thread_count


def read_edge_range(
    source: Source,
    group: Group,
    *,
    weights: bool | None,
    labels: LabelKind,
    columns: Sequence[str] | None = None,
    threads: int | None,
) -> Edges:
    """Read this rank's part of a plain text; nodes are numbered on each rank for itself.

    Parameters
    ----------
    source : Source
        A plain file, the same on every rank.
    group : Group
    weights, labels, columns
        As for `bmrm.io.edges.read_edges`.
    threads : int or None
        None: the cores that this rank does not share with other ranks.

    Returns
    -------
    Edges
        In the order of the text, rank after rank.

    Raises
    ------
    DataError
        For the first fault in the part of the lowest rank with one; the same on every rank.
    """
    bounds = group.split(source.size)
    first, last = int(bounds[group.rank]), int(bounds[group.rank + 1])
    count = group.cores if threads is None else resolve_thread_count(threads)

    def parse(*, numbered: bool) -> Edges:
        parser = EdgeParser(source.name, labels, count, weights=weights, columns=columns)
        parser.parse_file(source, first, last, numbered=numbered)
        return parser.finish()

    with group.together():
        try:
            return parse(numbered=False)
        except DataError:  # only the message needs the lines before
            parse(numbered=True)
            raise
