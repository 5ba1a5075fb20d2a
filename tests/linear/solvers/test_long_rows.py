"""One row far longer than the others: solves converge. Objectives near 0: their statuses are honest."""

import numpy as np
import pytest

import bmrm

LOSSES = ["f_beta", "lambda_ndcg", "hinge", "pairwise", "roc_area"]


def problem(seed, loss, length):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 16))
    X[rng.integers(12)] *= length
    score = np.tanh(X @ rng.standard_normal(16)) * 3
    if loss in ("ndcg", "lambda_ndcg", "pairwise"):
        return X, np.digitize(score, [-1, 1]), {"groups": np.repeat([0, 1], 6)}
    return X, np.where(score + rng.standard_normal(12) > 0, 1, -1), {}


@pytest.mark.parametrize("length", [10.0**2.5, 1e5])
@pytest.mark.parametrize("reg", ["l1", "elastic_net"])
@pytest.mark.parametrize("loss", LOSSES)
def test_solves_converge(loss, reg, length):
    seed = int(reg == "l1")
    X, y, more = problem(seed, loss, length)
    rng = np.random.default_rng(100 + seed)
    for free in (0.5, 0.0):
        strengths = np.where(rng.random(16) < free, 0.0, 10.0 ** rng.uniform(-1, 1, 16))
        lam = 10.0 ** rng.uniform(-4, -1)
        found = bmrm.solve(
            X, y, loss=loss, reg=reg, lam=lam, feature_lambda=strengths, tol=1e-2, max_iter=300, **more
        )
        assert found.status == "converged", free


def test_the_optimum_is_that_of_the_published_method():
    """Slow, but sure: its cuts raise the model where it was lowest."""
    X, y, more = problem(3, "pairwise", 300.0)
    keywords = {"loss": "pairwise", "reg": "l1", "lam": 0.05, "tol": 1e-3, **more}
    found, plain = bmrm.solve(X, y, **keywords), bmrm.solve(X, y, solver="bmrm", **keywords)
    assert found.status == plain.status == "converged"
    assert found.lower_bound <= plain.objective
    assert plain.lower_bound <= found.objective


@pytest.mark.parametrize(("reg", "seed"), [("l1", 1), ("l1", 5), ("elastic_net", 0), ("elastic_net", 2)])
def test_a_loss_with_many_kinks_converges_too(reg, seed):
    X, y, more = problem(seed, "ndcg", 1e5)
    strengths = 10.0 ** np.random.default_rng(seed).uniform(-1, 1, 16)
    found = bmrm.solve(X, y, loss="ndcg", reg=reg, lam=0.01, feature_lambda=strengths, tol=1e-2, **more)
    assert found.status == "converged"
    assert found.n_iter < 150


def test_a_squared_penalty_raises_its_bound_whatever_rounding_does():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((30, 12))
    X[3] *= 5e6
    y = np.tanh(X @ rng.standard_normal(12)) * 3 + rng.standard_normal(30)
    found = bmrm.solve(X, y, loss="absolute", lam=2e-5, tol=1e-2, max_iter=200)
    assert found.status == "converged"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "squared", "absolute", "pairwise"])
@pytest.mark.parametrize("reg", ["l2", "l1", "elastic_net"])
def test_a_penalty_that_rounding_could_hide_is_no_optimum_of_zero(loss, reg):
    """All features have a penalty and the data do not fit weights of 0: the optimum is above 0."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((6, 4))
        score = X @ rng.standard_normal(4)
        y = score if loss in ("squared", "absolute") else np.where(score > np.median(score), 1, -1)
        more = {"groups": np.zeros(6, int)} if loss == "pairwise" else {}
        lam = 10.0 ** rng.uniform(-17, -14)
        found = bmrm.solve(X, y, loss=loss, reg=reg, lam=lam, tol=1e-2, max_iter=200, **more)
        assert found.objective > 0.0
        assert found.status != "converged" or found.gap <= 1e-2 * found.objective, seed


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "exponential", "roc_area"])
@pytest.mark.parametrize("reg", ["l1", "elastic_net"])
def test_features_without_a_penalty_show_an_optimum_of_zero(loss, reg):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((8, 5))
        y = np.where(X[:, 0] > 0, 1, -1)
        found = bmrm.solve(
            X,
            y,
            loss=loss,
            reg=reg,
            lam=1e-6,
            feature_lambda=[0.0, 1.0, 1.0, 1.0, 1.0],
            tol=1e-3,
            max_iter=300,
        )
        assert found.status == "converged", seed
        assert found.objective <= 1e-15
        assert not found.w[1:].any()
