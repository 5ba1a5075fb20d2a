"""The methods of ``bmrm-cluster``: k-means, a mixture of normal distributions, PCA, MDS.

Each is a row of `METHODS`: the options that it takes besides those that all take, and a function that runs it
and returns a `ClusterOutcome`. The command knows outcomes alone: what is written, printed and proven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bmrm.cli.results import best_so_far, showing
from bmrm.errors import DataError

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

    from bmrm.base.vectors import Vector
    from bmrm.unsupervised.clusters.estimator import KMeans, KMeansProgress

MAX_LINES_SHOWN = 20
"""Clusters, components of a mixture or principal components in the table that is printed."""

DEFAULT_CLUSTERS, DEFAULT_COORDINATES = 8, 2


@dataclass
class ClusterOutcome:
    """What a method has found.

    - ``facts``: what ``--json`` prints
    - ``rows``: returns the labels or coordinates of the rows, for ``-o``
    - ``arrays``: for ``--model``
    - ``heads``, ``lines``: the table that is printed; ``others``: what lines that are not shown are
    - ``summary``: ends with where it ran; the time is printed after it
    - ``prove``: returns more facts; what ``--certificate`` asks for
    """

    facts: dict[str, Any]
    rows: Callable[[], NDArray[Any]]
    arrays: Mapping[str, NDArray[Any]]
    summary: str
    heads: list[str] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=list)
    others: str = ""
    prove: Callable[[], dict[str, Any]] = dict

    @property
    def status(self) -> str:
        """Why it ended."""
        return str(self.facts["status"])


@dataclass(frozen=True)
class ClusterMethod:
    """A method of the command.

    - ``module``: that has its estimator
    - ``takes``: options that not all methods take
    - ``starts``: what ``--init`` may name, and what the estimator calls it
    - ``dense``: whether sparse rows become dense ones
    """

    run: Callable[[argparse.Namespace, Any, Vector | None], ClusterOutcome]
    module: str
    takes: frozenset[str]
    starts: Mapping[str, str] = field(default_factory=dict)
    dense: bool = False


def _common(options: argparse.Namespace, tol: str = "tol") -> dict[str, Any]:
    """Return what every estimator is given; options that were not given keep its defaults."""
    found = {"max_iter": options.max_iter, "n_init": options.n_init, tol: options.tol}
    if options.init is not None:
        found["init"] = METHODS[options.method].starts[options.init]
    found = {name: value for name, value in found.items() if value is not None}
    same = {"max_time": options.max_time, "random_state": options.seed}
    if options.cpu_share is not None:
        same["cpu_share"] = options.cpu_share
    return found | same | {"threads": options.threads, "device": options.device}


def _facts(options: argparse.Namespace, model: Any, shape: tuple[int, int], **more: Any) -> dict[str, Any]:
    """Return the facts of a fitted model that all methods have, and more of them."""
    found = {"method": options.method, "rows": shape[0], "columns": shape[1], "status": model.status_, **more}
    return found | {"n_iter": model.n_iter_, "seed": options.seed, **_placed(model)}


def _placed(model: Any) -> dict[str, Any]:
    """Return the facts of where a model was fitted, and how its rows were split."""
    return {"device": model.placement_.device, "placement": model.placement_.reason}


def _numbers(values: Vector) -> list[Any]:
    """Return what JSON has of an array: null for what is not finite."""
    from bmrm.base.units import finite_or_none

    if values.ndim > 1:
        return [_numbers(row) for row in values]
    return [finite_or_none(value) for value in values.tolist()]


def _shares(weights: Vector) -> list[list[str]]:
    """Return lines of a table: numbers, weights and shares, the largest first."""
    total, largest = weights.sum(), (-weights).argsort(kind="stable")
    return [[str(j), f"{weights[j]:.9g}", f"{weights[j] / total:.2%}"] for j in largest.tolist()]


# --- k-means


def _k_means(options: argparse.Namespace, X: Any, weights: Vector | None) -> ClusterOutcome:
    from bmrm.base.progress import ProgressStep
    from bmrm.unsupervised.clusters.estimator import KMeans

    step = ProgressStep(("choosing the first centres",))

    def show(state: KMeansProgress) -> None:
        nonlocal step
        step = ProgressStep(state.words())

    clusters = options.clusters or DEFAULT_CLUSTERS
    model = KMeans(clusters, callback=show, **_common(options))
    with showing(options, lambda: step):
        model = best_so_far(lambda: model.fit(X, sample_weight=weights))
    more = {
        **_cluster_facts(model, model.inertia_, model.cluster_weights_),
        "inertia_error": model.inertia_error_,
        "rechecked": model.rechecked_,
    }
    summary = (
        f"inertia {model.inertia_:.9g}, within {model.inertia_error_:.1e}; {model.n_iter_} moves, "
        f"{model.rechecked_:.2%} of the labels resolved in float64, on {model.placement_.device}"
    )
    facts = _facts(options, model, X.shape, **more)
    return _clusters(options, model, X, weights, facts, model.labels_, summary)


def label_rows(
    options: argparse.Namespace, centers: Vector, X: Any, weights: Vector | None
) -> ClusterOutcome:
    """Label the rows by given centres."""
    import numpy as np

    from bmrm.unsupervised.clusters.estimator import KMeans

    if X.shape[1] != centers.shape[1]:
        raise DataError(f"DATA: found {X.shape[1]} columns, expected {centers.shape[1]} as in --apply")
    given = {name: getattr(options, name) for name in ("threads", "device", "cpu_share")}
    model = KMeans.of_centers(centers, **given)
    with showing(options, "labelling the rows"):
        labels = model.predict(X)
        inertia = -model.score(X, sample_weight=weights)
    sums = np.bincount(labels, weights, len(centers)).astype(float)
    facts = {"method": options.method, "rows": X.shape[0], "columns": X.shape[1], "status": "labelled"}
    facts |= _cluster_facts(model, inertia, sums)
    return _clusters(options, model, X, weights, facts, labels, f"inertia {inertia:.9g}")


def _cluster_facts(model: KMeans, inertia: float, sums: Vector) -> dict[str, Any]:
    return {
        "clusters": len(model.cluster_centers_),
        "inertia": inertia,
        "cluster_weights": sums.tolist(),
    }


def _clusters(
    options: argparse.Namespace,
    model: KMeans,
    X: Any,
    weights: Vector | None,
    facts: dict[str, Any],
    labels: NDArray[Any],
    summary: str,
) -> ClusterOutcome:
    import numpy as np

    sums = np.array(facts["cluster_weights"])
    return ClusterOutcome(
        facts,
        lambda: labels,
        {"centers": model.cluster_centers_, "cluster_weights": sums},
        summary,
        ["cluster", "weight", "share"],
        _shares(sums),
        "smaller clusters",
        lambda: _prove(options, model, X, weights),
    )


def _prove(options: argparse.Namespace, model: KMeans, X: Any, weights: Vector | None) -> dict[str, Any]:
    """Bound the inertia; Ctrl-C leaves the bound out, the clusters are written by now."""
    from bmrm.base.units import finite_or_none

    try:
        with showing(options, "bounding the inertia"):
            proof = model.certificate(X, weights)
    except KeyboardInterrupt:
        return {"status": "interrupted"}
    return {
        "certificate": {
            "lower_bound": proof.lower_bound,
            "confidence": proof.confidence,
            "ratio": finite_or_none(proof.ratio),
            "moves_left": proof.moves_left,
            "largest_gain": proof.largest_gain,
        }
    }


# --- the others


def _mixture(options: argparse.Namespace, X: Any, weights: Vector | None) -> ClusterOutcome:
    from bmrm.unsupervised.mixtures.estimator import GaussianMixture

    given = _common(options)
    if "init" in given:
        given["init_params"] = given.pop("init")
    if options.covariance is not None:
        given["covariance_type"] = options.covariance
    model = GaussianMixture(options.clusters or DEFAULT_CLUSTERS, **given)
    with showing(options, "fitting the mixture"):
        model = best_so_far(lambda: model.fit(X, sample_weight=weights))
    more = {
        "components": len(model.weights_),
        "covariance": model.covariance_type,
        "weights": model.weights_.tolist(),
        "log_likelihood": model.log_likelihood_,
        "mean_log_likelihood": model.lower_bound_,
        "collapsed": model.collapsed_,
    }
    collapsed = f", {len(model.collapsed_)} components collapsed" if model.collapsed_ else ""
    return ClusterOutcome(
        _facts(options, model, X.shape, **more),
        lambda: model.predict(X),
        {"weights": model.weights_, "means": model.means_, "covariances": model.covariances_},
        f"log likelihood {model.log_likelihood_:.9g}, {model.lower_bound_:.6g} per row{collapsed}; "
        f"{model.n_iter_} steps, on {model.placement_.device}",
        ["component", "weight", "share"],
        _shares(model.weights_),
        "smaller components",
    )


def _principal(options: argparse.Namespace, X: Any, weights: Vector | None) -> ClusterOutcome:
    from bmrm.unsupervised.decomposition.estimator import PCA

    model = PCA(options.clusters or DEFAULT_COORDINATES, **_common(options))
    with showing(options, "finding the components"):
        model = best_so_far(lambda: model.fit(X, sample_weight=weights))
    bounds, shares = model.singular_value_bounds_, model.explained_variance_ratio_
    more = {
        "components": len(model.components_),
        "explained_variance": _numbers(model.explained_variance_),
        "explained_variance_ratio": _numbers(shares),
        "singular_values": _numbers(model.singular_values_),
        "singular_value_bounds": _numbers(bounds),
        "bounds_proven": bool(model.bounds_proven_),
    }
    rows = zip(model.explained_variance_, shares, bounds, strict=True)
    lines = [
        [str(j), f"{variance:.9g}", f"{share:.2%}", f"{low:.9g}", f"{high:.9g}"]
        for j, (variance, share, (low, high)) in enumerate(rows, 1)
    ]
    arrays = {
        "components": model.components_,
        "mean": model.mean_,
        "explained_variance": model.explained_variance_,
        "singular_values": model.singular_values_,
        "singular_value_bounds": bounds,
    }
    return ClusterOutcome(
        _facts(options, model, X.shape, **more),
        lambda: model.transform(X),
        arrays,
        f"{len(lines)} components with {shares.sum():.2%} of the variance; on {model.placement_.device}",
        ["component", "variance", "share", "singular value from", "to"],
        lines,
        "further components",
    )


def _scaling(options: argparse.Namespace, X: Any, weights: Vector | None) -> ClusterOutcome:
    from bmrm.base.units import finite_or_none
    from bmrm.unsupervised.manifold.estimator import MDS

    given = _common(options, "eps")
    chosen = {"metric": options.metric, "dtype": options.dtype}
    given |= {name: value for name, value in chosen.items() if value is not None}
    model = MDS(options.clusters or DEFAULT_COORDINATES, **given)
    with showing(options, "placing the points"):
        model = best_so_far(lambda: model.fit(X))
    more = {
        "components": model.embedding_.shape[1],
        "stress": model.raw_stress_,
        "stress_error": finite_or_none(model.stress_error_),
        "normalized_stress": finite_or_none(model.normalized_stress_),
        "gradient_norm": model.gradient_norm_,
        "gradient_error": finite_or_none(model.gradient_error_),
        "stationarity": model.stationarity_,
    }
    return ClusterOutcome(
        _facts(options, model, X.shape, **more),
        lambda: model.embedding_,
        {"embedding": model.embedding_},
        f"normalised stress {model.normalized_stress_:.6g}, raw stress {model.raw_stress_:.9g}, within "
        f"{model.stress_error_:.1e}; {model.n_iter_} passes, on {model.placement_.device}",
    )


_ROWS, _STARTS = frozenset({"--sample-weight", "--cpu-share"}), frozenset({"--init", "--n-init"})

METHODS = {
    "kmeans": ClusterMethod(
        _k_means,
        "bmrm.unsupervised.clusters.estimator",
        _ROWS | _STARTS | {"--certificate", "--apply"},
        {name: name for name in ("k-means++", "k-means||", "random")},
    ),
    "mixture": ClusterMethod(
        _mixture,
        "bmrm.unsupervised.mixtures.estimator",
        _ROWS | _STARTS | {"--covariance"},
        {"kmeans": "kmeans", "k-means++": "k-means++", "random": "random_from_data"},
        dense=True,
    ),
    "pca": ClusterMethod(_principal, "bmrm.unsupervised.decomposition.estimator", _ROWS),
    "mds": ClusterMethod(
        _scaling,
        "bmrm.unsupervised.manifold.estimator",
        _STARTS | {"--metric", "--dtype"},
        {"classical": "classical_mds", "landmark": "landmark", "random": "random"},
        dense=True,
    ),
}
