"""The images of a point itself: their distances are those of all points, and depend on the box alone."""

from __future__ import annotations

import itertools

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.errors import ParameterError
from bmrm.pairs.edges import Bins

MAX_IMAGES = 1e8
"""Maximum number of images of a point."""


def own_images(points: int, box: Vector, bins: Bins) -> Indices:
    """Return how many pairs of a point with an image of itself are in each bin, once per opposite pair.

    Examples
    --------
    >>> from bmrm.pairs.edges import read_bins
    >>> own_images(2, np.array([1.0, 1.0]), read_bins([0.0, 1.0, 1.5], "left"))
    array([0, 8])
    """
    counts = np.zeros(bins.count, np.int64)
    periodic = box[box > 0.0]
    far = np.floor(bins.reach / periodic) + 1.0
    number = float(np.prod(2.0 * far + 1.0))
    if not number <= MAX_IMAGES:
        raise ParameterError(
            f"edges: found {number:.3g} images of a point within {bins.reach:g}, "
            f"expected at most {MAX_IMAGES:g}"
        )
    axes = [np.arange(-last, last + 1.0) for last in far.tolist()]
    rest = axes[1:]
    tail = np.array(list(itertools.product(*rest))).reshape(-1, len(rest)) if len(axes) > 1 else None
    for first in axes[0][axes[0] >= 0.0].tolist() if axes else ():
        wholes = np.full((1 if tail is None else len(tail), len(axes)), first)
        if tail is not None:
            wholes[:, 1:] = tail
        if first == 0.0:  # of opposite ones the later in this order
            wholes = wholes[len(wholes) // 2 + 1 :]
        counts += _in_bins(wholes * periodic, bins)
    return points * counts


def _in_bins(shifts: Vector, bins: Bins) -> Indices:
    squares = np.zeros(len(shifts))
    for shift in shifts.T:
        squares += shift * shift
    bounds = bins.bounds
    place = np.searchsorted(bounds, squares, "right") - 1
    inside = (squares >= bounds[0]) & (squares < bounds[-1])
    return np.bincount(place[inside], minlength=bins.count)
