"""Fits of the estimators without labels, and calls of compiled functions."""

# ruff: noqa: F821 (annotations name sizes)
from typing import Any

import numpy as np
import scipy.sparse as sp

from same_bits_cases.recorder import Fields, Recorder, bits, public

REDUCTIONS = "bmrm.reductions"
inf, local, reduction = (public(name, REDUCTIONS) for name in ("inf", "local", "reduction"))

FITTED = {
    "KMeans": {"n_clusters": 7, "max_iter": 30},
    "GaussianMixture": {"n_components": 3, "max_iter": 15},
    "PCA": {"n_components": 4},
    "TruncatedSVD": {"n_components": 4},
    "MDS": {"n_components": 2, "max_iter": 20},
}
"""Estimators, and parameters of a fit that takes no time."""

SPARSE = ("KMeans", "PCA", "TruncatedSVD")
"""Estimators that read sparse rows."""


@reduction
def moments(x, w, shift: "d", total: (), first: "d", second: ("d", "d"), largest: "d", label: int):
    """Weighted moments about a shift, the maxima of the columns, and the largest column of each row."""
    at, best = 0, -inf
    c = local("d")
    total += w
    for f in range(len(x)):
        c[f] = x[f] - shift[f]
        first[f] += w * c[f]
        largest[f] = max(largest[f], x[f])
        if c[f] > best:
            best, at = c[f], f
    for f in range(len(x)):
        for g in range(len(x)):
            second[f, g] += w * c[f] * c[g]
    label = at  # noqa: F841


@reduction
def histogram(x, low, width, counts: ("d", "bins"), mass: "bins"):
    """Count the values of each column per bin, and sum them."""
    for f in range(len(x)):
        b = min(max(int((x[f] - low) / width), 0), len(mass) - 1)
        counts[f, b] += 1
        mass[b] += x[f]


def of_estimators(record: Recorder) -> None:
    """Record fits on rows of either type and kind, with weights if the estimator has them."""
    rng = np.random.default_rng(5)
    for name, parameters in FITTED.items():
        rows = 300 if name == "MDS" else 9000
        X = rng.normal(size=(rows, 9)) + 4 * rng.integers(0, 3, (rows, 1))
        weights = rng.integers(0, 4, rows).astype(np.float64)
        kinds: dict[str, Any] = {"float64": X, "float32": X.astype(np.float32)}
        if name in SPARSE:
            kinds["sparse"] = sp.random_array((rows, 40), density=0.1, format="csr", rng=rng)
        for kind, given in kinds.items():
            record.case(f"estimators/{name}/{kind}", fitted, record, name, parameters, given, None)
        if name != "MDS":
            record.case(f"estimators/{name}/weights", fitted, record, name, parameters, X, weights)


def fitted(record: Recorder, name: str, parameters: Fields, X: Any, weights: Any) -> Fields:
    """Fit, and return the bits of all that the fit has set."""
    model = public(name, "bmrm", REDUCTIONS)(**parameters, **record.common)
    if "random_state" in model.get_params():
        model.set_params(random_state=3)
    model.fit(X, **({} if weights is None else {"sample_weight": weights}))
    arrays = {key: value for key, value in vars(model).items() if key.endswith("_") and is_numeric(value)}
    return {key: bits(value) for key, value in sorted(arrays.items())}


def is_numeric(value: Any) -> bool:
    """Whether a value is a number or an array of numbers."""
    return isinstance(value, (int, float, np.ndarray, np.generic)) and np.asarray(value).dtype.kind in "iuf"


def of_reductions(record: Recorder) -> None:
    """Record results of compiled functions over rows of either type and kind."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(30_000, 6))
    kinds = {"float64": X, "float32": X.astype(np.float32), "int16": (9 * X).astype(np.int16)}
    for kind, given in kinds.items():
        w = rng.random(len(X)).astype(given.dtype if given.dtype.kind == "f" else np.float64)
        record.case(f"reductions/moments/{kind}", called, record, moments, given, w=w, shift=np.ones(6))
        record.case(
            f"reductions/histogram/{kind}", called, record, histogram, given, low=-2, width=0.5, bins=9
        )


def called(record: Recorder, function: Any, X: Any, **words: Any) -> Fields:
    """Call a compiled function, and return the bits of its results."""
    return {name: bits(value) for name, value in function(X, **words, **record.common)._asdict().items()}
