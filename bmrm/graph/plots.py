"""A picture of scores; it needs matplotlib, which the extra ``plot`` installs."""

from __future__ import annotations

import os

import numpy as np

from bmrm.base.answers import cell
from bmrm.base.figures import new_figure, save_figure
from bmrm.base.vectors import Indices, Vector
from bmrm.graph.labels import NodeLabels

FIGURE_SIZE_INCHES = (9.0, 4.0)
"""Width and height."""

MAX_NAMED = 5
"""Nodes that are named."""

MAX_POINTS = 20_000
"""Nodes that are drawn against their degree: those with the largest scores."""


def save_degree_rank(
    path: str | os.PathLike[str], in_degree: Indices, scores: Vector, name: str, labels: NodeLabels
) -> None:
    """Draw scores by rank, and by in-degree, both with logarithmic axes; the suffix chooses the format.

    Parameters
    ----------
    path : str or path-like
    in_degree : ndarray of int64, shape (n,)
    scores : ndarray of float64, shape (n,)
    name : str
        What the scores are.
    labels : NodeLabels
        The first nodes are named in the picture.

    Raises
    ------
    ParameterError
        If matplotlib has no format for the suffix.
    OSError
        If the folder cannot be written or the disk is full.
    """
    figure = new_figure(FIGURE_SIZE_INCHES)
    by_rank, by_degree = figure.subplots(1, 2)
    figure.suptitle(f"{name} of {len(scores)} nodes")
    order = np.argsort(-scores, kind="stable")
    by_rank.loglog(np.arange(1, len(scores) + 1), scores[order], linewidth=1.5)
    by_rank.set(xlabel="rank", ylabel=name)
    for rank, node in enumerate(order[:MAX_NAMED].tolist(), 1):
        place = (rank, scores[node])
        text = cell(labels[node])
        by_rank.annotate(text, place, (4, 4), textcoords="offset points", fontsize="small", parse_math=False)
    shown = order[:MAX_POINTS]
    by_degree.loglog(in_degree[shown] + 1, scores[shown], ".", markersize=2)
    by_degree.set(xlabel="in-degree + 1", ylabel=name)
    save_figure(figure, path)
