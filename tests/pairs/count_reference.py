"""What counts are: the contract in plain NumPy, one array operation for each rounded operation."""

from __future__ import annotations

import itertools
import math

import numpy as np


def squares(a, b, box):
    """Squared distances of all points of a to all of b, to the nearest image, shape (len(a), len(b))."""
    total = np.zeros((len(a), len(b)))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for k, length in enumerate(box):
            d = a[:, k, None] - b[None, :, k]
            if length > 0.0:
                d = d - length * np.rint(d / length)
            total = total + d * d
    return total


def image_squares(a, b, box, reach):
    """Yield each image that may be within reach, and the squared distances to it."""
    spans = [0.0] * len(box)
    for k in range(len(box)):
        if len(a) and len(b):
            spans[k] = max(abs(a[:, k].max() - b[:, k].min()), abs(b[:, k].max() - a[:, k].min()))
    most = [
        math.ceil((span + max(reach, 0.0)) / length) + 1 if length > 0.0 else 0
        for span, length in zip(spans, box, strict=True)
    ]
    for m in itertools.product(*(range(-each, each + 1) for each in most)):
        total = np.zeros((len(a), len(b)))
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            for k, whole in enumerate(m):
                d = (a[:, k, None] - b[None, :, k]) - whole * box[k]
                total = total + d * d
        yield m, total


def in_bins(d2, edges, closed):
    """Counts of squared distances, as np.histogram has them for closed="last"."""
    with np.errstate(invalid="ignore"):
        r = np.sqrt(d2[~np.isnan(d2)])
    edges = np.asarray(edges, float)
    if closed == "right":
        place = np.searchsorted(edges, r, "left") - 1
    else:
        place = np.searchsorted(edges, r, "right") - 1
        if closed == "last":
            place[r == edges[-1]] = len(edges) - 2
    inside = (place >= 0) & (place < len(edges) - 1)
    return np.bincount(place[inside], minlength=len(edges) - 1)


def histogram(x, y=None, *, edges, box=None, images=None, closed="last"):
    """Counts of pairs i < j of x, or of all pairs with y."""
    x = np.asarray(x, np.float64)
    other = x if y is None else np.asarray(y, np.float64)
    axes = x.shape[1]
    box = np.zeros(axes) if box is None else np.broadcast_to(np.asarray(box, float), (axes,))
    box = np.where(np.isinf(box), 0.0, box)
    upper = (
        np.triu(np.ones((len(x), len(other)), bool), 1) if y is None else np.ones((len(x), len(other)), bool)
    )
    if not axes:
        return np.zeros(len(edges) - 1, np.int64)
    if images != "all":
        return in_bins(squares(x, other, box)[upper], edges, closed)
    counts = np.zeros(len(edges) - 1, np.int64)
    for m, d2 in image_squares(x, other, box, float(edges[-1])):
        counts += in_bins(d2[upper], edges, closed)
        if y is None and next((each for each in m if each), 0) > 0:  # one of two opposite images
            counts += in_bins(np.diagonal(d2), edges, closed)
    return counts
