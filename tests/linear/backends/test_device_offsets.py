"""Offsets of solves on a GPU, against the same solves on the CPU."""

import numpy as np
import pytest
import scipy.sparse as sp
from devices import large as gpu  # whole solves take long on the emulator

import bmrm
from bmrm import losses
from bmrm.linear.models.model import Model
from bmrm.losses import CallableLoss, _losses

pytestmark = gpu

JOINT = ("roc_area", "f_beta", "pairwise", "ndcg", "mrr", "ordinal")


def problem(loss, m=700, d=20, density=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random(m, d, density, "csr", rng=rng)
    X.data = rng.standard_normal(X.nnz)
    z, offset = X @ rng.standard_normal(d), rng.standard_normal(m)
    task = losses.get(loss).task
    y = z + offset + 0.5 * rng.standard_normal(m)
    if task == "binary":
        y = np.where(y > 0, 1.0, -1.0)
    elif task == "count":
        y = rng.poisson(np.exp(np.clip(offset, -3.0, 3.0))).astype(float)
    elif task in ("ordinal", "ranking", "multiclass"):
        y = np.digitize(y, [-1.0, 0.5]).astype(float)
    options = {"groups": np.arange(m) // 7} if task == "ranking" else {}
    return X, y, offset, options


def agree(X, y, loss, offset, **options):
    options = {"lam": 1e-2, "tol": 1e-5, **options}
    here, there = (
        bmrm.solve(X, y, loss, offset=offset, device=device, **options) for device in ("cpu", "cuda")
    )
    assert there.device.startswith("cuda")
    room = 1e-12 + 1e-6 * abs(here.objective) * (options.get("dtype") is not None)
    assert there.objective >= here.lower_bound - room
    assert here.objective >= there.lower_bound - room
    assert there.status == here.status == "converged"
    # J of the weights returned, by the CPU: a point of J is never below a bound.
    if losses.get(loss).by_rows and not losses.get(loss).several:
        labels = np.where(y > y.min(), 1.0, -1.0) if losses.get(loss).task == "binary" else y
        u = Model.from_result(there).decision_function(X, offset=offset)
        risk = losses.get(loss).value(u, labels).mean() + (there.intercept if loss == "novelty" else 0.0)
        square = there.w @ there.w
        if options.get("penalize_intercept"):
            square += (there.intercept / options["intercept_scaling"]) ** 2
        exact = risk + 0.5 * options["lam"] * square
        assert there.objective == pytest.approx(exact, rel=1e-5 if room > 1e-12 else 1e-9)
    return here, there


@pytest.mark.parametrize("loss", _losses.names())
@pytest.mark.parametrize("dense", [False, True])
def test_every_loss_of_one_margin(loss, dense):
    X, y, offset, _ = problem(loss)
    agree(X.toarray() if dense else X, y, loss, offset)


@pytest.mark.parametrize("loss", [*JOINT, "multiclass", "softmax"])
def test_losses_of_several_margins(loss):
    X, y, offset, options = problem(loss)
    several = losses.get(loss).several
    given = np.outer(offset, [1.0, -0.5, 0.0]) if several else offset
    here, there = agree(X, y, loss, given, tol=1e-3, **options)
    if here.thresholds is not None:
        np.testing.assert_allclose(there.thresholds, here.thresholds, atol=0.3)


@pytest.mark.parametrize("kind", ["bytes", "floats", "doubles"])
def test_offsets_of_every_stored_type(kind):
    X, y, offset, _ = problem("logistic")
    given = {"bytes": np.round(offset), "floats": offset.astype(np.float32).astype(float), "doubles": offset}
    agree(X, y, "logistic", given[kind])


WAYS = {
    "blocks": {"cuts_per_pass": 7},
    "bmrm": {"solver": "bmrm", "tol": 1e-2},
    "free": {"fit_intercept": True},
    "constant": {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 2.0},
    "fine": {"tol": 1e-8, "lam": 1e-5},
    "float32": {"dtype": np.float32, "tol": 1e-3},
}


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "absolute", "poisson"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way(way, loss):
    X, y, offset, _ = problem(loss)
    agree(X.toarray() if way == "fine" else X, y, loss, offset, **WAYS[way])  # dense: interior points


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_combinations_of_rows_and_ascent(loss):
    X, y, offset, _ = problem(loss, m=150, d=4000, density=0.01)
    here, there = agree(X, y, loss, offset, lam=1e-3)  # ascent
    agree(X, y, loss, offset, lam=1e-3, fit_intercept=True)  # the space of rows
    data = bmrm.Dataset(X, y, offset=offset, device="cuda")
    first = bmrm.solve(data, loss=loss, lam=1e-2)
    again = bmrm.solve(data, loss=loss, lam=1e-3, tol=1e-5, warm_start=first)
    assert again.lower_bound <= here.objective
    assert there.lower_bound <= again.objective


def test_a_function_on_the_device_gets_margins_with_offsets():
    torch = pytest.importorskip("torch")
    X, y, offset, _ = problem("squared")
    loss = CallableLoss(lambda u, v: (0.5 * torch.square(u - v), u - v), arrays="torch", minimum=0.0)
    ours = bmrm.solve(X, y, loss, lam=1e-2, tol=1e-5, offset=offset, device="cuda")
    other = bmrm.solve(X, y, "squared", lam=1e-2, tol=1e-5, offset=offset, device="cpu")
    assert ours.objective == pytest.approx(other.objective, rel=2e-5)


def test_folds_and_float32_that_large_offsets_hide_more_of():
    X, y, offset, _ = problem("logistic")
    here, there = (
        bmrm.select(X, y, [0.1, 0.01], 3, loss="logistic", offset=offset, device=device)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(there.scores, here.scores, atol=0.02)
    np.testing.assert_allclose(there.values, here.values, atol=0.1)
    far = bmrm.solve(
        X, y + 1e3, "squared", lam=1e-2, tol=1e-3, offset=offset + 1e3, device="cuda", dtype=np.float32
    )
    exact = bmrm.solve(X, y - offset, "squared", lam=1e-2, tol=1e-6, device="cpu")
    assert far.lower_bound <= exact.objective * (1.0 + 1e-6)
