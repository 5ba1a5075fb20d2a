"""Solves in one process, on a CPU or a GPU; each function records one group of cases."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

import bmrm
from bmrm import losses
from same_bits_cases.problems import (
    FEW,
    INTERCEPTS,
    PARAMS,
    TOL,
    VARIANTS,
    Vector,
    penalties,
    problem,
)
from same_bits_cases.recorder import Fields, Recorder, bits, joined, of_result, public


def of_losses(record: Recorder) -> None:
    """Solve with every loss on every shape, dense and sparse, in both types, and with other parameters."""
    ways = (
        ("narrow", "float64"),
        ("narrow", "sparse float32"),
        ("full", "float32"),
        ("short", "float64"),
        ("text", "float64"),
        ("wide", "float32"),
    )
    for name in losses.NAMES:
        given = PARAMS.get(name, {})
        for shape, storage in ways:
            record.solve(f"loss/{name}/{shape} {storage}", problem(shape, storage), name, **given)
        for kind, params in VARIANTS.get(name, {}).items():
            record.solve(f"loss/{name}/{kind}", problem("narrow"), name, **params)


def of_storage(record: Recorder) -> None:
    """Solve on X in all forms that are accepted."""
    for name in FEW:
        for storage in ("ones", "implicit", "int64", "fortran float64", "sparse float64"):
            record.solve(f"storage/{name}/{storage}", problem("narrow", storage), name)
    for name in ("hinge", "logistic"):
        for dtype in ("float32", "float64"):
            record.solve(f"storage/{name}/text as {dtype}", problem("text"), name, dtype=dtype)
        record.solve(f"storage/{name}/long", problem("long", "float32"), name)
        record.solve(f"storage/{name}/text of ones", problem("text", "ones"), name)


def of_penalties(record: Recorder) -> None:
    """Solve with every loss under every penalty."""
    for name in losses.NAMES:
        for kind, options in penalties("narrow").items():
            lam = 1e-2 if "l1" in kind or "elastic" in kind else 1e-3
            options = {"lam": lam, "max_iter": 60, **PARAMS.get(name, {}), **options}
            record.solve(f"penalty/{name}/{kind}", problem("narrow"), name, **options)
    for shape in ("full", "text", "wide"):
        for name in ("hinge", "logistic", "squared", "multiclass", "ndcg"):
            for kind, options in penalties(shape).items():
                options = {"lam": 1e-3, "max_iter": 25, **options}
                record.solve(f"penalty/{name}/{kind} {shape}", problem(shape), name, **options)


def of_intercepts(record: Recorder) -> None:
    """Solve with every loss and both kinds of intercept."""
    for name in losses.NAMES:
        for kind, options in INTERCEPTS.items():
            options = {**PARAMS.get(name, {}), **options, "max_iter": 100}
            for shape in ("narrow", "text"):
                record.solve(f"intercept/{name}/{kind} {shape}", problem(shape), name, **options)
    for name in ("hinge", "logistic", "absolute", "squared"):
        for kind, options in INTERCEPTS.items():
            for shape in ("full", "short", "wide"):
                record.solve(f"intercept/{name}/{kind} {shape}", problem(shape), name, **options)
            sparse = {**options, "reg": "l1", "lam": 1e-2}
            record.solve(f"intercept/{name}/{kind} l1", problem("narrow"), name, **sparse)


def of_weights(record: Recorder) -> None:
    """Solve with weights of rows and of classes, and with LIBLINEAR's C."""
    for name in losses.NAMES:
        given = PARAMS.get(name, {})
        for shape in ("narrow", "wide"):
            at = problem(shape)
            some = 1.0 + at.groups % 3 if losses.get(name).needs_groups else at.weights
            record.solve(f"weights/{name}/rows {shape}", at, name, sample_weight=some, **given)
            kept = (at.weights > 0.0).astype(float)
            record.solve(f"weights/{name}/zeros {shape}", at, name, sample_weight=kept, **given)
    for name in ("hinge", "logistic", "multiclass", "softmax"):
        balanced = {"class_weight": "balanced", "C": 0.1}
        record.solve(f"weights/{name}/balanced", problem("narrow"), name, **balanced)
        record.solve(f"weights/{name}/of a class", problem("text"), name, class_weight={1.0: 2.5})


def of_solvers(record: Recorder) -> None:
    """Solve by the method as published, and with other tolerances and limits."""
    for name in losses.NAMES:
        options = {"solver": "bmrm", "tol": 1e-2, "lam": 1e-2, **PARAMS.get(name, {})}
        record.solve(f"solver/{name}/bmrm", problem("narrow"), name, **options)
    ways: dict[str, Fields] = {
        "bmrm l1": {"solver": "bmrm", "tol": 1e-2, "lam": 1e-2, "reg": "l1", "max_iter": 60},
        "few cuts": {"max_cuts": 6, "max_iter": 60},
        "few cuts l1": {"max_cuts": 6, "max_iter": 60, "reg": "l1", "lam": 1e-2},
        "few passes": {"max_iter": 3},
        "absolute": {"tol": 1e-3, "tol_kind": "abs"},
        "fine": {"tol": 1e-9, "max_iter": 120},
        "fine intercept": {"tol": 1e-8, "max_iter": 120, "fit_intercept": True},
        "strong": {"lam": 1e-1},
        "one cut": {"cuts_per_pass": 1, "max_iter": 120},
        "five cuts": {"cuts_per_pass": 5, "max_iter": 120},
        "stopped": {"callback": lambda state: state.iteration == 2},
    }
    for name in FEW:
        for shape in ("narrow", "short", "text", "wide"):
            for way, options in ways.items():
                record.solve(f"solver/{name}/{way} {shape}", problem(shape), name, **options)


def of_edges(record: Recorder) -> None:
    """Solve extreme problems, and problems with labels and groups in all forms that are accepted."""
    ways: dict[str, tuple[str, Fields]] = {
        "uneven": ("uneven", {}),
        "uneven l1": ("uneven", {"reg": "l1"}),
        "uneven intercept": ("uneven", {"fit_intercept": True}),
        "uneven strengths": ("uneven", penalties("uneven")["strengths"]),
        "tiny lam": ("narrow", {"lam": 1e-14}),
        "tiny lam in rows": ("wide", {"lam": 1e-13}),
        "no gap": ("text", {"tol": 1e-13}),
        "far start": ("narrow", {"warm_start": np.full(12, 1e4)}),
        "far start in rows": ("wide", {"warm_start": np.full(2500, 1e4)}),
        "far prior": ("narrow", {"prior": np.full(12, 1e3)}),
    }
    for name in ("hinge", "logistic", "squared", "absolute", "exponential", "squared_hinge", "roc_area"):
        for way, (shape, options) in ways.items():
            record.solve(f"edge/{name}/{way}", problem(shape), name, **{"max_iter": 100, **options})
    at = problem("narrow")
    together = np.sort(at.groups)
    for name in ("pairwise", "ndcg", "lambda_ndcg", "mrr"):
        for cuts in ("auto", 5):
            options = {"groups": together, "cuts_per_pass": cuts, "max_iter": 100}
            record.solve(f"edge/{name}/groups together, {cuts}", at, name, **options)
        record.solve(f"edge/{name}/names", at, name, groups=[f"query {group}" for group in together])
    sets = [tuple(np.flatnonzero(row).tolist()) for row in at.labels["multilabel"]]
    for name in ("multilabel", "multilabel_ranking"):
        record.solve(f"edge/{name}/sets", at, name, y=sets)
    costs = losses.tree_costs([("a", "b"), ("a", "c"), ("d",)])
    record.solve("edge/multiclass/tree", at, "multiclass", costs=costs)
    for shape in ("narrow", "wide"):
        for name in ("hinge", "logistic", "multiclass"):
            record.case(f"edge/{name}/progress {shape}", progress, record, name, shape)


def progress(record: Recorder, name: str, shape: str) -> Fields:
    """Return what a callback receives during a solve."""
    seen: list[list[float]] = []
    points: list[Vector] = []

    def look(state: Any) -> None:
        w, _ = state.best()
        seen.append([state.iteration, state.objective, state.lower_bound, state.gap, state.cuts])
        points.append(w.copy())

    record.solved(problem(shape), name, callback=look, max_iter=20)
    return {"seen": bits(seen), "points": bits(points)}


# ---- losses in Python


def logcosh(u: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Return a loss that does not state its minimum."""
    return np.logaddexp(u - y, y - u) - np.log(2.0), np.tanh(u - y)


def own_hinge(u: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Return the hinge, whose minimum is known."""
    return np.maximum(0.0, 1.0 - y * u), np.where(y * u < 1.0, -y, 0.0)


class OneLabel:
    """An oracle of the simplest structure, one of three labels.

    Parameters
    ----------
    columns : int
        Of an input.
    form : {"dense", "indices"}
        How the difference of feature maps is returned.
    """

    def __init__(self, columns: int, form: str) -> None:
        self.n_features, self.form = 3 * columns, form

    def most_violated(self, w: Vector, x: Vector, y: int) -> tuple[float, Any]:
        """Return the cost of the label that violates the margin most, and the difference that it makes."""
        scores = np.einsum("ij,j->i", w.reshape(3, -1), x) + (np.arange(3) != y)
        best = int(scores.argmax())
        difference = np.zeros((3, len(x)))
        difference[best] += x
        difference[y] -= x
        flat = difference.ravel()
        places = np.flatnonzero(flat)
        return float(best != y), flat if self.form == "dense" else (places, flat[places])

    def predict(self, w: Vector, x: Vector) -> int:
        """Return the label of the largest score."""
        return int(np.einsum("ij,j->i", w.reshape(3, -1), x).argmax())


def of_own_losses(record: Recorder) -> None:
    """Solve with losses in Python, of margins and of structures."""
    own = (
        losses.CallableLoss(logcosh, "logcosh"),
        losses.CallableLoss(own_hinge, "own_hinge", task="binary", minimum=0.0),
    )
    for shape in ("narrow", "text", "wide"):
        at = problem(shape)
        for loss in own:
            record.solve(f"own/{loss.name}/{shape}", at, loss, max_iter=120)
            record.solve(f"own/{loss.name}/l1 {shape}", at, loss, reg="l1", lam=1e-2)
            weighted = {"sample_weight": at.weights, "fit_intercept": True, "max_iter": 120}
            record.solve(f"own/{loss.name}/weights {shape}", at, loss, **weighted)
    ways: dict[str, Fields] = {"plain": {}, "bmrm": {"solver": "bmrm"}, "l1": {"reg": "l1"}}
    for form in ("dense", "indices"):
        for way, options in ways.items():
            record.case(f"own/structured/{form} {way}", structured, form, options)


def structured(form: str, options: Fields) -> Fields:
    """Solve with an oracle, and again from the result."""
    at, few = problem("narrow"), 150
    inputs, outputs = list(at.X[:few]), [int(label) - 1 for label in at.labels["multiclass"][:few]]
    loss = losses.Structured(OneLabel(at.X.shape[1], form))
    examples = public("Examples", "bmrm", "bmrm.structured")
    data = examples(inputs, outputs, loss.n_features, sample_weight=at.weights[:few])
    given = {"lam": 1e-2, "tol": 1e-2, "max_iter": 60, **options}
    found = {"plain": bmrm.solve(inputs, outputs, loss, **given)}
    found["weighted"] = bmrm.solve(data, loss=loss, **given)
    found["again"] = bmrm.solve(data, loss=loss, warm_start=found["weighted"], **{**given, "tol": 5e-3})
    return joined({part: of_result(result, inputs) for part, result in found.items()})


# ---- several solves in a case


def dataset(record: Recorder, at: Any, loss: str, **options: Any) -> Any:
    """Make a data set of a problem's rows."""
    given = at.given(loss)
    del given["loss"]
    return bmrm.Dataset(at.X, tol=TOL, **given, **record.common, **options)


def of_warm_starts(record: Recorder) -> None:
    """Solve from earlier results, from models and from weights, and towards them."""
    ways: dict[str, tuple[str, Fields]] = {
        "narrow": ("narrow", {}),
        "text": ("text", {}),
        "wide": ("wide", {}),
        "l1": ("full", {"reg": "l1", "lam": 1e-2}),
        "free intercept": ("narrow", INTERCEPTS["free"]),
        "penalised intercept": ("narrow", INTERCEPTS["penalised"]),
        "zeros": ("narrow", penalties("narrow")["zeros"]),
    }
    for name in ("hinge", "logistic", "absolute", "multiclass", "roc_area"):
        for way, (shape, options) in ways.items():
            record.case(f"warm/{name}/{way}", warm, record, name, shape, options)


def warm(record: Recorder, name: str, shape: str, options: Fields) -> Fields:
    """Solve again from the result of a first solve."""
    at = problem(shape)
    data = dataset(record, at, name)
    given = {"loss": name, "lam": at.options["lam"], "tol": 1e-3, "max_iter": 40, **options}
    first = bmrm.solve(data, **given)
    model, other = bmrm.Model.from_result(first), {**given, "lam": 0.3 * given["lam"]}
    own = {key: value for key, value in given.items() if key != "loss"}
    found = {
        "first": first,
        "same": bmrm.solve(data, warm_start=first, **given),
        "finer": bmrm.solve(data, warm_start=first, **{**given, "tol": 1e-6}),
        "other lam": bmrm.solve(data, warm_start=first, **other),
        "other data": record.solved(at, name, warm_start=first, **own),
        "model": bmrm.solve(data, warm_start=model, **other),
        "towards": bmrm.solve(data, prior=model, **given),
    }
    if "penalize_intercept" not in options:  # whose weight is one more
        found["weights"] = bmrm.solve(data, warm_start=first.w, **given)
    return joined({part: of_result(result, at.X) for part, result in found.items()})


def of_paths(record: Recorder) -> None:
    """Solve for several lam."""
    for name in FEW:
        for shape in ("narrow", "text", "wide"):
            for reg in ("l2", "l1"):
                record.case(f"path/{name}/{reg} {shape}", path, record, name, shape, reg)


def path(record: Recorder, name: str, shape: str, reg: str) -> Fields:
    """Return all results of a path."""
    at, lams = problem(shape), [1e-3, 1e-1, 1e-2]
    given = {"tol": 1e-3, "max_iter": 60, "reg": reg, **record.common}
    found = bmrm.path(at.X, lams=lams, **at.given(name), **given)
    return joined({f"{lam:g}": of_result(result, at.X) for lam, result in zip(lams, found, strict=True)})


def of_selections(record: Recorder) -> None:
    """Choose lam by cross validation, calibrate, and validate once."""
    ways: dict[str, tuple[str, Fields]] = {
        "shared": ("narrow", {}),
        "free intercept": ("narrow", INTERCEPTS["free"]),
        "penalised intercept": ("narrow", INTERCEPTS["penalised"]),
        "l1": ("narrow", {"reg": "l1"}),
        "strengths": ("narrow", penalties("narrow")["strengths"]),
        "weights": ("narrow", {"sample_weight": problem("narrow").weights, "rule": "1se"}),
        "sparse": ("narrow sparse float32", {"metric": "loss"}),
        "text": ("text", {}),
        "wide": ("wide", {"rule": "1se"}),
        "bmrm": ("narrow", {"solver": "bmrm", "tol": 1e-2}),
    }
    for name in ("hinge", "logistic", "squared"):
        for way, (shape, options) in ways.items():
            record.case(f"select/{name}/{way}", selection, record, name, shape, options)
    for name in losses.NAMES:
        options = {"max_iter": 40, **PARAMS.get(name, {})}
        record.case(f"select/{name}/narrow", selection, record, name, "narrow", options)
        for shape in ("narrow", "text"):
            record.case(f"validate/{name}/{shape}", validation, record, name, shape, options)


def selection(record: Recorder, name: str, shape: str, options: Fields) -> Fields:
    """Return the result of a selection, and its calibration."""
    shape, _, storage = shape.partition(" ")
    at = problem(shape, storage or "float64")
    given = {"tol": 1e-3, "max_iter": 80, **record.common, **options}
    found = bmrm.select(at.X, lams=[1e-2, 1e-1, 1e-3], folds=3, **at.given(name), **given)
    results = {
        f"{lam:g} {fold}": of_result(result)
        for lam, each in zip(found.lams, found.validations, strict=True)
        for fold, result in enumerate(each.results)
    }
    fields = {
        "scores": bits(found.scores),
        "metric": found.metric,
        "chosen": [found.lam, int(found.best), int(found.one_standard_error)],
        "statuses": list(map(str, found.statuses)),
        "values": bits(found.values),
        **joined(results),
        **of_result(found.result, at.X),
    }
    if losses.get(name).task == "binary" and name in FEW:
        own = bmrm.calibrate(found.values, found.labels, "isotonic", sample_weight=found.weights)
        fields["platt"] = bits(found.calibrate("platt").probability(found.values))
        fields["isotonic"] = bits(own.probability(found.values))
    return fields


def validation(record: Recorder, name: str, shape: str, options: Fields) -> Fields:
    """Return the result of a cross validation."""
    cross_validate = public("cross_validate", "bmrm", "bmrm.crossval")
    found = cross_validate(
        dataset(record, problem(shape), name), 3, loss=name, tol=1e-3, **{"lam": 1e-2, **options}
    )
    return {
        "values": bits(found.values),
        "scored": bits(found.scored),
        "metrics": found.metrics,
        **joined({str(fold): of_result(result) for fold, result in enumerate(found.results)}),
    }


GROUPS = (
    of_losses,
    of_storage,
    of_penalties,
    of_intercepts,
    of_weights,
    of_solvers,
    of_edges,
    of_own_losses,
    of_warm_starts,
    of_paths,
    of_selections,
)


# ---- only on a GPU


def of_gpu(record: Recorder) -> None:
    """Solve on X that streams to the GPU, and with losses of libraries that compute there."""
    at, dense = problem("streamed", "float32"), problem("long", "float32")
    for name in ("hinge", "logistic", "squared", "multiclass"):
        for limit in ("6M", "1G"):
            record.solve(f"gpu/{name}/{limit}", at, name, gpu_mem=limit, tol=1e-3)
        record.solve(f"gpu/{name}/dense", dense, name, gpu_mem="4M", tol=1e-3)
        record.solve(f"gpu/{name}/in float64", at, name, dtype="float64", tol=1e-3)
        record.solve(f"gpu/{name}/fine", at, name, tol=1e-7, max_iter=150)
    for library in ("cupy", "torch", "jax"):
        for dtype in ("float32", "float64"):
            record.case(f"gpu/{library}/{dtype}", own_on_gpu, record, library, dtype)


def own_on_gpu(record: Recorder, library: str, dtype: str) -> Fields:
    """Solve with a loss of a library that computes where the margins are."""
    xp = import_module("jax.numpy" if library == "jax" else library)

    def pseudo_huber(u: Any, y: Any) -> tuple[Any, Any]:
        v = u - y
        root = xp.sqrt(1.0 + v * v)
        return root - 1.0, v / root

    loss = losses.CallableLoss(pseudo_huber, "pseudo_huber", minimum=0.0, arrays=library)
    at = problem("narrow", dtype)
    return of_result(record.solved(at, loss), at.X)
