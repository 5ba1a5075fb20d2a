"""The images of a point itself: their distances are those of all points, and depend on the box alone."""

from __future__ import annotations

import itertools

import numpy as np

from bmrm.base.vectors import Indices, Vector
from bmrm.errors import ParameterError
from bmrm.pairs.edges import Bins

MAX_IMAGES = 1e6
"""Maximum number of images of a point that may be within reach."""


def check_images(box: Vector, bins: Bins) -> None:
    """Raise `ParameterError` if a point has too many images within reach."""
    number = float(np.prod(2.0 * _farthest(box, bins) + 1.0))
    if not number <= MAX_IMAGES:
        raise ParameterError(
            f"edges: found {number:.3g} images of a point within {bins.reach:g}, "
            f"expected at most {MAX_IMAGES:g}"
        )


def _farthest(box: Vector, bins: Bins) -> Vector:
    """Return how many periods away images may be on each periodic axis."""
    return np.floor(max(bins.reach, 0.0) / box[box > 0.0]) + 1.0


def own_images(points: int, box: Vector, bins: Bins) -> Indices:
    """Return how many pairs of a point with an image of itself are in each bin, once per opposite pair.

    Examples
    --------
    >>> from bmrm.pairs.edges import read_bins
    >>> own_images(2, np.array([1.0, 1.0]), read_bins([0.0, 1.0, 1.5], "left"))
    array([0, 8])
    """
    axes = [np.arange(-last, last + 1.0) for last in _farthest(box, bins).tolist()]
    wholes = np.array(list(itertools.product(*axes)))  # without a periodic axis: one image, the point
    later = wholes[len(wholes) // 2 + 1 :]  # of two opposite ones the later in this order
    return points * _in_bins(later * box[box > 0.0], bins)


def _in_bins(shifts: Vector, bins: Bins) -> Indices:
    squares = np.zeros(len(shifts))
    for shift in shifts.T:
        squares += shift * shift
    bounds = bins.bounds
    place = np.searchsorted(bounds, squares, "right") - 1
    inside = (squares >= bounds[0]) & (squares < bounds[-1])
    return np.bincount(place[inside], minlength=bins.count)
