"""Exchange columns between ranks: values from the owners to the rows that touch them, and sums back.

A vector over the columns is distributed: each rank owns a run of columns, as in a PETSc MPI vector. The rows
of a rank touch some columns, whoever owns them. For a product with X these columns are fetched, and after a
product with X' they are summed at the owners, as PETSc's VecScatter does for the columns of the off-diagonal
part of a matrix (MPIAIJ). The ranks exchange once which columns they need; after that only values travel.
Sums are made in the order of the ranks.

References
----------
PETSc/TAO users manual, "Sparse matrices" and "Communication of vectors" (MatCreateAIJ, VecScatter).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector, index_type
from bmrm.distributed.group import Group
from bmrm.distributed.shared_memory import MAX_SHARED_DOUBLES

Index = NDArray[np.signedinteger] | slice


def split_columns(count: int, ranks: int) -> Indices:
    """Return the bounds of the columns that each rank owns, as PETSc chooses them.

    Examples
    --------
    >>> split_columns(5, 3), split_columns(1, 2)
    (array([0, 2, 4, 5]), array([0, 1, 1]))
    """
    widths = np.full(ranks, count // ranks, np.int64)
    widths[: count % ranks] += 1
    return np.concatenate([[0], np.cumsum(widths)])


class Exchange:
    """Exchanges values of columns between their owners and the ranks whose rows touch them.

    Parameters
    ----------
    group : Group
    bounds : ndarray of int64, shape (ranks + 1,)
        Rank r owns the columns ``bounds[r]`` to ``bounds[r + 1]``.
    touched : ndarray of integers
        Columns that the local rows touch, increasing.

    Attributes
    ----------
    width, reach : int
        Number of columns owned by this rank, and of columns touched by its rows.
    """

    def __init__(self, group: Group, bounds: NDArray[np.int64], touched: NDArray[np.integer]) -> None:
        self.group, self.bounds = group, bounds
        ends = np.searchsorted(touched, bounds)
        self._ends = np.array(group.everyones(ends.tolist()))
        self._wanted = np.diff(ends).tolist()
        rank = group.rank
        self._asked = (self._ends[:, rank + 1] - self._ends[:, rank]).tolist()
        self.width, self.reach = int(bounds[rank + 1] - bounds[rank]), len(touched)
        places = group.exchanged(touched.astype(np.float64), self._wanted, self._asked) - bounds[rank]
        # For each rank: which of our columns it touches, and which of its columns we touch.
        self._theirs = [
            _as_index(part, self.width) for part in np.split(places, np.cumsum(self._asked)[:-1].tolist())
        ]
        self._ours = [
            _as_index(touched[a:b] - first, last - first)
            for (a, b), (first, last) in zip(pairwise(ends), pairwise(bounds.tolist()), strict=True)
        ]

    def fetch(self, piece: Vector) -> Vector:
        """Return the touched columns of a distributed vector, of which ``piece`` is this rank's part."""
        area, widest = self.group.area, int(np.diff(self.bounds).max())
        if area is None or widest > MAX_SHARED_DOUBLES:
            packed = np.concatenate([_take(piece, theirs) for theirs in self._theirs])
            return self.group.exchanged(packed, self._asked, self._wanted)
        parts = area.places(widest)
        parts[self.group.rank][: len(piece)] = piece
        self.group.meet()
        widths = np.diff(self.bounds).tolist()
        ours = zip(parts, self._ours, widths, strict=True)
        return np.concatenate([_take(part[:width], places) for part, places, width in ours])

    def add_up(self, rows: Vector, reach: list[tuple[int, int]], out: Vector) -> None:
        """Sum rows over the ranks, each column at its owner.

        Parameters
        ----------
        rows : ndarray of shape (last - first, touched columns)
            What this rank adds to the rows first to last of the sum, ``first, last = reach[rank]``.
        reach : list of (int, int)
            The rows to which each rank adds.
        out : ndarray of shape (rows of the sum, owned columns)
            The sums of the owned columns.
        """
        out[:] = 0.0
        parts = self._parts_of(rows, [last - first for first, last in reach])
        for part, (first, last), places in zip(parts, reach, self._theirs, strict=True):
            for sums, numbers in zip(out[first:last], part, strict=True):
                _add(sums, places, numbers)

    def _parts_of(self, rows: Vector, heights: list[int]) -> list[Vector]:
        """Return what each rank adds to the columns of this rank."""
        group, rank = self.group, self.group.rank
        touched = self._ends[:, -1].tolist()
        largest = max(height * columns for height, columns in zip(heights, touched, strict=True))
        if group.area is None or largest > MAX_SHARED_DOUBLES:
            sent = np.concatenate([rows[:, a:b].ravel() for a, b in pairwise(self._ends[rank].tolist())])
            incoming = [height * count for height, count in zip(heights, self._asked, strict=True)]
            found = group.exchanged(sent, [len(rows) * count for count in self._wanted], incoming)
            pieces = np.split(found, np.cumsum(incoming)[:-1].tolist())
            return [part.reshape(height, -1) for part, height in zip(pieces, heights, strict=True)]
        places = group.area.places(largest)
        places[rank][: rows.size].reshape(rows.shape)[:] = rows
        group.meet()
        return [
            place[: height * columns].reshape(height, columns)[:, ends[rank] : ends[rank + 1]]
            for place, height, columns, ends in zip(places, heights, touched, self._ends, strict=True)
        ]


def _take(numbers: Vector, places: Index) -> Vector:
    return numbers[places] if isinstance(places, slice) else numbers.take(places, mode="clip")


def _add(sums: Vector, places: Index, numbers: Vector) -> None:
    if isinstance(places, slice):
        sums += numbers
    else:
        np.add.at(sums, places, numbers)


def _as_index(numbers: NDArray[np.float64] | NDArray[np.integer], width: int) -> Index:
    """Convert column numbers below ``width`` to a compact index."""
    if len(numbers) == width:
        return slice(None)
    return numbers.astype(index_type(width))
