"""Arguments of other libraries: one line names what they are called here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from bmrm.base.suggestions import require_known

SYNONYMS = {
    "alpha": "damping",
    "c": "damping",
    "d": "damping",
    "damping_factor": "damping",
    "p": "damping",
    "G": "graph",
    "epsilon": "tol",
    "eps": "tol",
    "tolerance": "tol",
    "max_iterations": "max_iter",
    "maxiter": "max_iter",
    "n_iter": "max_iter",
    "niter": "max_iter",
    "nstart": "start",
    "initial": "start",
    "reset": "personalization",
    "seeds": "personalization",
    "source": "queries",
    "sources": "queries",
    "weight": "weighted",
    "weights": "weighted",
    "edge_weight": "weighted",
    "k": "top",
    "gpu": "device",
    "solver": "method",
}
"""Of igraph, NetworkX, scikit-network, cuGraph and papers."""

P = ParamSpec("P")
Found = TypeVar("Found")


def suggesting(function: Callable[P, Found]) -> Callable[P, Found]:
    """Make a function raise `ParameterError`, with a suggestion, for a keyword that it does not have.

    Examples
    --------
    >>> from bmrm.graph import pagerank
    >>> pagerank(([0, 1], [1, 0]), alpha=0.5)
    Traceback (most recent call last):
    bmrm.errors.ParameterError: alpha: no argument of pagerank; did you mean 'damping'?
    """
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*words: P.args, **keywords: P.kwargs) -> Found:
        require_known(keywords, known, f"argument of {function.__name__}", SYNONYMS)
        return function(*words, **keywords)

    return checked
