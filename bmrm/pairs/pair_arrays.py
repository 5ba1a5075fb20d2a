"""Dissimilarities or weights of all pairs of points, as users pass them: checked, at least 0 and symmetric.

They are a square matrix, of which the upper triangle is read, or that triangle row by row as SciPy's
``pdist`` returns it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.vectors import Vector
from bmrm.distributed.ranks import ALONE, AllRanks
from bmrm.errors import DataError
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import import_cuda
from bmrm.pairs._pairs import DEFECTS, INSPECTED_ROWS, inspect_pairs
from bmrm.pairs.passes import own_rows

MAX_ASYMMETRY = {4: 1e-5, 8: 1e-10}
"""Maximum difference of the entries of a pair, as a share of the largest entry, by the bytes of a value."""

MAX_DIAGONAL = {4: 1e-3, 8: 1e-6}
"""The same of numbers on the diagonal: roots of what rounding has left of 0 are as large as these."""


@dataclass(frozen=True)
class PairArray:
    """One number per pair.

    Attributes
    ----------
    values : array of float32 or float64, shape (n, n) or (n (n - 1) / 2,)
        In main memory or on a GPU.
    n : int
    largest : float
    missing : bool
        Whether some are NaN.
    """

    values: NDArray[Any] | DeviceArray
    n: int
    largest: float
    missing: bool

    def upper(self, i: int) -> NDArray[Any]:
        """Return the numbers of the pairs of a row with later ones, in main memory."""
        if self.values.ndim == 2:
            return self.values[i : i + 1][0, i + 1 :]
        first = i * (2 * self.n - i - 1) // 2
        return self.values[first : first + self.n - 1 - i]

    def condensed(self) -> Vector:
        """Return the upper triangle row by row in float64, as a copy."""
        out = np.empty(self.n * (self.n - 1) // 2)
        made = PairArray(out, self.n, self.largest, self.missing)
        for i in range(self.n - 1):
            made.upper(i)[:] = self.upper(i)
        return out


def read_pairs(
    what: str,
    given: Any,
    *,
    nan_allowed: bool,
    diagonal: bool,
    threads: int | None,
    ranks: AllRanks = ALONE,
) -> PairArray:
    """Validate numbers of pairs: at least 0, finite, symmetric up to rounding.

    Ranks have the same numbers each, for example in a mapped file, of which each looks at some rows.

    - ``nan_allowed``: NaN means unknown
    - ``diagonal``: the diagonal must be 0 up to rounding; otherwise it is not looked at
    """
    with ranks.together():
        values, n = _as_pairs(what, given)
    _check_alike(what, values, ranks)
    some = own_rows(n, INSPECTED_ROWS, ranks)
    own = _rows_of(values, n, *some)
    largest = max(ranks.everyones(float(np.fmax.reduce(own, axis=None, initial=0.0))))
    size = largest
    if not largest < np.inf:
        size = max(ranks.everyones(float(own.max(initial=0.0, where=np.isfinite(own)))))
    defect, row, column, value, other, _, missing = inspect_pairs(
        values,
        n,
        nan_allowed=nan_allowed,
        diagonal=MAX_DIAGONAL[values.itemsize] * size if diagonal else -1.0,
        tolerance=MAX_ASYMMETRY[values.itemsize] * size,
        threads=threads,
        rows=some,
    )
    found = ranks.everyones((row, column, defect, value, other, missing))
    row, column, defect, value, other, _ = min((each for each in found if each[2]), default=found[0])
    raise_defect(what, defect, (row, column), value, other)
    return PairArray(values, n, largest, any(each[-1] for each in found))


def _as_pairs(what: str, given: Any) -> tuple[NDArray[Any], int]:
    """Return numbers of pairs as compiled code reads them, and the number of points."""
    if arguments.is_sparse(given):
        raise DataError(f"{what}: found a sparse matrix, expected a dense one or its upper triangle")
    found = arguments.array(what, given, expected="numbers of pairs")
    if found.ndim == 1:
        found = found if found.dtype == np.float32 else arguments.numbers(what, found)
    else:
        found = arguments.matrix(what, given)
    n = points_of(what, found.shape)
    if found.ndim == 2 and found.flags.f_contiguous:
        found = found.T  # it should be symmetric
    return np.ascontiguousarray(found), n


def _rows_of(values: NDArray[Any], n: int, first: int, last: int) -> NDArray[Any]:
    """Return the numbers of some rows of a square matrix, or of its upper triangle row by row."""
    if values.ndim == 2:
        return values[first:last]
    return values[first * (2 * n - first - 1) // 2 : last * (2 * n - last - 1) // 2]


def _check_alike(what: str, values: Any, ranks: AllRanks) -> None:
    """Raise unless all ranks have numbers of one shape and type."""
    kinds = ranks.everyones(f"shape {values.shape} of {values.dtype}")
    for rank, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DataError(
                f"{what}: found {kinds[0]} on rank 0 and {kind} on rank {rank}, expected the same on all"
            )


def read_resident_pairs(
    what: str,
    given: Any,
    *,
    nan_allowed: bool,
    diagonal: bool,
    threads: int | None,
    ranks: AllRanks = ALONE,
) -> PairArray:
    """Validate numbers of pairs as `read_pairs` does, those on the GPU there: each rank all that it has."""
    there = ranks.everyones(arguments.is_on_device(given))
    if any(there) and not all(there):
        raise DataError(f"{what}: found numbers on the GPUs of some ranks, expected those of all or of none")
    if not there[0]:
        return read_pairs(
            what, given, nan_allowed=nan_allowed, diagonal=diagonal, threads=threads, ranks=ranks
        )
    with ranks.together():
        found = _read_there(what, given, nan_allowed=nan_allowed, diagonal=diagonal)
    _check_alike(what, found.values, ranks)
    return found


def _read_there(what: str, given: Any, *, nan_allowed: bool, diagonal: bool) -> PairArray:
    values = DeviceArray(what, given, None, (np.float32, np.float64))
    n = points_of(what, values.shape)
    kind, row, column, value, other, largest, missing = import_cuda().inspect_resident_pairs(
        values,
        n,
        nan_allowed=nan_allowed,
        diagonal=MAX_DIAGONAL[values.dtype.itemsize] if diagonal else -1.0,
        asymmetry=MAX_ASYMMETRY[values.dtype.itemsize],
        device=values.device,
    )
    raise_defect(what, DEFECTS[kind], (row, column), value, other)
    return PairArray(values, n, largest, missing)


def points_of(what: str, shape: tuple[int, ...]) -> int:
    """Return the number of points of a square matrix of pairs, or of its upper triangle row by row."""
    if len(shape) == 1:
        n = (1 + int(np.sqrt(1.0 + 8.0 * shape[0]) + 0.5)) // 2
        if n * (n - 1) // 2 != shape[0]:
            raise DataError(f"{what}: found {shape[0]} numbers, expected n (n - 1) / 2 for n points")
        return n
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise DataError(f"{what}: found shape {shape}, expected a square matrix with at least 1 row")
    return shape[0]


def raise_defect(what: str, defect: str, at: tuple[int, int], value: float, other: float) -> None:
    """Raise `DataError` for what `inspect_pairs` has found, if it is something."""
    if defect:
        row, column = at
        text = f"{what}: row {row + 1}, column {column + 1} has {value:g}"
        raise DataError(
            {
                "negative": f"{text}, expected at least 0",
                "infinite": f"{text}, expected a finite number",
                "asymmetric": f"{text}, and row {column + 1}, column {row + 1} has {other:g}: "
                "expected a symmetric matrix",
                "diagonal": f"{text}, expected 0 on the diagonal, up to rounding",
                "missing": f"{text}, expected a number",
            }[defect]
        )
