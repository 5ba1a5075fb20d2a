"""First configurations for multidimensional scaling: classical, by landmarks, at random.

Classical scaling takes the p largest eigenvalues of B = -J D J / 2, D being the squared dissimilarities and J
the centring; for Euclidean distances in p dimensions the result is exact. For rows of features these are the
principal components. Otherwise block Lanczos multiplies by D, which is not stored a second time. Unknown
dissimilarities count as the root mean square of the known ones.

Landmark scaling applies it to some far points, each the farthest from those before, and places the others by
their distances to these: O(n) pairs are read.

W. S. Torgerson, Psychometrika 17 (1952). V. de Silva and J. Tenenbaum, Sparse multidimensional scaling using
landmark points (2004).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bmrm.base import arguments
from bmrm.base.blas import small_matrices
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, Interrupted
from bmrm.unsupervised.decomposition.estimator import PCA
from bmrm.unsupervised.decomposition.spectrum import some_eigenvalues, unit_of
from bmrm.unsupervised.manifold.dissimilarities import Dissimilarities
from bmrm.unsupervised.manifold.ordinal import Disparities

LANDMARKS_PER_AXIS = 10
"""Landmarks per axis of the configuration, besides `MIN_LANDMARKS`."""

MIN_LANDMARKS = 50
"""Landmarks at least, if there are as many points: errors of single dissimilarities average out."""

START_TOL = 1e-9
"""Residual of the eigenvectors of a start, relative to the largest eigenvalue."""

MAX_START_PRODUCTS = 100
"""Products of Lanczos for a start: what has been found by then will do."""

MAX_START_EXPONENT = 20
"""Exponent of the ratio of the dissimilarities and a given configuration from which on that is resized."""

LANCZOS_SEED = 0
"""Of the first vectors of Lanczos: they matter for the last digits only, and equal data get equal starts."""


def make_starts(
    init: str,
    data: Dissimilarities,
    disparities: Disparities | None,
    p: int,
    rng: np.random.Generator,
    deadline: float,
    given: Vector | None = None,
) -> Iterator[Vector]:
    """Yield first configurations, equal on all ranks: the given one or that of a name, then random ones."""
    for start in _starts_here(init, data, disparities, p, rng, deadline, given):
        centred = start - start.mean(axis=0) if data.single else start
        yield data.ranks.everyones(centred if data.ranks.rank == 0 else None)[0]


def _starts_here(
    init: str,
    data: Dissimilarities,
    disparities: Disparities | None,
    p: int,
    rng: np.random.Generator,
    deadline: float,
    given: Vector | None,
) -> Iterator[Vector]:
    size = data.typical if disparities is None else 1.0
    if given is not None:
        yield given
    elif init != "random":
        if disparities is not None:  # only the order counts
            data = Dissimilarities(given=disparities.as_given(), threads=data.threads)
        landmarks = init == "landmark"
        yield landmark_start(data, p, rng) if landmarks else classical_start(data, p, deadline)
    while True:
        yield random_start(data.n, p, size, rng)


def check_start(init: Any, data: Dissimilarities, p: int, *, ordinal: bool) -> Vector:
    """Return a configuration of the user in the units of the passes, validated."""
    found = arguments.numbers("init", init)
    if found.shape != (data.n, p):
        raise DataError(f"init: found shape {found.shape}, expected {(data.n, p)}")
    arguments.check_finite("init", found)
    with np.errstate(over="ignore"):
        start = found if ordinal else found * data.scale
    if not np.isfinite(start).all():
        start = found  # its size does not matter
    return near_start(start, 1.0 if ordinal else data.typical)


def classical_start(data: Dissimilarities, p: int, deadline: float) -> Vector:
    """Return the configuration of classical scaling, shape (n, p), with axes by descending variance."""
    n = data.n
    rng = np.random.default_rng(LANCZOS_SEED)
    if n == 1:
        return np.zeros((1, p))
    if data.features is not None:
        columns = min(p, *data.features.shape)
        try:
            made = PCA(columns, threads=data.threads, random_state=rng).fit(data.features)
        except Interrupted as stop:
            if stop.result is None:
                raise
            made = stop.result  # a start is due before the whole may end
        return _padded(made.transform(data.features), p)

    unit = unit_of(data.typical**2)  # Lanczos squares what is a square already

    def multiply(Y: Vector) -> Vector:
        Y = Y - Y.mean(axis=0)
        found = -0.5 * data.passes.squared(Y, data.typical)
        return np.asarray(found - found.mean(axis=0)) * unit

    found = some_eigenvalues(
        multiply,
        n,
        p,
        trace=np.inf,
        rounding=0.0,
        tol=START_TOL,
        max_iter=MAX_START_PRODUCTS,
        deadline=deadline,
        rng=rng,
        agree=data.ranks.agree,
    )
    return _padded(found.vectors * np.sqrt(found.values / unit), p)


def landmark_start(data: Dissimilarities, p: int, rng: np.random.Generator) -> Vector:
    """Return the configuration of landmark scaling, shape (n, p)."""
    n = data.n
    count = min(n, max(MIN_LANDMARKS, LANDMARKS_PER_AXIS * p))
    chosen = np.empty(count, np.int64)
    chosen[0] = rng.integers(n)
    rows = np.empty((count, n))
    closest = np.full(n, np.inf)
    for c in range(count):
        row = data.passes.row(int(chosen[c]))
        rows[c] = np.where(np.isnan(row), data.typical, row)
        closest = np.minimum(closest, rows[c])
        closest[chosen[c]] = -1.0
        if c + 1 < count:
            chosen[c + 1] = int(np.argmax(closest))
    squares = rows**2
    among = squares[:, chosen]
    mean = among.mean(axis=1)
    B = -0.5 * (among - mean[:, None] - mean[None, :] + mean.mean())
    with small_matrices(count):
        values, vectors = np.linalg.eigh((B + B.T) / 2.0)
    values, vectors = values[::-1][:p], vectors[:, ::-1][:, :p]
    kept = values > START_TOL * max(float(values[0]), 0.0)
    axes = vectors[:, kept] / np.sqrt(values[kept])
    places = -0.5 * (squares - mean[:, None]).T @ axes
    return _padded(places - places.mean(axis=0), p)


def random_start(n: int, p: int, size: float, rng: np.random.Generator) -> Vector:
    """Return points that are uniform in a cube of about a size; the first step finds their scale."""
    return np.ldexp(rng.uniform(-0.5, 0.5, (n, p)), np.frexp(size)[1])


def near_start(given: Vector, size: float) -> Vector:
    """Return a configuration of the user, or one of the same shape if it is far from 0 or of another size.

    The first step does not depend on place and size, but it keeps only digits that both have.
    """
    centred = given - given.mean(axis=0)
    spread = float(np.abs(centred).max())
    if np.ldexp(float(np.abs(given).max()), -MAX_START_EXPONENT) > spread:
        given = centred
    exponent = int(np.frexp(size)[1]) - int(np.frexp(spread)[1])
    return np.array(given) if abs(exponent) <= MAX_START_EXPONENT else np.ldexp(given, exponent)


def _padded(places: Vector, p: int) -> Vector:
    """Make the entry of largest absolute value of each axis positive, and add axes of zeros."""
    out = np.zeros((len(places), p))
    columns = np.arange(places.shape[1])
    signs = np.sign(places[np.abs(places).argmax(axis=0), columns])
    out[:, columns] = places * np.where(signs == 0.0, 1.0, signs)
    return out
