"""Restart and dangling vectors from what users pass: a dictionary by label, an array, a node or some."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bmrm.base import arguments
from bmrm.base.vectors import UNIT, Vector
from bmrm.errors import ParameterError
from bmrm.graph.graph import Graph
from bmrm.graph.labels import quote

SHARE_ERROR = 4 * UNIT
"""Bound of the relative error of a normalised entry: sum and quotient are rounded once each."""


def restart_vector(what: str, given: Any, graph: Graph, missing: str = "error") -> Vector | None:
    """Return a distribution over the nodes, in the order of the labels; None for None.

    Parameters
    ----------
    what : str
        Name of the argument, for messages.
    given : dict, series of pandas, array_like of shape (n,), or None
        Shares, at least 0, by label (a series: by its index) or in the order of the labels; they are divided
        by their sum.
    graph : Graph
    missing : {"error", "ignore"}
        What to do with a label that is no node of the graph.

    Raises
    ------
    ParameterError
        For a label that is no node, a share that is negative, NaN or infinite, or a sum of 0.
    """
    if given is None:
        return None
    if missing not in ("error", "ignore"):
        raise ParameterError(f"missing: found {missing!r}, expected error or ignore")
    if hasattr(given, "to_dict") and hasattr(given, "index"):  # a series of pandas, whose index has labels
        if not given.index.is_unique:
            raise ParameterError(f"{what}: found a label twice, expected each once")
        given = given.to_dict()
    if isinstance(given, Mapping):
        shares = np.zeros(graph.n_nodes)
        for label, share in given.items():
            found = graph.labels.find(label)
            if found is None and missing == "ignore":
                continue
            number = graph.labels.number(what, label) if found is None else found
            shares[number] = arguments.number(f"{what}: node {quote(label)}", share)
    else:
        shares = arguments.vector(what, given, graph.n_nodes, ParameterError, each="node of the graph").copy()
    wrong = ~(np.isfinite(shares) & (shares >= 0))
    if wrong.any():
        number = int(np.argmax(wrong))
        raise ParameterError(
            f"{what}: node {quote(graph.labels[number])} has {shares[number]}, expected a finite number "
            "of at least 0"
        )
    largest = shares.max(initial=0.0)
    if largest == 0.0:
        raise ParameterError(f"{what}: found the sum 0, expected a node of the graph with a positive share")
    shares = np.ldexp(shares, -int(np.frexp(largest)[1]))  # so that the sum does not overflow
    return np.asarray(shares / math.fsum(shares))
