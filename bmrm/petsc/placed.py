"""The rows of a rank on its device, with the columns that they touch, and what norms and diagonals need.

X itself is given away, so sums of its values are made before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from petsc4py import PETSc

from bmrm.base.vectors import Vector
from bmrm.errors import ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix.gpu.placement import place, with_fall_back
from bmrm.matrix.gpu.work import MatrixWork
from bmrm.matrix.petsc_rows import copy_rows
from bmrm.matrix.resident import (
    HostMatrix,
    KernelRequest,
    Matrix,
    PlacedMatrix,
    default_threads,
    place_matrix,
    validate_matrix,
)
from bmrm.petsc.bridge import make_vec, share_stream
from bmrm.petsc.columns import TouchedColumns

if TYPE_CHECKING:
    from bmrm.distributed.group import Group

CHUNK_VALUES = 1 << 22
"""Number of stored values that are summed at a time."""

Sizes = tuple[tuple[int, int], tuple[int, int]]


class Sums(NamedTuple):
    """Sums of the values of X, from which norms and diagonals are computed later."""

    squares: PETSc.Vec  # diagonal of X'X: the sum of squares of each column, over the rows of all ranks
    # Largest sum of absolute values of a column and of a row
    largest_column: float
    largest_row: float


class PlacedRows(NamedTuple):
    """The rows of this rank on their device."""

    matrix: Matrix
    device: str  # "cpu", or "cuda" and the name of the GPU
    sizes: Sizes  # numbers of rows of this rank and of all, and numbers of columns of this rank and of all
    columns: TouchedColumns | None  # None on one rank, which has all columns
    sums: Sums
    diagonal: Vector | None  # of the rows of this rank; None if X is not square

    def vec(self, sizes: tuple[int, int], comm: PETSc.Comm) -> PETSc.Vec:
        """Make a vector on the device of X, or on the host if PETSc has no CUDA."""
        return make_vec(sizes, comm, on_gpu=self.device != "cpu")


def place_rows(X: Any, comm: PETSc.Comm, columns: int | None, options: dict[str, Any]) -> PlacedRows:
    """Place the rows of this rank; collective.

    Parameters
    ----------
    X : Csr, scipy sparse matrix, ndarray or PETSc.Mat, of shape (m, d)
    comm : PETSc.Comm
    columns : int, optional
        Number of columns that this rank owns; default: as PETSc chooses.
    options : dict
        Keywords of `bmrm.petsc.resident_mat`: device, dtype, threads, gpu_mem, tune.
    """
    options = options.copy()
    options["kernels"] = KernelRequest(options.pop("tune", "best"))
    if comm.getSize() == 1:
        rows = _read(X)
        placed = place_matrix(rows, **options)
        m, d = rows.shape
        sizes, touched, first = ((m, m), (d, d)), None, 0
        diagonal = _find_diagonal(rows, 0) if m == d else None
    else:
        from bmrm.distributed.group import Group
        from bmrm.distributed.narrow import drop_untouched_columns

        group = Group(comm)
        with group.together():
            rows = _read(X)
        sizes, first = _lay_out(rows.shape, group, columns)
        diagonal = _find_diagonal(rows, first) if sizes[0][1] == sizes[1][1] else None
        with group.together():
            rows, found = drop_untouched_columns(rows)
        touched = TouchedColumns(found, sizes[1], comm)
        placed = _place_on_ranks(rows, group, options)
    share_stream(placed.matrix)
    sums = _sum(rows, placed.matrix, sizes[1], touched, comm)
    return PlacedRows(placed.matrix, placed.device, sizes, touched, sums, diagonal)


def _read(X: Any) -> HostMatrix:
    return validate_matrix(copy_rows(X) if isinstance(X, PETSc.Mat) else X)


def _lay_out(shape: tuple[int, int], group: Group, columns: int | None) -> tuple[Sizes, int]:
    """Return how rows and columns are distributed, and the number of the first row of this rank."""
    shapes = group.everyones(shape)
    fewest, largest = min(d for _, d in shapes), max(d for _, d in shapes)
    if fewest != largest:
        raise ParameterError(
            f"X: found {fewest} columns on one rank and {largest} on another, expected the same number"
        )
    if columns is None:
        columns = largest // group.size + (group.rank < largest % group.size)
    heights = [m for m, _ in shapes]
    return ((shape[0], sum(heights)), (columns, largest)), sum(heights[: group.rank])


def _place_on_ranks(rows: HostMatrix, group: Group, options: dict[str, Any]) -> PlacedMatrix:
    """Place the rows of each rank, on GPUs on all ranks or on none."""
    size = rows.nnz if isinstance(rows, Csr) else rows.size
    device = options.pop("device", "auto")
    where = place(device, None, MatrixWork(sum(group.everyones(size)) // group.size), group=group)
    if options.get("threads") is None:
        options["threads"] = min(group.cores, default_threads(size))

    def on_cpu() -> PlacedMatrix:
        return place_matrix(rows, device="cpu", **options)

    def on_gpu(number: int) -> tuple[PlacedMatrix, str]:
        return place_matrix(rows, device=f"cuda:{number}", **options), ""

    with group.together():
        placed = with_fall_back(where, on_cpu, on_gpu)[0]
    if len(set(group.everyones(placed.device == "cpu"))) > 1:  # the rows of some rank did not fit
        with group.together():
            placed = on_cpu()
    return placed


def _find_diagonal(X: HostMatrix, first: int) -> Vector:
    """Return the values of row i in column first + i."""
    values = (X.to_scipy() if isinstance(X, Csr) else X).diagonal(first)
    return np.asarray(values, np.float64)


def _sum(
    X: HostMatrix, resident: Matrix, sizes: tuple[int, int], touched: TouchedColumns | None, comm: PETSc.Comm
) -> Sums:
    m, d = X.shape
    columns, row = np.zeros(d), 0.0
    if isinstance(X, np.ndarray):
        step = max(1, CHUNK_VALUES // d)
        for start in range(0, m, step):
            part = np.abs(X[start : start + step]).astype(np.float64)
            columns += part.sum(axis=0)
            row = max(row, float(part.sum(axis=1).max()))
    else:
        for start in range(0, X.nnz, CHUNK_VALUES):
            indices = X.indices[start : start + CHUNK_VALUES]
            values = np.ones(len(indices)) if X.data is None else X.data[start : start + CHUNK_VALUES]
            columns += np.bincount(indices, np.abs(values).astype(np.float64), d)
        row = _largest_row(X)
    squares, absolute = (
        _over_ranks(part, sizes, touched, comm) for part in (m * resident.mean_squares, columns)
    )
    return Sums(squares, float(absolute.max()[1]), _largest_over_ranks(row, comm))


def _largest_row(X: Csr) -> float:
    if not X.nnz:
        return 0.0
    if X.data is None:
        return float(np.diff(X.indptr).max())
    sizes = np.concatenate([[0.0], np.cumsum(np.abs(X.data), dtype=np.float64)])
    return float((sizes[X.indptr[1:]] - sizes[X.indptr[:-1]]).max())


def _over_ranks(
    values: npt.NDArray[np.float64],
    sizes: tuple[int, int],
    touched: TouchedColumns | None,
    comm: PETSc.Comm,
) -> PETSc.Vec:
    """Sum a vector over this rank's columns over the ranks; return it in PETSc's distribution."""
    vec = make_vec(sizes, comm, on_gpu=False)
    if touched is None:
        vec.setArray(values)
        return vec
    local = touched.local(vec)
    local.setArray(values)
    touched.add_up(local, vec)
    return vec


def _largest_over_ranks(value: float, comm: PETSc.Comm) -> float:
    one = PETSc.Vec().createMPI((1, None), comm=comm)
    one.set(value)
    return float(one.max()[1])
