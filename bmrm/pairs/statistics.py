"""Statistics: functions of two points, which the compiler of row functions compiles.

`bmrm.formulas.language.two_points` lowers a function to a row function whose row is the point x and whose
parameters are all points y. What pairs a call visits depends on its arguments; so there is a row function for
each `PairRule` that was called for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from bmrm.base import arguments
from bmrm.base.vectors import Indices
from bmrm.distributed.row_set import RowSet
from bmrm.errors import DataError, ParameterError, ReductionError
from bmrm.formulas.analysis.symmetry import find_asymmetry
from bmrm.formulas.language.front import read_program
from bmrm.formulas.language.two_points import (
    AT,
    BOX,
    NEAR,
    NEAR_END,
    NEAR_FIRST,
    PERIOD,
    REACH,
    PairRule,
    PairSource,
    lower,
)
from bmrm.formulas.run.function import CompiledFunction, refuses_deep_text
from bmrm.formulas.run.placing import usable_gpu
from bmrm.matrix.gpu.memory import parse_memory_size
from bmrm.pairs.edges import exceeds
from bmrm.pairs.neighbours import list_near, pays_to_list
from bmrm.pairs.points import Points, read_points, read_threads
from bmrm.pairs.statistic_calls import StatisticCall, run_blocks, run_whole


class Statistic:
    """A function of two points that can be called on all pairs of points; see `statistic`.

    Parameters
    ----------
    function : function
        See `statistic`.

    Attributes
    ----------
    results : tuple of str
        Names of the results.

    Raises
    ------
    ReductionError
        If the function is not a function of two points: names its line, what was found and what is allowed.

    Examples
    --------
    >>> from bmrm.pairs import Statistic
    >>> Statistic(3)
    Traceback (most recent call last):
    bmrm.errors.ReductionError: statistic: found an object of type int, expected a function defined by def
    >>> from bmrm.pairs import sqrt, squared_distance, statistic
    >>> @statistic
    ... def near(x, y, radius, pairs: int):
    ...     if sqrt(squared_distance(x, y)) <= radius:
    ...         pairs += 1
    >>> points = [[0.0], [1.0], [3.0]]
    >>> int(near(points, radius=1.5).pairs), int(near.python(points, radius=1.5).pairs)
    (1, 1)
    >>> "result, sum" in near.explain(points, radius=1.5), "define" in near.source("cpu", points, radius=1.5)
    (True, True)
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._lowered: dict[PairRule, tuple[PairSource, CompiledFunction]] = {}
        self._pairs, found = self._of(PairRule())
        self.results = found.results
        self._taken = found.takes - {self._pairs.y, *(each for m in self._pairs.marks.values() for each in m)}
        self._asymmetric: int | None = None
        if self._pairs.shared:
            self._asymmetric = find_asymmetry(
                read_program(self._of(PairRule("all"))[0].source), self._pairs.y, AT
            )
        functools.update_wrapper(cast(Any, self), function)
        self._name = function.__qualname__

    def __reduce__(self) -> str:
        return self._name  # pickled by name, as functions are

    def __repr__(self) -> str:
        return f"<statistic {self._pairs.source.name}: {', '.join(self.results)}>"

    @refuses_deep_text
    def __call__(
        self,
        x: Any,
        y: Any = None,
        /,
        *,
        reach: float | None = None,
        ordered: bool | None = None,
        blocks: int | str | None = None,
        device: str | None = None,
        threads: int | None = None,
        **words: Any,
    ) -> Any:
        """Visit all pairs of points.

        Parameters
        ----------
        x : Points or array, shape (n, d)
            The points. If x, and y if given, are float32, real numbers of the function are float32, else
            float64; sums are float64.
        y : Points or array, shape (m, d), optional
            The second points. Without them pairs are of two different points x.
        reach : float, optional
            Only pairs count whose distance is at most this; it is decided in float64, which the function
            then computes in.
        ordered : bool, optional
            Of x alone, for results that all pairs share: whether both orders of a pair count, or only the one
            in which x has the smaller index. By default the latter, if exchanged points show the same.
        blocks : int or str, optional
            Memory for results of each pair, in bytes or as "2 GB": they are returned in blocks of rows that
            fit into it. It does not count the results of each x.
        device : {"auto", "cpu", "cuda", "cuda:N"}, optional
            As for a reduction; by default that of the points.
        threads : int, optional
            As for a reduction; by default that of the points.
        **words
            The parameters by name; sizes that no parameter has, as ``bins=100``; and the numbers of each
            point: ``NAME=`` for ``x.NAME`` and ``y.NAME``, of two sets a tuple of two.

        Returns
        -------
        namedtuple
            The results by name. Those of each pair are a matrix, or a `scipy.sparse.csr_array` if they are
            assigned under a condition. With ``blocks`` an iterator of pairs of a slice, the positions of some
            x, and of their results.

        Raises
        ------
        ReductionError
            If arguments do not fit the function, or an index in it is outside of its array; if both orders of
            a pair may differ and ``ordered`` is not given.
        ParameterError, DataError
            If points, marks or options are none.
        HostMemoryError, DeviceMemoryError
            If the results of each pair do not fit into the memory.
        """
        a, b = read_points(x, y, device, threads, None)
        threads, device = a.threads if threads is None else read_threads(threads), device or a.device
        if device in ("auto", "cuda") and a.gpu is not None:
            device = f"cuda:{a.gpu}"
        near, short = None, self._short_reach(a, b, reach)
        if short is not None and (device == "cpu" or (device == "auto" and usable_gpu() is None)):
            near = list_near(a, b, short)
        call = self._bind(a, b, reach, ordered, words, there=device == f"cuda:{a.gpu}", near=near)

        def run(each: StatisticCall) -> Any:
            sets = {each.pairs.y: each.y}
            return each.function.run(each.x, each.words, device, threads, "fixed", False, sets)

        memory = parse_memory_size(blocks, f"{self._pairs.source.name}: blocks")
        if memory is None:
            return run_whole(call, run)
        return run_blocks(call, run, memory)

    def python(
        self, x: Any, y: Any = None, /, *, reach: Any = None, ordered: bool | None = None, **words: Any
    ) -> Any:
        """Visit all pairs in a plain Python loop, for tests and debuggers.

        Parameters
        ----------
        x, y, reach, ordered, **words
            As in a call.

        Returns
        -------
        namedtuple
            As of a call, up to rounding.
        """
        call = self._bind(*read_points(x, y, None, None, None), reach, ordered, words)
        return run_whole(call, lambda each: each.function.python(each.x, **each.all_words))

    def explain(
        self, x: Any = None, y: Any = None, /, *, reach: Any = None, ordered: bool | None = None, **words: Any
    ) -> str:
        """Explain the roles of the arguments, and how a call would run.

        Parameters
        ----------
        x, y, reach, ordered, **words : optional
            As in a call. Without points only what the text of the function says is explained.

        Returns
        -------
        str
        """
        pairs = "a pair with exchanged points gives the same"
        if not self._pairs.shared:
            pairs = "every result has its own numbers for each x"
        elif self._asymmetric is not None:
            pairs = f"exchanged points may give another result, line {self._asymmetric}"
        for name in self._pairs.sparse:
            pairs += f"\n{name}: a sparse matrix; the pairs of each x are counted, and then found again"
        if x is None:
            return f"{self._of(PairRule())[1].explain()}\npairs: {pairs}"
        a, b = read_points(x, y, None, None, None)
        if self._short_reach(a, b, reach) is not None:
            pairs += "\nreach: on a CPU those within it are listed, and only these are visited"
        call = self._bind(a, b, reach, ordered, words)
        return f"{call.function.explain(call.x, **call.all_words)}\npairs: {pairs}"

    def source(
        self,
        target: str,
        x: Any,
        y: Any = None,
        /,
        *,
        reach: Any = None,
        ordered: bool | None = None,
        **words: Any,
    ) -> str:
        """Return the code that a call would run.

        Parameters
        ----------
        target : {"cpu", "cuda"}
        x, y, reach, ordered, **words
            As in a call.

        Returns
        -------
        str
            LLVM's text before optimisation, or CUDA C++.
        """
        call = self._bind(*read_points(x, y, None, None, None), reach, ordered, words)
        return call.function.source(target, call.x, **call.all_words)

    def _of(self, rule: PairRule) -> tuple[PairSource, CompiledFunction]:
        """Return the row function of a rule, made once."""
        if rule not in self._lowered:
            found = lower(self._function, rule)
            self._lowered[rule] = found, CompiledFunction(self._function, found.source, contract=False)
        return self._lowered[rule]

    def _bind(
        self,
        a: Points,
        b: Points | None,
        reach: Any,
        ordered: bool | None,
        words: dict[str, Any],
        there: bool = False,
        near: tuple[Indices, Indices] | None = None,
    ) -> StatisticCall:
        """Read what belongs to the points, and choose the row functions.

        - ``there``: whether points on a GPU are read there
        - ``near``: the pairs within the reach, if they are listed
        """
        name = self._pairs.source.name
        pairs = "all" if b is not None else self._order(ordered)
        if b is not None and ordered is not None:
            raise ParameterError(f"{name}: ordered: found {ordered!r} with two sets, expected points x alone")
        boxed, within = bool(a.box.any()), reach is not None
        rule = PairRule(pairs, boxed, within and near is None, near is not None)
        found, function = self._of(rule)
        fill = self._of(rule._replace(fills=True))[1] if found.sparse else None
        both = a if b is None else b
        narrow = a.real is both.real is np.float32 and not within
        kind = np.float32 if narrow else np.float64
        given: dict[str, Any] = {}
        for word, value in words.items():
            if word in self._pairs.marks:
                given |= self._marks(word, value, (len(a), len(both)), b is not None)
            elif word in self._taken:
                given[word] = value
            else:
                expected = ", ".join(sorted({*self._taken, *self._pairs.marks}))
                raise ReductionError(f"{name}: found the argument {word!r}, expected one of {expected}")
        missing = [each for each in self._pairs.marks if each not in words]
        if missing:
            raise ReductionError(f"{name}: found no {missing[0]!r}, expected a number of each point")
        if boxed:
            given |= {BOX: a.box, PERIOD: np.where(a.box > 0.0, a.box, np.inf)}
        if near is not None:
            columns, starts = near
            given |= {NEAR: columns, NEAR_FIRST: starts[:-1], NEAR_END: starts[1:]}
        elif within:
            given[REACH] = float(exceeds(np.array([self._reach(reach)]))[0])
        rows = RowSet(a.rows(kind, there))
        return StatisticCall(found, function, fill, rows, both.rows(kind, there), given)

    def _order(self, ordered: bool | None) -> str:
        """Return which pairs of one set count."""
        name = self._pairs.source.name
        if not self._pairs.shared:
            if ordered is not None:
                raise ParameterError(
                    f"{name}: ordered: found {ordered!r}, expected it only for results that all pairs share"
                )
            return "other"
        if ordered is None and self._asymmetric is not None:
            raise ReductionError(
                f"{name}, line {self._asymmetric}: found a result of all pairs that may change if x and y "
                "are exchanged, expected ordered=True (both orders) or False (x has the smaller index)"
            )
        if ordered not in (None, True, False):
            raise ParameterError(f"{name}: ordered: found {ordered!r}, expected True or False")
        return "other" if ordered else "once"

    def _short_reach(self, a: Points, b: Points | None, reach: Any) -> float | None:
        """Return a reach if it pays to list the pairs within it."""
        found = None if reach is None else self._reach(reach)
        return found if found is not None and pays_to_list(a, b, found) else None

    def _reach(self, reach: Any) -> float:
        found = arguments.number(f"{self._pairs.source.name}: reach", reach)
        if not found >= 0.0:
            raise ParameterError(f"{self._pairs.source.name}: reach: found {found:g}, expected at least 0")
        return found

    def _marks(self, word: str, value: Any, counts: tuple[int, int], two: bool) -> dict[str, Any]:
        """Return the numbers of each point of x and of y that one name gives."""
        name, sides = f"{self._pairs.source.name}: {word}", self._pairs.marks[word]
        if two and len(sides) == 2 and not (isinstance(value, tuple) and len(value) == 2):
            raise ReductionError(f"{name}: found one array for two sets, expected a tuple of two")
        found = {}
        for side in sides:
            of_y = side == f"{self._pairs.y}.{word}"
            each = arguments.array(name, value[of_y] if two and isinstance(value, tuple) else value)
            if each.shape != (counts[of_y],):
                raise ReductionError(f"{name}: found shape {each.shape}, expected ({counts[of_y]},)")
            if each.dtype.kind == "f" and not np.isfinite(each).all():
                bad = int(np.argmin(np.isfinite(each)))
                raise DataError(f"{name}: found {each[bad]} for point {bad}, expected finite numbers")
            found[side] = each
        return found


def statistic(function: Callable[..., Any]) -> Statistic:
    """Make a statistic from a function of two points.

    Parameters
    ----------
    function : function
        A plain Python function of two points and other arguments. What it only reads is a parameter, what it
        writes is a result: ``[x.index]`` has a place for each x and the annotation "rows", all others are
        shared by all pairs.

    Returns
    -------
    Statistic

    Raises
    ------
    ReductionError
        If the function is not one of two points.

    Examples
    --------
    >>> from bmrm.pairs import sqrt, squared_distance, statistic
    >>> @statistic
    ... def near(x, y, radius, degree: "rows", pairs: int):
    ...     if sqrt(squared_distance(x, y)) <= radius:
    ...         degree[x.index] += 1
    ...         pairs += 1
    >>> found = near([[0.0], [1.0], [3.0]], radius=1.5)
    >>> found.degree, int(found.pairs)
    (array([1, 1, 0]), 1)
    """
    return Statistic(function)
