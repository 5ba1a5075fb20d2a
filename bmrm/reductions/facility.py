"""The decorators of row functions and of operators, and what they make of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bmrm.base import arguments
from bmrm.distributed.reading import read_rows
from bmrm.errors import ParameterError, ReductionError
from bmrm.formulas.language.combination import read_operator
from bmrm.formulas.language.operators import GREATEST_INT, LEAST_INT, FunctionOperator, operator_of
from bmrm.formulas.run.function import CompiledFunction, refuses_deep_text
from bmrm.matrix.gpu.devices import parse_device

ORDERS = ("fixed", "any")


class Reduction(CompiledFunction):
    """A row function that can be called on all rows of a matrix at once; see `bmrm.reduction`.

    Calling it runs one pass over the rows.

    Parameters
    ----------
    function : function
        See `bmrm.reduction`.
    source : FunctionSource, optional
        The text of the function, if it has been read.
    contract : bool, default True
        Whether a product and a sum may become one operation with one rounding.

    Raises
    ------
    ReductionError
        If the function is not a row function: names its line, what was found and what is allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.distributed.reading import read_row_set
    >>> from bmrm.reductions import Reduction, reduction
    >>> @reduction
    ... def total(row, out: "d"):
    ...     for f in range(len(row)):
    ...         out[f] += row[f]
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> total(X).out, total.python(X).out
    (array([4., 6.]), array([4., 6.]))
    >>> total.run(read_row_set(X), {}, "cpu", None, "fixed", False).out
    array([4., 6.])
    >>> "result, sum" in total.explain(X), "define" in total.source("cpu", X)
    (True, True)
    >>> Reduction(3)
    Traceback (most recent call last):
    bmrm.errors.ReductionError: reduction: found an object of type int, expected a function defined by def
    """

    @refuses_deep_text
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
            stay as long as it exists. A dense data set on a GPU is read in place, and of a sparse one the
            first call rebuilds compressed rows there. Rows may be larger than the GPU's memory.
        device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
            "auto" is the GPU that holds the rows. For rows in main memory it is a GPU if that is predicted to
            be faster, upload included, and else the CPU, as on several ranks; `explain` says which and why.
            With "cuda" the ranks of a machine take its GPUs in turn.
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
            parameter without a shape in its annotation may be a number or an array for all rows, or have one
            more dimension, the first, with one for each row.

        Returns
        -------
        namedtuple
            The results by name. Sums of real numbers are float64, of integers int64. Of no rows, a sum
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
            If results and two blocks of rows do not fit into the memory of a GPU.
        BmrmError
            If llvmlite is not installed, and the plain Python loop would take longer than 10 s; for a GPU, if
            there is none, or no NVRTC.
        """
        _check_options(device, threads, order, keep)
        return self.run(read_rows(data), words, device, threads, order, keep)


def reduction(function: Callable[..., Any]) -> Reduction:
    """Make a reduction from a row function.

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


def operator(*, init: float) -> Callable[[Callable[[Any, Any], Any]], FunctionOperator]:
    """Make a reduction operator from a function of two numbers.

    A row function that writes ``out = f(out, e)`` combines ``out`` by the operator f, which is compiled as a
    row function is, and works in float64 or with integers of 64 bits. You guarantee that f is
    associative and commutative: values are combined in an order that is fixed, but not that of the rows.

    Parameters
    ----------
    init : int or float
        The result of no rows, which must change nothing: ``f(init, e) == e``. With a float, results are real
        numbers; with an int, they are whole ones.

    Returns
    -------
    callable
        Takes a function and returns the operator, which can be called as the function.

    Raises
    ------
    ReductionError
        If the function does not combine two numbers, or has something that a row function cannot have, or
        integers divided or shifted by something that is not a constant.

    Examples
    --------
    >>> from bmrm.reductions import operator, reduction
    >>> @operator(init=0.0)
    ... def either(a, b):
    ...     return a + b - a * b  # the probability that at least one of two independent events occurs
    >>> @reduction
    ... def any_event(x, p: "d"):
    ...     for f in range(len(x)):
    ...         p[f] = either(p[f], x[f])
    >>> any_event([[0.5, 0.0], [0.5, 0.25], [0.0, 0.5]]).p
    array([0.75 , 0.625])
    """
    whole = isinstance(init, (int, np.integer)) and not isinstance(init, bool)
    if not whole and not isinstance(init, (float, np.floating)):
        raise ReductionError(f"operator: found init={init!r}, expected a number")
    if whole and not LEAST_INT <= init <= GREATEST_INT:
        raise ReductionError(f"operator: found init={init}, expected an integer of at most 64 bits")

    def make(function: Callable[[Any, Any], Any]) -> FunctionOperator:
        made = operator_of(function, int(init) if whole else float(init))
        read_operator(made)  # raises if it is not one
        return made

    return make


def _check_options(device: str, threads: int | None, order: str, keep: bool) -> None:
    parse_device(device)
    if threads is not None and arguments.integer("threads", threads) < 1:
        raise ParameterError(f"threads: found {threads}, expected at least 1")
    if order not in ORDERS:
        raise ParameterError(f"order: found {order!r}, expected one of {', '.join(ORDERS)}")
    if not isinstance(keep, bool):
        raise ParameterError(f"keep: found {keep!r}, expected True or False")
