"""Points: validated once, kept by axes in float64, and placed on a device when a count needs them there."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm.base import arguments
from bmrm.base.host_memory import require_memory
from bmrm.base.vectors import Vector
from bmrm.distributed.ranks import ranks_of
from bmrm.distributed.rows import DenseRows, DeviceRows, StoredRows
from bmrm.errors import DataError, ParameterError
from bmrm.matrix.gpu.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import import_cuda, parse_device
from bmrm.matrix.gpu.placement import gpu_that_has

if TYPE_CHECKING:
    from bmrm.distributed.group import Group
    from bmrm.pairs.passes import PairPasses

COORDINATE_BYTES = 24
"""Memory of a coordinate while it is converted: as given, by axes, and placed."""


class KeptRows:
    """Rows as they were given, which stay on the GPUs to which they are copied.

    Attributes
    ----------
    array : ndarray or DeviceArray
        Of float32 or float64, shape (n, d).
    """

    gpu = None
    """No GPU had them."""

    def __init__(self, array: Any, threads: int | None = None) -> None:
        self.array, self._threads = array, threads
        self._there: dict[int, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_there": {}}

    def __len__(self) -> int:
        return len(self.array)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        found: tuple[int, int] = self.array.shape
        return found

    def on_host(self) -> Vector:
        """Return them in float64 in main memory."""
        return np.ascontiguousarray(self.array, np.float64)

    def rows_on(self, number: int) -> Any:
        """Return them on the GPU of a CUDA number, as `Points.rows_on`."""
        if number not in self._there:
            self._there[number] = import_cuda().DenseRows(self.array, device=number, threads=self._threads)
        return self._there[number]


class Points:
    """Points in space, converted and sorted once for many counts.

    Parameters
    ----------
    x : array, shape (n, d)
        Coordinates, finite: of NumPy, a memory-mapped file, a data frame, any library with DLPack, or on a
        GPU. They count as float64. They need not be inside the box.
    box : float or array, shape (d,), optional
        Lengths of a periodic box; 0 or infinity for an axis that is open. By default all are open.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
        Where pairs of these points are counted.
    threads : int, optional
        Maximum number of threads; by default all cores. No count depends on it.
    comm : mpi4py.MPI.Comm or PETSc.Comm, optional
        Ranks that count together. Each passes its own points; the points of all of them are meant.

    Attributes
    ----------
    shape : (int, int)
        Number of points, of all ranks, and of axes.
    box : ndarray of float64, shape (d,)
        Lengths of the axes; 0 for an open one.
    device : str
    threads : int or None
    real : type
        `numpy.float32` if x was given in this type, else `numpy.float64`: functions of points compute in it.

    Raises
    ------
    DataError
        If x is not a matrix of finite numbers.
    ParameterError
        If the box does not fit.

    Examples
    --------
    >>> from bmrm import pairs
    >>> points = pairs.Points([[0.1, 0.2], [0.9, 0.2]], box=1.0)
    >>> points.shape, pairs.count(points, radius=0.25)
    ((2, 2), 1)
    >>> points.rows(np.float64, False).shape
    (2, 2)
    """

    def __init__(
        self, x: Any, *, box: Any = None, device: str = "auto", threads: int | None = None, comm: Any = None
    ) -> None:
        parse_device(device)
        self.device, self.threads = device, None if threads is None else read_threads(threads)
        self._group = ranks_of(comm).group
        self._gpu: int | None = None
        self._there: DeviceArray | None = None
        self.real: type[np.floating[Any]] = np.float64
        self._coordinates: Vector | None = None
        self._placed: dict[str, Any] = {}
        self._rows: dict[type[np.floating[Any]], StoredRows] = {}
        self._kept: KeptRows | None = None
        self._lock = threading.Lock()
        if self._group is None:
            self._there = _resident(x)
            if self._there is None:
                self._coordinates = self._read(x)
        else:
            with self._group.together():
                here = self._read(x)
            self._coordinates = _of_all_ranks(here, self._group)
        if self._there is not None and self._there.dtype == np.float32:
            self.real = np.float32
        shape = self._there.shape if self._there is not None else self.coordinates.shape[::-1]
        self.shape = (shape[0], shape[1])
        self.box = read_box(box, self.shape[1])
        if self._group is not None and len({each.tobytes() for each in self._group.everyones(self.box)}) > 1:
            raise ParameterError("box: found different lengths on the ranks, expected the same on all")
        if self._there is not None:
            self._place_resident(self._there)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"<Points: {self.shape[0]} in {self.shape[1]} dimensions>"

    @property
    def group(self) -> Group | None:
        """The ranks that count together."""
        return self._group

    @property
    def gpu(self) -> int | None:
        """Number of the GPU that x was on; None if it was in main memory."""
        return self._gpu

    @property
    def coordinates(self) -> Vector:
        """Coordinates by axes, shape (d, n)."""
        if self._coordinates is None:
            assert self._there is not None
            self._coordinates = _by_axes(self._there.numpy())
        return self._coordinates

    @property
    def half_period(self) -> float:
        """Half the shortest periodic length; infinity if all axes are open."""
        return float(self.box[self.box > 0.0].min(initial=np.inf)) / 2.0

    def placed(self, passes: PairPasses) -> Any:
        """Return the points on a device, placed there at the first call.

        Parameters
        ----------
        passes : PairPasses
            The device.

        Returns
        -------
        object
            As `PairPasses.place` returns it.
        """
        with self._lock:
            found = self._placed.get(passes.device)
            if found is None:
                coordinates, box = self.coordinates, self.box
                if not self.shape[1]:  # points without coordinates have no distances
                    coordinates, box = np.empty((1, 0)), np.zeros(1)
                found = self._placed[passes.device] = passes.place(coordinates, box)
            return found

    def rows(self, kind: type[np.floating[Any]], there: bool) -> StoredRows:
        """Return the points as rows of a type, made once.

        Rows in main memory stay on a GPU to which they are copied.

        Parameters
        ----------
        kind : type
            float32 or float64 of NumPy.
        there : bool
            Whether points on a GPU are read where they are.

        Returns
        -------
        StoredRows, shape (n, d)
        """
        if there and self._there is not None and self._there.dtype == kind:
            return DeviceRows(self._there)
        with self._lock:
            if kind not in self._rows:
                require_memory(self.shape[0] * self.shape[1] * np.dtype(kind).itemsize, "the points by rows")
                self._rows[kind] = DenseRows(np.ascontiguousarray(self.coordinates.T, kind), {})
            return self._rows[kind]

    def rows_on(self, number: int) -> Any:
        """Return the points by rows on a GPU, copied there at the first call if they are not there.

        Parameters
        ----------
        number : int
            The CUDA number of the GPU.

        Returns
        -------
        bmrm.matrix._cuda.DenseRows
            Shape (n, d), float32 or float64.

        Raises
        ------
        DeviceMemoryError
            If they do not fit there.
        """
        rows = self.rows(self.real, True)
        with self._lock:
            if self._kept is None:
                self._kept = KeptRows(rows.block(slice(0, len(rows))), self.threads)
            return self._kept.rows_on(number)

    def on_host(self) -> Vector:
        """Return the points by rows in float64 in main memory."""
        found: Vector = self.rows(np.float64, False).given
        return found

    @functools.cached_property
    def extents(self) -> tuple[Vector, Vector]:
        """The least and the largest coordinate on each axis, of at least one point."""
        if self._there is not None:
            low, high = self._placed[f"cuda:{self._gpu}"].extents
            return low, high
        return self.coordinates.min(axis=1), self.coordinates.max(axis=1)

    def _place_resident(self, x: DeviceArray) -> None:
        from bmrm.pairs.gpu import DevicePairs

        passes = DevicePairs(x.device)
        self._gpu = x.device
        self._placed[passes.device] = passes.place_resident(x, self.box)

    def _read(self, x: Any) -> Vector:
        if arguments.is_on_device(x):
            array = DeviceArray("x", x, 2, None, any_order=True)
            self._gpu = gpu_that_has(array)
            given = array.numpy()
            if given.dtype.kind not in "fiub":
                raise DataError(f"x: found {given.dtype} on a GPU, expected real numbers")
        else:
            given = arguments.matrix("x", x)
        if given.dtype == np.float32:
            self.real = np.float32
        found = _by_axes(given)
        arguments.check_finite("x", found.T)
        return found


def _resident(x: Any) -> DeviceArray | None:
    """Return points on a GPU that can be read where they are: by rows, at least one; None for others."""
    if not arguments.is_on_device(x):
        return None
    found = DeviceArray("x", x, 2, None, any_order=True)
    known = found.dtype in (np.float32, np.float64) and found.by_rows and found.size
    return found if known else None


def _by_axes(given: Any) -> Vector:
    require_memory(given.size * COORDINATE_BYTES, "the points")
    return np.ascontiguousarray(given.T, np.float64)


def read_points(
    x: Any, y: Any, device: str | None, threads: int | None, comm: Any, second: str = "y"
) -> tuple[Points, Points | None]:
    """Make points of the arguments of a count, those of y in the box of x, and check that they fit.

    - ``second``: what messages call y
    """
    known = next((each for each in (x, y) if isinstance(each, Points)), None)
    if known is not None and comm is not None:
        raise ParameterError("comm: found with Points, expected it as an argument of Points alone")
    if known is None:
        known = x = Points(x, device=device or "auto", threads=threads, comm=comm)
    a, b = (
        each if each is None or isinstance(each, Points) else _in_box_of(known, each, name)
        for name, each in (("x", x), (second, y))
    )
    assert a is not None
    if b is None:
        return a, None
    if a.shape[1] != b.shape[1]:
        raise DataError(f"{second}: found {b.shape[1]} columns, expected {a.shape[1]} as in x")
    if a.box.tolist() != b.box.tolist():
        raise ParameterError(
            f"{second}: found a box of {_box_text(b.box)}, expected {_box_text(a.box)} as in x"
        )
    if (a.group is None) != (b.group is None):
        raise ParameterError(
            f"{second}: found points of one rank and of several, expected comm for both or for none"
        )
    return a, b


def _in_box_of(other: Points, given: Any, name: str) -> Points:
    """Make points in the box of others, which must have as many axes."""
    try:
        found = Points(given, device=other.device, threads=other.threads, comm=other.group)
    except DataError as error:
        raise type(error)(f"{name}: {str(error).removeprefix('x: ')}") from None
    found.box = other.box
    return found


def _box_text(box: Vector) -> str:
    return ", ".join(f"{length:g}" for length in box) if box.any() else "open axes"


def read_box(box: Any, axes: int) -> Vector:
    """Validate the lengths of a periodic box; 0 is an open axis."""
    if box is None:
        return np.zeros(axes)
    given = arguments.numbers("box", box, ParameterError, expected="lengths of the axes")
    if given.ndim == 0:
        given = np.full(axes, float(given))
    if given.shape != (axes,):
        raise ParameterError(f"box: found shape {given.shape}, expected ({axes},), one length per axis")
    if not (given >= 0.0).all():
        bad = given[~(given >= 0.0)][0]
        raise ParameterError(f"box: found {bad:g}, expected lengths of at least 0 (0: an open axis)")
    return np.where(np.isinf(given), 0.0, given) + 0.0


def read_threads(threads: Any) -> int:
    """Validate a number of threads."""
    from bmrm.base.threads import MAX_THREADS

    found = arguments.positive_integer("threads", threads)
    if found > MAX_THREADS:
        raise ParameterError(f"threads: found {found}, expected at most {MAX_THREADS}")
    return found


def _of_all_ranks(here: Vector, group: Group) -> Vector:
    """Return the points of all ranks by axes, in rank order."""
    shapes = group.everyones(here.shape)
    axes = {d for d, _ in shapes}
    if len(axes) > 1:
        raise DataError(f"x: found {min(axes)} columns on one rank and {max(axes)} on another")
    bounds = np.concatenate([[0], np.cumsum([n for _, n in shapes])]).astype(np.int64)
    with group.together():
        require_memory(int(bounds[-1]) * here.shape[0] * COORDINATE_BYTES, "the points of all ranks")
    return np.array([group.gathered(axis, bounds) for axis in here]).reshape(here.shape[0], int(bounds[-1]))
