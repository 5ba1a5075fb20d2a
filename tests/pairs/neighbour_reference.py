"""Neighbours as one writes them in NumPy: all distances in float64, sorted by distance and index."""

import numpy as np
from scipy.spatial.distance import cdist


def unit(x):
    """The rows over their lengths; those of zeros are 1 on an axis of their own."""
    x = np.column_stack([x, np.zeros(len(x))])
    largest = np.abs(x).max(axis=1, initial=0.0)
    x = np.ldexp(x, -np.frexp(largest)[1][:, None])
    x[largest == 0.0, -1] = 1.0
    squares = np.zeros(len(x))
    for axis in x.T:
        squares = squares + axis * axis
    return x / np.sqrt(squares)[:, None]


def distances(x, y=None, metric="euclidean", box=None):
    """All distances; infinite from a point to itself, if there is one set."""
    x, z = np.asarray(x, float), np.asarray(x if y is None else y, float)
    if metric == "jaccard":
        found = cdist(x != 0, z != 0, "jaccard")
    else:
        if metric == "cosine":
            x, z = unit(x), unit(z)
        found = np.zeros((len(x), len(z)))
        with np.errstate(over="ignore"):
            for k in range(x.shape[1]):
                d = x[:, k, None] - z[:, k]
                if box is not None and box[k] > 0:
                    d = d - box[k] * np.rint(d / box[k])
                if metric == "manhattan":
                    found = found + np.abs(d)
                elif metric == "chebyshev":
                    found = np.maximum(found, np.abs(d))
                else:
                    found = found + d * d
        found = {"euclidean": np.sqrt(found), "cosine": 0.5 * found}.get(metric, found)
    if y is None:
        np.fill_diagonal(found, np.nan)  # sorted last, and not within any radius
    return found


def sorted_neighbours(k, x, y=None, metric="euclidean", box=None):
    """The k nearest: distances, then indices."""
    found = distances(x, y, metric, box)
    order = np.argsort(found, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(found, order, axis=1), order
