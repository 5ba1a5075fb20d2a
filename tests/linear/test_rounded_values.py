"""Certificates that hold for numbers which float32 has rounded, compared with those of float64."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

import bmrm
from bmrm import losses
from bmrm.io.csr import Csr
from bmrm.linear import regularizers
from bmrm.linear.precision import Rounding, bounded, column_sums, matrix_sums, slopes_of

KNOWN = [name for name in losses.NAMES if bounded(losses.LOSSES[name])]
PARAMETERS = {"quantile": {"tau": 0.8}, "huber": {"delta": 0.4}, "novelty": {"nu": 0.3}}
PARAMETERS |= {name: {"k": 3} for name in ("precision_at_k", "ndcg")} | {"recall_at_k": {"k": 50}}
PARAMETERS |= {"f_beta": {"beta": 2.0}}


def make(name):
    return losses.get(name, **PARAMETERS.get(name, {}))


def labels_for(loss, rng, rows):
    """Coded labels."""
    if loss.task == "binary":
        return np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    if loss.task in ("multiclass", "ordinal"):
        return np.append([0.0, 1.0, 2.0], rng.integers(0, 3, rows - 3)).astype(np.float64)
    if loss.task in ("multilabel", "label_ranking"):
        return np.where(rng.random((rows, 3)) < 0.4, 1.0, -1.0)
    if loss.task == "ranking":
        return rng.integers(0, 4, rows).astype(np.float64)
    return rng.standard_normal(rows)


def risk_of(loss, margins, y, weights):
    """The risk at margins of shape (m,) or (m, K)."""
    total = float(weights.sum())
    z = np.ascontiguousarray(margins.reshape(-1))
    starts = np.array([0, len(z)])
    risk = loss.risk(y, weights, 1.0 / total, 1)
    return float(risk.cut(z, np.zeros_like(z), 0.0, 0.0, starts, np.empty_like(z))[0].sum())


def test_losses_whose_constants_are_known():
    assert set(losses.NAMES) - set(KNOWN) == {"exponential", "poisson"}


@pytest.mark.parametrize("name", KNOWN)
def test_no_risk_moves_by_more_than_the_bound(name):
    """Rows move by d_i, from tiny amounts to far more than the distance of kinks."""
    rng = np.random.default_rng(losses.NAMES.index(name))
    rows = 40
    loss = make(name).grouped(np.sort(rng.integers(0, 5, rows)))
    counted = name in ("f_beta", "precision_at_k", "recall_at_k", "prbep")
    by_group = name in ("ndcg", "lambda_ndcg", "mrr")
    for trial in range(60):
        y = labels_for(loss, rng, rows)
        weights = np.ones(rows) if counted or by_group else rng.uniform(0.1, 3.0, rows)
        weights[rng.random(rows) < 0.1] = 0.0 if not by_group else 1.0
        shape = (rows, 3) if loss.several else (rows,)
        w = 3.0 ** rng.integers(-2, 3) * rng.standard_normal((4, *shape[1:]))
        X = rng.standard_normal((rows, 4))
        moved = 10.0 ** rng.integers(-6, 2) * rng.standard_normal((rows, 4))
        if trial % 3 == 0:
            moved[:, 1:] = 0.0
        slopes = slopes_of(loss, y, weights, float(weights.sum()))
        square = slopes.square > 0.0
        sums = column_sums(moved, slopes.rows, squares=square, threads=1)
        # The bound is for moves by a unit of roundoff: undo that unit.
        bound = Rounding(sums, 0.0, slopes.square, name).of(w) * 2.0**24
        here, there = (risk_of(loss, Z @ w, y, weights) for Z in (X, X + moved))
        if square:
            k = slopes.square
            bound = k * bound * (2.0 * math.sqrt(here / k) + bound)
        assert abs(there - here) <= bound * (1.0 + 1e-9) + 1e-12 * abs(here), trial


def objective(X, y, loss, penalty, w, intercept, groups=None):
    """J in float64, from the numbers themselves."""
    bound = loss.grouped(groups)
    margins = X @ w + intercept
    value = risk_of(bound, margins, y, np.ones(len(X)))
    return value + bound.intercept_slope * float(np.sum(intercept)) + penalty.value(w.ravel())


def numbers(rng, kind, rows, columns):
    """Features that float32 rounds: decimals, identity numbers, time stamps, huge ones."""
    X = np.round(rng.standard_normal((rows, columns)), 4)
    if kind == "ids":
        X[:, 0] = 2.0**24 + rng.integers(0, 2, rows)
    elif kind == "times":
        X[:, 0] = 1.7e9 + np.round(100.0 * rng.standard_normal(rows), 3)
    elif kind == "huge":
        X[:, 0] = 1e30 * np.round(rng.standard_normal(rows), 4)
    elif kind == "tiny":
        X[:, 0] = 1e-44 * rng.standard_normal(rows)
    elif kind == "sparse":
        X[rng.random(X.shape) < 0.7] = 0.0
    return X


KINDS = ("decimals", "ids", "times", "huge", "tiny", "sparse")
PENALTIES = (
    {"reg": "l2"},
    {"reg": "l1"},
    {"reg": "elastic_net", "l1_ratio": 0.3},
    {"reg": "l2", "feature_lambda": [1.0, 0.2, 3.0, 0.0]},
    {"reg": "l2", "prior": [0.1, -0.2, 0.3, 0.0], "feature_lambda": [1.0, 0.5, 2.0, 1.0]},
    {"reg": "l2", "positive": True},
)


def cases():
    for number, name in enumerate(KNOWN):
        for offset in range(3):
            kind = KINDS[(number + offset) % len(KINDS)]
            penalty = PENALTIES[(2 * number + offset) % len(PENALTIES)]
            if name == "novelty" and (penalty["reg"] == "l1" or 0.0 in penalty.get("feature_lambda", [])):
                continue  # it has no bound without curvature
            yield pytest.param(name, kind, penalty, id=f"{name}-{kind}-{offset}")


@pytest.mark.parametrize(("name", "kind", "options"), list(cases()))
def test_certificate_of_rounded_numbers_holds_for_the_numbers(name, kind, options):
    """A solve on float32, made to hold for float64, against J of float64 there and at a float64 optimum."""
    rng = np.random.default_rng(17 * losses.NAMES.index(name) + KINDS.index(kind))
    rows, lam = 60, 1e-2
    loss = make(name)
    groups = np.sort(rng.integers(0, 6, rows)) if loss.needs_groups else None
    X, y = numbers(rng, kind, rows, 4), labels_for(loss, rng, rows)
    given = [tuple(np.flatnonzero(row > 0)) for row in y] if y.ndim == 2 else y
    if y.ndim == 2:
        y = y[:, np.unique(np.concatenate(given)).astype(int)]
    arguments = {"lam": lam, "tol": 1e-4, "max_iter": 60, "groups": groups, **options, **loss.params}
    rounded = X.astype(np.float32)
    single = bmrm.solve(rounded, given, name, **arguments)
    double = bmrm.solve(X, given, name, **arguments)
    slopes = slopes_of(loss.grouped(groups), y, None, float(rows))
    sums = column_sums(rounded, slopes.rows, squares=slopes.square > 0.0, threads=1)
    rounding = Rounding(sums, float(slopes.rows.sum()), slopes.square, name)
    columns = single.w.shape[1] if single.w.ndim == 2 else 1
    penalty = regularizers.get(
        options["reg"], lam, 4, columns=columns, **{k: v for k, v in options.items() if k != "reg"}
    )
    found = rounding.bounds(single.objective, single.lower_bound, single.w, penalty, loss.floor(y, None))
    close = 1e-9 * max(1.0, abs(single.objective))
    here = objective(X, y, loss, penalty, single.w, single.intercept, groups)
    assert here <= found.objective + close
    assert found.lower_bound <= objective(X, y, loss, penalty, double.w, double.intercept, groups) + close
    assert found.lower_bound <= here + close
    if kind in ("decimals", "sparse") and 0.0 not in options.get("feature_lambda", []):
        assert found.rounding < 1e-4 * max(abs(single.objective), 1e-2)


def test_nothing_is_added_if_nothing_is_rounded():
    rounding = Rounding(np.zeros(3), 0.0, 0.0, "hinge")
    penalty = regularizers.get("l2", 0.1, 3)
    assert rounding.bounds(0.3, 0.2, np.ones(3), penalty, 0.0) == (0.3, 0.2, 0.0)


def test_a_feature_without_penalty_leaves_the_floor():
    rounding = Rounding(np.ones(2), 1.0, 0.0, "hinge")
    penalty = regularizers.get("l2", 0.1, 2, feature_lambda=[1.0, 0.0])
    assert rounding.bounds(0.3, 0.2, np.zeros(2), penalty, 0.0).lower_bound == 0.0


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("value", [np.float32, np.float64])
@pytest.mark.parametrize("squares", [False, True])
def test_column_sums(squares, value, threads):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((900, 7)) < 0.3, rng.standard_normal((900, 7)), 0.0).astype(value)
    rows = rng.uniform(0.0, 2.0, 900)
    rows[::5] = 0.0
    expected = rows @ (X.astype(np.float64) ** 2 if squares else np.abs(X.astype(np.float64)))
    sparse = Csr.from_scipy(csr_array(X))
    for matrix in (X, sparse, sparse._replace(indices=sparse.indices.astype(np.int64))):
        found = column_sums(matrix, rows, squares=squares, threads=threads)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    one = column_sums(sparse, rows, squares=squares, threads=1)
    assert (column_sums(sparse, rows, squares=squares, threads=threads) == one).all()
    ones = sparse._replace(data=None)
    np.testing.assert_allclose(column_sums(ones, rows, squares=squares, threads=threads), rows @ (X != 0.0))


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("squares", [False, True])
def test_sums_from_a_resident_matrix_are_no_smaller(squares, negative):
    rng = np.random.default_rng(2)
    X = np.abs(rng.standard_normal((300, 5))).astype(np.float32)
    if negative:
        X *= np.where(rng.random(X.shape) < 0.5, -1, 1).astype(np.float32)
    rows = rng.uniform(0.0, 1.0, 300)
    matrix = bmrm.Dataset(X, np.ones(300)).matrix
    exact = column_sums(X, rows, squares=squares, threads=1)
    found = matrix_sums(matrix, rows, squares=squares, negative=negative)
    assert (found >= exact * (1.0 - 1e-12)).all()
    assert (found <= 5.0 * exact).all()
