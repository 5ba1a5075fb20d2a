"""The decorator of row functions, and what it makes of one."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar, cast

from bmrm.base import arguments
from bmrm.base.notices import warn
from bmrm.errors import BmrmError, DeviceMemoryError, ParameterError, ReductionError
from bmrm.formulas import native
from bmrm.formulas.driver import device as driver_device
from bmrm.formulas.nvrtc import load_nvrtc
from bmrm.formulas.source import read_source
from bmrm.matrix.device_arrays import DeviceArray
from bmrm.matrix.gpu.devices import parse_device
from bmrm.reductions.binding import Binder, Call
from bmrm.reductions.cost import predict_seconds
from bmrm.reductions.device.choose import Placement, place
from bmrm.reductions.device.work import reduction_work
from bmrm.reductions.explain import explain_call, explain_program
from bmrm.reductions.gpu import GpuPasses
from bmrm.reductions.host import MAX_PLAIN_SECONDS, HostPasses, part_bounds, result_bytes, run_plain
from bmrm.reductions.rows import AnyRows, DeviceRows, read_rows

F = TypeVar("F", bound=Callable[..., Any])

ORDERS = ("fixed", "any")
TARGETS = ("cpu", "cuda")
DATASET_CALLS = 10
"""Number of calls with the same data set that are expected: they share its upload."""


def _refuses_deep_text(method: F) -> F:
    """Make a method raise `ReductionError` for expressions that are too deep for the printers of code."""

    @functools.wraps(method)
    def checked(self: Reduction, /, *words: Any, **keywords: Any) -> Any:
        try:
            return method(self, *words, **keywords)
        except RecursionError:
            raise ReductionError(
                f"{self._source.name}: found too deeply nested text, "
                "expected shorter expressions, with names for their parts"
            ) from None

    return cast(F, checked)


class Reduction:
    """A row function that can be called on all rows of a matrix at once; see `reduction`.

    Calling it runs one pass over the rows.

    Parameters
    ----------
    function : function
        See `reduction`.

    Raises
    ------
    ReductionError
        If the function is not a row function: names its line, what was found and what is allowed.

    Examples
    --------
    >>> from bmrm.reductions import Reduction
    >>> Reduction(3)
    Traceback (most recent call last):
    bmrm.errors.ReductionError: reduction: found an object of type int, expected a function defined by def
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._source = read_source(function)
        self._binder = Binder(self._source)
        self._host = HostPasses(self._source)
        self._gpu = GpuPasses(self._source)
        self.results: tuple[str, ...] = tuple(a.name for a in self._binder.general.results())
        """Names of the results."""
        self._tuple = _results_type(function.__name__, self.results)
        functools.update_wrapper(self, function)
        self._name = function.__qualname__

    def __reduce__(self) -> str:
        return self._name  # pickled by name, as functions are; a copy is the reduction itself

    def __repr__(self) -> str:
        return f"<reduction {self._source.name}: {', '.join(self.results)}>"

    @_refuses_deep_text
    def __call__(
        self,
        data: Any,
        /,
        *,
        device: str = "auto",
        threads: int | None = None,
        order: str = "fixed",
        keep: bool = False,
        **words: Any,
    ) -> Any:
        """Run a pass over the rows.

        Parameters
        ----------
        data : ndarray, memmap, SciPy sparse matrix, Csr, Data, Dataset or array on a GPU, shape (n, d)
            The rows. float32 rows are computed with in float32, all others in float64; sums are in float64.
            For a GPU, rows in main memory are uploaded in each call, those of a `bmrm.Dataset` once: they
            stay as long as it exists. A dense data set on a GPU is read in place.
        device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
            "auto" is the GPU that holds the rows. For rows in main memory it is a GPU if that is predicted to
            be faster, upload included, and else the CPU, as on several ranks; `explain` says which and why.
        threads : int, optional
            Default: the cores that this process may use, or one if the pass is short.
        order : {"fixed", "any"}, default "fixed"
            "fixed" gives the same bits for any number of threads, and of ranks whose rows fall whole into
            parts: `explain` says whether they do. "any" may save time and memory if results are large. On a
            GPU both give the same bits in each call with the same rows, and on ranks with the same rows each.
        keep : bool, default False
            Whether results stay on the GPU, as parameters of the next call: arrays with
            ``__cuda_array_interface__``, which other libraries read too; minima and maxima are float64 there.
            Not on several ranks. On the CPU they always stay.
        **words
            The parameters of the row function by name, and sizes that no parameter has, as ``bins=32``. A
            parameter that the function reads as one number may be a number, or an array with one per row.

        Returns
        -------
        namedtuple
            The results by name. Sums of real numbers are float64, of whole numbers int64. Of no rows, a sum
            is 0, a minimum infinity, and what is set with it -1 or NaN.

        Raises
        ------
        ReductionError
            If arguments do not fit the row function, or an index in it is outside of its array.
        DataError
            If the rows are not a matrix of real numbers.
        HostMemoryError
            If the results do not fit into main memory.
        DeviceMemoryError
            If rows and results do not fit into the memory of a GPU.
        BmrmError
            If llvmlite is not installed, and the plain Python loop would take longer than 10 s; for a GPU, if
            there is none, or no NVRTC.
        """
        _check_options(device, threads, order, keep)
        rows = read_rows(data)
        known = place(device, _held(rows))
        with rows.ranks.group.together() if rows.ranks else nullcontext():
            call = self._binder.bind(rows, words, gpu=known.gpu is not None)
        placed = _predict_place(call, threads) if device == "auto" and known.gpu is None else known
        placed.log()
        if placed.gpu is not None:
            try:
                return self._tuple(**self._gpu.run(call, placed.gpu, keep))
            except DeviceMemoryError as error:
                if placed is known:
                    raise
                warn(f"device='auto': {error}; using the CPU")
        if native.can_compile():
            found = self._host.run(call, threads, order)
        else:
            found = run_plain(self._source, call, limit=MAX_PLAIN_SECONDS)
        return self._tuple(**found)

    @_refuses_deep_text
    def python(self, data: Any, /, **words: Any) -> Any:
        """Run a pass as a plain Python loop over the rows, for tests and debuggers.

        Parameters
        ----------
        data, **words
            As in a call.

        Returns
        -------
        namedtuple
            As of a call, up to rounding: sums add one row after the other.
        """
        return self._tuple(**run_plain(self._source, self._call(data, words)))

    @_refuses_deep_text
    def explain(self, data: Any = None, /, **words: Any) -> str:
        """Explain the roles of the arguments, and how a call would run.

        Parameters
        ----------
        data, **words : optional
            As in a call. Without them only what the text of the function says is explained.

        Returns
        -------
        str
            A line per argument and local; with data also how the rows are computed, the work per row and the
            predicted time.
        """
        if data is None:
            return explain_program(self._source, self._binder.general)
        call = self._call(data, words)
        there = _held(call.rows)
        placed = _predict_place(call) if there is None else place("auto", there)
        return f"{explain_call(self._source, call)}\n{placed}"

    @_refuses_deep_text
    def source(self, target: str, data: Any, /, **words: Any) -> str:
        """Return the code that a call would run.

        Parameters
        ----------
        target : {"cpu", "cuda"}
        data, **words
            As in a call: types and sizes are part of the code.

        Returns
        -------
        str
            LLVM's text before optimisation, or CUDA C++.

        Raises
        ------
        BmrmError
            For "cpu", if llvmlite is not installed.
        """
        if target not in TARGETS:
            raise ParameterError(f"source: found {target!r}, expected {' or '.join(TARGETS)}")
        if target == "cpu" and not native.can_compile():
            raise BmrmError(
                f"{self._source.name}: found no compiler for the CPU; pip install bmrm[reductions] adds one"
            )
        call = self._call(data, words)
        return (self._host.code_of(call) if target == "cpu" else self._gpu.code_of(call)).text

    def _call(self, data: Any, words: dict[str, Any]) -> Call:
        rows = read_rows(data)
        return self._binder.bind(rows, words, gpu=isinstance(rows, DeviceRows))


def reduction(function: Callable[..., Any]) -> Reduction:
    """Make a reduction of a row function.

    Parameters
    ----------
    function : function
        A plain Python function of one row. What it only reads is a parameter, what it writes is a result.

    Returns
    -------
    Reduction

    Raises
    ------
    ReductionError
        If the function is not a row function.

    References
    ----------
    W. Ma and G. Agrawal, A translation system for enabling data mining applications on GPUs, ICS 2009.

    Examples
    --------
    >>> from bmrm.reductions import reduction
    >>> @reduction
    ... def moments(x, total: "d", squares: "d", largest):
    ...     for f in range(len(x)):
    ...         total[f] += x[f]
    ...         squares[f] += x[f] ** 2
    ...         largest = max(largest, x[f])
    >>> found = moments([[1.0, 2.0], [3.0, 5.0]])
    >>> found.total, found.squares, float(found.largest)
    (array([4., 7.]), array([10., 29.]), 5.0)
    """
    return Reduction(function)


@functools.cache
def _results_type(name: str, fields: tuple[str, ...]) -> Any:
    """Return the type of the results of a reduction; they can be pickled, though no module has the type."""
    found = namedtuple(name, fields)  # type: ignore[misc]

    def reduced(results: tuple[Any, ...]) -> tuple[Any, ...]:
        return _results_of, (name, fields, tuple(results))

    setattr(found, "__reduce__", reduced)  # noqa: B010 (mypy knows another type)
    return found


def _results_of(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _results_type(name, fields)(*values)


def _held(rows: AnyRows) -> DeviceArray | None:
    """Return the array of rows that are on a GPU."""
    return rows.array if isinstance(rows, DeviceRows) else None


def _predict_place(call: Call, threads: int | None = None) -> Placement:
    """Decide where a call with rows in main memory runs, by its predicted times."""
    if not native.can_compile():
        return Placement(None, "times are predicted for compiled code, and llvmlite is not installed")
    rows = call.rows
    uploaded: float = rows.nbytes
    if not isinstance(rows, DeviceRows) and rows.held is not None:
        uploaded = 0.0 if rows.held else uploaded / DATASET_CALLS
    parts, there = len(part_bounds(call)) - 1, rows.nbytes + result_bytes(call)
    work = reduction_work(predict_seconds(call, 1), parts, uploaded, there, threads)
    if rows.ranks and rows.ranks.group.size > 1:
        return Placement(None, "rows on several ranks have the same bits for any number of them on CPUs")
    return place("auto", None, work, available=_usable_gpu)


def _usable_gpu() -> dict[str, Any] | None:
    """Return what the choice needs of the first GPU; None if there is none, or no compiler for it."""
    try:
        load_nvrtc()
        found = driver_device(0)
        return {"multiprocessors": found.multiprocessors, "free_bytes": found.free_bytes()}
    except BmrmError:
        return None


def _check_options(device: str, threads: int | None, order: str, keep: bool) -> None:
    parse_device(device)
    if threads is not None and arguments.integer("threads", threads) < 1:
        raise ParameterError(f"threads: found {threads}, expected at least 1")
    if order not in ORDERS:
        raise ParameterError(f"order: found {order!r}, expected one of {', '.join(ORDERS)}")
    if not isinstance(keep, bool):
        raise ParameterError(f"keep: found {keep!r}, expected True or False")
