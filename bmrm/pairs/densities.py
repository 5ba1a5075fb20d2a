"""Kernel densities: exact sums over all points, with proven bounds of their errors.

    f(x) = sum_j w_j K(|x - y_j| / h) / (c h^d sum_j w_j),   c = the integral of K(|z|) over d dimensions

Coordinates are divided by the power of two next to h, which is exact. Let u = 2^-53 and v = 2^-24.

*Exponents.* Gaussian and exponential terms are exp(-s), s = |x - y|^2 / 2 h^2 or |x - y| / h. A computed s
has a relative error of at most (d + 6) u: two of the differences, d of products and sums, three of the
factor, one of exp. So the relative error of a sum S is (d + 6) u times the mean of s over the terms, and 4 u
of exp. The terms p_j = w_j exp(-s_j) / S are shares, whose relative entropy to w_j / W, W = sum_j w_j, is not
negative: the mean of s is at most log(W / S) (Jensen). Far from all points S underflows. Then the least
exponent m is found first, and terms are exp(m - s): their sum is at least the weight of the nearest point,
and the mean of s is at most m + log(W / S).

*float32.* If the points are float32, Gaussian terms are too, and their sums float64: (d + 2) v times the mean
of s, of which a sum is kept, 3 v of exp, 3 v of sums of eight terms, 2 v of weights; (d + 3) v and 4 v where
products are not fused. That float32 rounds the factor of s is corrected by the mean. Sums for which this is
more than `LIGHT_ERROR`, or than the tolerance, are done again in float64.

*Kernels that end.* Distances are those of `bmrm.pairs.edges`: a term counts if the rounded distance is below
h. Its absolute error is at most (2 (d + 6) + 6) u, none for tophat; the weights of the terms that count are
summed too.

*Additions.* A sum of positive terms over tiles of T has an error of at most (T / 2 + 8 + number of tiles) u.
That of a logarithm is a few u times the sizes of its parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bmrm.base import arguments
from bmrm.base.answers import Answer
from bmrm.base.host_memory import require_memory
from bmrm.base.interrupts import check_signals, hold_signals, interruptible
from bmrm.base.suggestions import check_choice
from bmrm.base.vectors import UNIT, Indices, Vector
from bmrm.base.weighting import effective_sample_size, scale_weights
from bmrm.errors import DataError, ParameterError
from bmrm.matrix.gpu.placement import place, with_fall_back
from bmrm.pairs._pairs import DENSITY_GROUP, DENSITY_TILE, SHAPES
from bmrm.pairs.edges import reaches
from bmrm.pairs.passes import PairPasses
from bmrm.pairs.points import Points, read_points, read_threads
from bmrm.pairs.work import density_bytes, density_work

LIGHT_ERROR = 1e-6
"""The largest relative error of a density that float32 may make, unless a tolerance is given."""

LIGHT_UNIT = 2.0**-24
"""Relative error of a rounded number of float32."""

MAX_LIGHT_COORDINATE = 1e18
"""Coordinates over h whose squares are far from overflow in float32."""

MAX_COORDINATE = 1e150
"""The same in float64."""

LEAST_TERM = math.exp(-600.0)
"""Smaller terms are 0, in float64; in float32 they are at most 2^-124."""

ENDLESS = ("gaussian", "exponential")
"""Kernels that are positive everywhere."""

MIN_SHARED_PAIRS = 1e6
"""Pairs from which on threads pay."""


class _Density(NamedTuple):
    values: Vector
    error_bound: Vector
    bandwidth: float


class Density(Answer, _Density):
    """What `kde` returns.

    Attributes
    ----------
    values : ndarray of float64, shape (n,)
        The densities, or their logarithms.
    error_bound : ndarray of float64, shape (n,)
        At least the relative error of each density, which is the absolute error of its logarithm.
    bandwidth : float
        That was used.

    Examples
    --------
    >>> from bmrm import pairs
    >>> found = pairs.kde([[0.0], [2.0]], [[0.0], [1.0]], bandwidth=2.0, kernel="epanechnikov")
    >>> found.values, found.bandwidth
    (array([0.1875 , 0.28125]), 2.0)
    """

    _numbers = ("bandwidth",)

    def _title(self) -> str:
        return f"densities, or their logarithms, at {len(self.values)} points"

    def _columns(self) -> Mapping[str, Any]:
        return {"value": self.values, "error_bound": self.error_bound}


@interruptible
def kde(
    x: Any,
    at: Any = None,
    *,
    bandwidth: float | str,
    kernel: str = "gaussian",
    weights: Any = None,
    log: bool = False,
    tol: float | None = None,
    device: str | None = None,
    threads: int | None = None,
    progress: Callable[[float], object] | None = None,
) -> Density:
    """Estimate the density from which points were drawn.

    Parameters
    ----------
    x : Points or array, shape (n, d)
        The sample. If x, and ``at`` if given, are float32, terms of the Gaussian kernel are too.
    at : Points or array, shape (m, d), optional
        Where the density is wanted; by default at x, each of which then counts for itself too.
    bandwidth : float or {"scott", "silverman"}
        h: the standard deviation of the Gaussian kernel, the radius of those that end. With N the number of
        points, weighted ones by (sum w)^2 / sum w^2, "scott" is N^(-1/(d + 4)) and "silverman"
        (N (d + 2) / 4)^(-1/(d + 4)), for data of about unit variance, as in scikit-learn.
    kernel : {"gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine"}, default "gaussian"
    weights : array, shape (n,), optional
        At least 0. A point of weight 2 counts like two points; a common factor changes nothing.
    log : bool, default False
        Whether logarithms are returned. They are finite far from all points too; where a kernel that ends
        reaches no point, they are -inf.
    tol : float, optional
        Relative error that densities may have. Points are left out only as far as they provably change a
        density by at most half of this. By default none are, and float32 makes an error of at most 1e-6.
    device : {"auto", "cpu", "cuda", "cuda:N"}, optional
        By default that of x, or else "auto".
    threads : int, optional
        Maximum number of threads; no bit depends on it.
    progress : callable, optional
        Gets the share of the densities that are done, from time to time.

    Returns
    -------
    Density

    Raises
    ------
    DataError
        If points are not finite numbers, there are none, or weights do not fit.
    ParameterError
        If the bandwidth is not positive or too small for the coordinates; for an unknown kernel, or all
        weights 0.
    Interrupted
        After Ctrl-C.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import pairs
    >>> found = pairs.kde([[0.0], [1.0]], [[0.0], [1000.0]], bandwidth=0.5, log=True)
    >>> found.values.round(2).tolist(), bool((found.error_bound < 1e-8).all())
    ([-0.79, -1996002.92], True)
    """
    sample, other = read_points(x, at, device, threads, None, "at")
    check_choice("kernel", kernel, SHAPES)
    wanted = sample if other is None else other
    for name, points in (("x", sample), ("at", wanted)):
        if points.box.any():
            raise ParameterError(f"{name}: found points in a periodic box, expected open axes")
        if points.group is not None:
            raise ParameterError("comm: found points of several ranks, expected those of one process")
    tolerance = None if tol is None else arguments.nonnegative_number("tol", tol)
    given = _read_weights(weights, len(sample))
    h = choose_bandwidth(bandwidth, len(sample), sample.shape[1], given)
    smoother = _Smoother(sample, given, kernel, h, tolerance, wanted)
    limit = sample.threads if threads is None else read_threads(threads)
    there = sample.gpu if sample.gpu is not None else wanted.gpu
    work = density_work(smoother.light, len(sample), len(wanted), sample.shape[1], limit)
    placement = place(device or sample.device, there, work)

    def on_host() -> Density:
        from bmrm.pairs.cpu import HostPairs

        return smoother.evaluate(HostPairs(), limit, progress)

    def on_gpu(number: int) -> tuple[Density, str]:
        from bmrm.pairs.gpu import DevicePairs

        return smoother.evaluate(DevicePairs(number), limit, progress), ""

    found, placement = with_fall_back(placement, on_host, on_gpu)
    placement.log()
    if log:
        return found
    with np.errstate(over="ignore", under="ignore"):
        return found._replace(values=np.exp(found.values))


def _read_weights(given: Any, count: int) -> Vector | None:
    if given is None:
        return None
    weights = arguments.vector("weights", given, count, each="point")
    arguments.check_finite("weights", weights)
    if weights.min(initial=0.0) < 0.0:
        raise DataError(f"weights: found {weights.min():g}, expected numbers of at least 0")
    if not weights.any():
        raise ParameterError("weights: found only zeros, expected some positive weight")
    return weights


def choose_bandwidth(given: float | str, count: int, axes: int, weights: Vector | None) -> float:
    """Return a bandwidth from a number, or from a rule for so many points and axes."""
    if isinstance(given, str):
        check_choice("bandwidth", given, ("scott", "silverman"))
        n = count if weights is None else effective_sample_size(weights)
        return float((n if given == "scott" else n * (axes + 2) / 4.0) ** (-1.0 / (axes + 4)))
    found = arguments.number("bandwidth", given)
    if not 0.0 < found < math.inf:
        raise ParameterError(f"bandwidth: found {found:g}, expected a positive number, scott or silverman")
    return found


def log_integral(kernel: str, axes: int) -> tuple[float, float]:
    """Return the logarithm of the integral of a kernel with h = 1, and the sum of the sizes of its parts.

    Examples
    --------
    >>> round(log_integral("gaussian", 2)[0], 6), round(log_integral("tophat", 1)[0], 6)
    (1.837877, 0.693147)
    """
    if kernel == "gaussian":
        parts = [0.5 * axes * math.log(2.0 * math.pi)]
    else:
        parts = [0.5 * axes * math.log(math.pi), -math.lgamma(0.5 * axes + 1.0)]  # the ball
    if kernel == "epanechnikov":
        parts.append(math.log(2.0 / (axes + 2)))
    elif kernel == "linear":
        parts.append(-math.log(axes + 1.0))
    elif kernel == "exponential":
        parts += [math.log(axes), math.lgamma(axes)]
    elif kernel == "cosine":  # the integral of d r^(d - 1) cos(pi / 2 r), by the series of cos
        terms, term = [], 1.0
        for k in range(0, 60, 2):
            terms.append(term * axes / (axes + k))
            term *= -((0.5 * math.pi) ** 2) / ((k + 1) * (k + 2))
        parts.append(math.log(math.fsum(terms)))
    return math.fsum(parts), 1.0 + sum(map(abs, parts))


@dataclass(frozen=True)
class _Sums:
    """Sums for some points, all terms times exp(offset), and the relative errors of the sums."""

    sums: Vector
    offsets: Vector
    errors: Vector


class _Smoother:
    """A sample and points at which its density is wanted, prepared for the compiled sums.

    All coordinates are divided by the power of two `_unit`, and h with them: `_h` is from 1/2 to 1.
    """

    def __init__(
        self,
        sample: Points,
        weights: Vector | None,
        kernel: str,
        h: float,
        tolerance: float | None,
        at: Points,
    ) -> None:
        self._axes = sample.shape[1]
        if not len(sample) or not self._axes:
            raise DataError(f"x: found shape {sample.shape}, expected some points and columns")
        self._kernel, self._bandwidth, self._tolerance = kernel, h, tolerance
        self._h, unit = math.frexp(h)
        require_memory(density_bytes(len(sample), len(at), self._axes), "the points")
        largest = max(float(np.abs(each.coordinates).max(initial=0.0)) for each in {sample, at})
        with np.errstate(over="ignore", under="ignore"):
            if not np.ldexp(largest, -unit) <= MAX_COORDINATE:
                raise ParameterError(
                    f"bandwidth: found {h:g} for coordinates of up to {largest:g}, expected at least "
                    f"{largest / MAX_COORDINATE:.3g}"
                )
            self._x, y = (np.ldexp(each.coordinates, -unit) for each in (at, sample))
        weights = np.ones(len(sample)) if weights is None else weights
        self._y, weights = y[:, weights > 0.0], weights[weights > 0.0]
        self._is_weighted = bool((weights != weights[0]).any())
        self._weights = scale_weights(weights) if self._is_weighted else np.ones(len(weights))
        self._total, self._count = float(self._weights.sum()), len(self._weights)
        self._scale = 0.5 / self._h**2 if kernel == "gaussian" else 1.0 / self._h
        if kernel in ("epanechnikov", "cosine"):
            self._scale = 1.0 / self._h**2
        self._end = math.inf if kernel in ENDLESS else float(reaches(np.array([self._h]))[0])
        self.light = (
            kernel == "gaussian"
            and sample.real is at.real is np.float32
            and np.ldexp(largest, -unit) <= MAX_LIGHT_COORDINATE
            and self._light_error(0.5 * self._axes, True) <= self._light_limit
        )
        """Whether terms are float32 where that is enough."""

    @property
    def _light_limit(self) -> float:
        return LIGHT_ERROR if self._tolerance is None else self._tolerance

    def _light_error(self, mean: Any, fused: bool) -> Any:
        """Return the relative error of a sum in float32 by the mean exponent."""
        loose = 0 if fused else 1
        each = 6 + loose + (2 if self._is_weighted else 0)
        return LIGHT_UNIT * ((self._axes + 2.1 + loose) * mean + each)

    def evaluate(
        self, passes: PairPasses, threads: int | None, progress: Callable[[float], object] | None
    ) -> Density:
        """Return the logarithms of the densities, computed on a device."""
        order = passes.near_order(self._y, DENSITY_TILE, threads)
        self._sums = passes.density_sums(self._y[:, order], self._weights[order], self.light)
        order = passes.near_order(self._x, DENSITY_GROUP, threads)
        if self._count * len(order) < MIN_SHARED_PAIRS:
            threads = 1
        groups = max(1, int(passes.density_pairs / self._count / DENSITY_GROUP))
        return self._evaluate(order, groups, threads, progress or (lambda share: None))

    def _evaluate(
        self, order: Indices, groups: int, threads: int | None, progress: Callable[[float], object]
    ) -> Density:
        """Take so many groups at a time: between them signals are looked at."""
        values, bounds = np.empty(len(order)), np.empty(len(order))
        for first in range(0, len(order), groups * DENSITY_GROUP):
            chunk = order[first : first + groups * DENSITY_GROUP]
            with hold_signals():
                sums = self._add_up(np.ascontiguousarray(self._x[:, chunk]), threads)
            check_signals()
            values[chunk], bounds[chunk] = self._logarithms(sums)
            progress((first + len(chunk)) / len(order))
        return Density(values, bounds, self._bandwidth)

    def _add_up(self, x: Vector, threads: int | None) -> _Sums:
        """Sum in float32 if possible, in float64 where that is not enough, and far from all points last."""
        found = self._add_light(x, threads) if self.light else None
        if found is None:
            found = self._add_exactly(x, None, threads)
        elif (bad := np.flatnonzero(~(found.errors <= self._light_limit))).size:
            _put(found, bad, self._add_exactly(np.ascontiguousarray(x[:, bad]), None, threads))
        if self._kernel in ENDLESS:
            lost = (self._total + DENSITY_TILE) * LEAST_TERM > UNIT * found.sums
            if (bad := np.flatnonzero(lost)).size:
                _put(found, bad, self._add_far(np.ascontiguousarray(x[:, bad]), threads))
        return found

    def _add_far(self, x: Vector, threads: int | None) -> _Sums:
        """Sum exp(m - s), m the least s of each point; a little less, so that no exponent is above 0."""
        squares = self._sums.nearest(x, threads)
        least = self._scale * (squares if self._kernel == "gaussian" else np.sqrt(squares))
        found = self._add_exactly(x, least * (1.0 - 4.0 * self._rounding), threads)
        found.sums[found.sums == 0.0] = self._weights.min()  # s is so large that its rounding is too
        return found

    def _add_light(self, x: Vector, threads: int | None) -> _Sums:
        rate = float(np.float32(self._scale / math.log(2.0)))
        off = math.fsum([rate * math.log(2.0), -self._scale])  # by which float32 makes exponents larger
        most = float(np.float32(124.0 / rate))
        fused = self._sums.fused
        spare = self._light_limit - 1.2 * self._light_error(0.5 * self._axes, fused)
        tolerance = min(0.5 * (self._tolerance or 0.0), max(spare, 0.0))
        sums, moments, cuts = self._sums.light_sums(x, self._scale, rate, most, tolerance, threads)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = moments / sums
            lost = ((self._total + DENSITY_TILE) * 2.0**-124 + self._count * 2.0**-126 + cuts) / sums
            errors = 1.01 * self._light_error(self._scale * mean, fused) + lost + self._summing
        return _Sums(sums * (1.0 + off * mean), np.zeros(len(sums)), errors)

    @property
    def _rounding(self) -> float:
        """The relative error of an exponent in float64."""
        return (self._axes + 6) * UNIT

    @property
    def _summing(self) -> float:
        """The relative error of a sum in float64 that its additions make."""
        return UNIT * (DENSITY_TILE / 2 + 8 + math.ceil(self._count / DENSITY_TILE))

    def _add_exactly(self, x: Vector, least: Vector | None, threads: int | None) -> _Sums:
        tolerance = 0.5 * (self._tolerance or 0.0)
        sums, inside, cuts = self._sums.sums(
            x, self._kernel, self._scale, self._end, least, tolerance, threads
        )
        offsets = np.zeros(len(sums)) if least is None else least
        with np.errstate(divide="ignore", invalid="ignore"):
            if self._kernel in ENDLESS:
                mean = offsets + np.maximum(np.log(self._total / sums), 0.0)
                errors = self._rounding * mean + 5 * UNIT + (self._total + DENSITY_TILE) * LEAST_TERM / sums
            elif self._kernel == "tophat":
                errors = np.zeros(len(sums))
            else:
                errors = (2 * self._rounding + 6 * UNIT) * inside / sums
            errors = np.where(inside + sums + cuts > 0.0, errors + cuts / sums + self._summing, 0.0)
        return _Sums(sums, offsets, errors)

    def _logarithms(self, found: _Sums) -> tuple[Vector, Vector]:
        """Return the logarithms of densities, and bounds of their errors."""
        integral, size = log_integral(self._kernel, self._axes)
        scale = self._axes * math.log(self._bandwidth)
        with np.errstate(divide="ignore"):
            logs = np.log(found.sums)
        values = logs - found.offsets - (math.log(self._total) + integral + scale)
        sizes = np.abs(np.where(found.sums > 0.0, logs, 0.0)) + found.offsets + size
        sizes += abs(math.log(self._total)) + abs(scale)
        relative = np.where(found.errors < 0.1, found.errors / (1.0 - found.errors), np.inf)
        return values, relative + 8.0 * UNIT * (sizes + 4.0)


def _put(found: _Sums, where: Indices, some: _Sums) -> None:
    """Replace some sums by others."""
    for name in ("sums", "offsets", "errors"):
        getattr(found, name)[where] = getattr(some, name)
