"""A path of regularisation strengths on one resident data set."""

from collections.abc import Sequence
from typing import Any

from bmrm.dataset import Dataset
from bmrm.errors import ParameterError
from bmrm.result import Result
from bmrm.structured import Examples
from bmrm.training import solve

_DATA = ("sample_weight", "class_weight", "device", "dtype", "threads")


def path(X: Any, y: Any = None, lams: Sequence[float] = (), **options: Any) -> list[Result]:
    """Solve for several lam, strongest first, each from the last one's answer and cuts.

    Cuts bound the risk from below whatever lam is, so what one lam learned holds for the next.

    Parameters
    ----------
    X, y
        As for `bmrm.solve`.
    lams : sequence of float
        Strengths, in any order.
    **options
        Any other argument of `bmrm.solve` but ``lam``, ``C`` and ``warm_start``.

    Returns
    -------
    list of Result
        In the order of ``lams``; their bundles are one and the same.

    Raises
    ------
    ParameterError
        Without a lam, or for an option that the path sets itself.

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    >>> [r.status for r in bmrm.path(X, [1, 1, -1], lams=[1.0, 0.1])]
    ['converged', 'converged']
    """
    if not len(lams):
        raise ParameterError("lams: found none, expected at least one")
    for name in ("lam", "C", "warm_start"):
        if name in options:
            raise ParameterError(f"{name}: a path sets it itself")
    if not isinstance(X, (Dataset, Examples)):
        tol = {"tol": options["tol"]} if "tol" in options else {}
        X = Dataset(X, y, **tol, **{name: options.pop(name) for name in _DATA if name in options})
    elif y is not None:
        raise ParameterError("y: give it to the Dataset, not to path")
    found: dict[float, Result] = {}
    last = None
    for lam in sorted(set(lams), reverse=True):
        last = found[lam] = solve(X, lam=lam, warm_start=last, **options)
    return [found[lam] for lam in lams]
