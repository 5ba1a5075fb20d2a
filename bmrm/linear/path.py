"""A path of regularisation strengths on one resident data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from bmrm.base.answers import MAX_COLUMNS, MAX_ROWS, Answer, ShownTable, leading
from bmrm.base.arguments import numbers
from bmrm.base.interrupts import HELD, check_signals, interruptible, set_signal_mode
from bmrm.errors import Interrupted, ParameterError
from bmrm.linear.inputs import OF_DATA, make_group
from bmrm.linear.models.weights import largest_weights, weight_columns
from bmrm.linear.result import Result
from bmrm.linear.solve import solve
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LamDone(NamedTuple):
    """A finished solve of a path, as passed to a progress function."""

    done: int
    total: int
    result: Result


class Path(Answer, Sequence[Result]):
    """The results of a path, in the order of its lam.

    ``print(path)`` shows a table with one line per lam, strongest first, and the largest weights.

    Parameters
    ----------
    results : sequence of Result

    Attributes
    ----------
    results : tuple of Result
        Each result has its own bundle: copies of the cuts that were active at its end. So later solves of the
        path do not affect a warm start from it.
    lams : tuple of float
        The regularisation strengths.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> found = bmrm.path(np.array([[1.0], [-1.0]]), [1, -1], [0.1, 1.0])
    >>> found.lams, [result.status for result in found]
    ((0.1, 1.0), ['converged', 'converged'])
    """

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = tuple(results)
        self.lams = tuple(result.lam for result in self.results)

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Path: ...
    def __getitem__(self, index: int | slice) -> Result | Path:
        return Path(self.results[index]) if isinstance(index, slice) else self.results[index]

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def _title(self) -> str:
        return f"Path of {len(self)} lams, the strongest first"

    def _columns(self) -> dict[str, Any]:
        """Return the weights of all models below each other."""
        each = [
            {"lam": np.full(r.w.size, r.lam), **weight_columns(r.w, r.feature_names, r.classes)}
            for r in self.results
        ]
        return {name: np.concatenate([found[name] for found in each]) for name in (each or [{}])[0]}

    def _tables(self) -> list[ShownTable]:
        ordered = sorted(self.results, key=lambda result: -result.lam)
        certificates: dict[str, list[Any]] = {
            "lam": [f"{r.lam:.4g}" for r in ordered],
            "objective": [f"{r.objective:.8g}" for r in ordered],
            "lower bound": [f"{r.lower_bound:.8g}" for r in ordered],
            "gap": [f"{r.gap:.1e}" for r in ordered],
            "passes": [r.n_iter for r in ordered],
            "seconds": [f"{r.timings['total']:.3f}" for r in ordered],
            "status": [r.status for r in ordered],
        }
        return [ShownTable(certificates), _weights_of(ordered)] if ordered else []

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the weights over lam; see `bmrm.plots.plot_weights`, and `bmrm.plots.plot_path` for bounds.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; default: the axes of a new figure.

        Returns
        -------
        Axes
        """
        from bmrm.linear.plots import plot_weights

        return plot_weights(self, ax)


def _weights_of(ordered: Sequence[Result]) -> ShownTable:
    """Return the largest weights at the weakest lam, and the same weights at some of the others."""
    last = ordered[-1]
    places = largest_weights(last.w, MAX_ROWS)
    shown = leading(weight_columns(last.w, last.feature_names, last.classes, places))
    columns = {name: column for name, column in shown.columns.items() if name != "weight"}
    some = np.unique(np.linspace(0, len(ordered) - 1, MAX_COLUMNS - len(columns)).round().astype(int))
    for result in (ordered[k] for k in some.tolist()):
        columns[f"lam {result.lam:.4g}"] = result.w.ravel()[places].tolist()
    return ShownTable(columns, last.n_nonzero - len(places))


@interruptible
def path(
    X: Any,
    y: Any = None,
    lams: ArrayLike = (),
    *,
    progress: Callable[[LamDone], object] | None = None,
    **options: Any,
) -> Path:
    """Solve for several lam, strongest first, each from the solution and the cuts of the previous one.

    Cuts bound the risk from below for every lam, so the cuts of one lam also serve the next.

    Parameters
    ----------
    X, y
        As for `bmrm.solve`.
    lams : sequence of float
        Regularisation strengths, in any order.
    progress : callable, optional
        Called with a `LamDone` after each solve.
    **options
        Any other argument of `bmrm.solve` except ``lam``, ``C`` and ``warm_start``.

    Returns
    -------
    Path
        The results, in the order of ``lams``. If the callback ends a solve, the results so far; the last one
        has the status "interrupted".

    Raises
    ------
    ParameterError
        If ``lams`` is empty, or for an option that the path sets itself.
    Interrupted
        On Ctrl-C. Its ``result`` is the path so far, including the unfinished solve; None if there is none.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    >>> [r.status for r in bmrm.path(X, [1, 1, -1], lams=[1.0, 0.1])]
    ['converged', 'converged']
    """
    grid = numbers("lams", lams, ParameterError, each="lam").ravel().tolist()
    if not grid:
        raise ParameterError("lams: found none, expected at least one")
    for name in ("lam", "C", "warm_start"):
        if name in options:
            raise ParameterError(f"{name}: path sets it itself")
    if not isinstance(X, (Dataset, Examples)):
        tol = {"tol": options["tol"]} if "tol" in options else {}
        X = Dataset(X, y, **tol, **{name: options.pop(name) for name in OF_DATA if name in options})
    elif y is not None:
        raise ParameterError("y: give it to the Dataset, not to path")
    make_group(X, None, {"lams": grid})
    set_signal_mode(HELD)
    found: dict[float, Result] = {}
    last = None
    ordered = sorted(set(grid), reverse=True)
    try:
        for done, lam in enumerate(ordered, 1):
            check_signals()
            last = solve(X, lam=lam, warm_start=last, **options)
            found[lam] = replace(last, bundle=last.bundle.active())
            last.bundle.passed_on = True
            if progress is not None:
                progress(LamDone(done, len(ordered), found[lam]))
            if last.status == "interrupted":
                break
    except KeyboardInterrupt as stop:
        if isinstance(stop, Interrupted) and isinstance(stop.result, Result):
            found[lam] = replace(stop.result, bundle=stop.result.bundle.active())
        so_far = [found[lam] for lam in grid if lam in found]
        raise Interrupted(Path(so_far) if so_far else None) from None
    return Path([found[lam] for lam in grid if lam in found])
