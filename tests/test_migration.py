"""The tables of docs/migration.md: the other's objective is ours up to a factor, or its result is ours."""

import importlib
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import bmrm
from bmrm import losses

M, C, LAMBDA, Q, EPSILON = 8, 0.7, 0.3, 0.8, 0.1
Y = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
POSITIVES = 3


@pytest.fixture(scope="module")
def tables():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1] / "scripts")
        return importlib.import_module("migration_tables")


def structured(u, loss, evidence, admitted=lambda positive: True):
    """Maximise over all labellings by brute force; ``loss`` takes wrong negatives and wrong positives."""
    best = -np.inf
    for signs in product((-1.0, 1.0), repeat=M):
        wrong = np.array(signs) != Y
        if admitted(sum(sign > 0 for sign in signs)):
            b, c = int((wrong & (Y < 0)).sum()), int((wrong & (Y > 0)).sum())
            best = max(best, loss(b, c) - evidence * (Y * u)[wrong].sum())
    return best


def f1_loss(b, c):
    a = POSITIVES - c
    return 1.0 - 2.0 * a / (2.0 * a + b + c)


def pairs(u):
    return np.mean([max(0.0, 1.0 - (u[i] - u[j])) for i in range(M) for j in range(M) if Y[i] > Y[j]])


PERF = {  # risks in percent; evidence counts twice: psi(y) - psi(y') = 2 sum of the wrong rows
    "f_beta": lambda u: structured(u, lambda b, c: 100.0 * f1_loss(b, c), 2.0),
    "hinge": lambda u: 100.0 / M * np.maximum(0.0, 1.0 - Y * u).sum(),
    "prbep": lambda u: structured(
        u, lambda b, c: 100.0 * c / POSITIVES, 2.0, lambda positive: positive == POSITIVES
    ),
    "roc_area": lambda u: 100.0 * pairs(u),
}

REALS = np.linspace(-1.0, 2.0, M)
R = {
    "hinge": lambda u: np.maximum(0.0, 1.0 - Y * u).sum(),
    "logistic": lambda u: np.log1p(np.exp(-Y * u)).sum(),
    "squared": lambda u: 0.5 * ((u - REALS) ** 2).sum(),
    "absolute": lambda u: abs(u - REALS).sum(),
    "quantile": lambda u: np.maximum(Q * (u - REALS), (1 - Q) * (REALS - u)).sum(),
    "epsilon_insensitive": lambda u: np.maximum(0.0, abs(u - REALS) - EPSILON).sum(),
    "roc_area": pairs,
    "f_beta": lambda u: structured(u, f1_loss, 2.0),
    "pairwise": pairs,
}


def our_risk(name, u):
    loss = losses.get(name, **({"tau": 1.0 - Q} if name == "quantile" else {}))
    y = Y if loss.task in ("binary", "ranking") else REALS
    if isinstance(loss, losses.JointLoss):
        return loss.grouped(np.zeros(M, np.int64)).evaluate(u, y)[0]
    return loss.value(u, y).mean()


@pytest.mark.parametrize(
    ("program", "name"),
    [*(("SVM_PERF", name) for name in PERF), *(("R_BMRM", name) for name in R)],
)
def test_objectives_are_proportional(program, name, tables):
    (peer,) = (peer for peer in getattr(tables, program) if peer.ours.partition(",")[0] == name)
    lam, scale = (eval(text, {"C": C, "LAMBDA": LAMBDA, "m": M}) for text in (peer.lam, peer.scale))
    rng = np.random.default_rng(1)
    X, ratios = rng.standard_normal((M, 4)), []
    for size in (0.01, 0.1, 1.0, 4.0):
        w = size * rng.standard_normal(4)
        if program == "SVM_PERF":
            theirs = 0.5 * (w @ w) + C * PERF[name](X @ w)
        else:
            theirs = 0.5 * LAMBDA * (w @ w) + R[name](X @ w)
        ratios.append(theirs / (0.5 * lam * scale**2 * (w @ w) + our_risk(name, scale * (X @ w))))
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-10)


CALLS = {
    "NETWORKX": ["networkx"],
    "IGRAPH": ["igraph"],
    "SKLEARN": ["sklearn.cluster", "sklearn.decomposition", "sklearn.mixture", "sklearn.neighbors"],
    "SCIPY": ["scipy.spatial", "scipy.sparse.linalg"],
    "CORRFUNC": ["Corrfunc._countpairs", "Corrfunc.theory"],
    "KEOPS": ["pykeops.numpy"],
    "FAISS": ["faiss"],
}
"""The lists of calls, and the modules that they need."""


@pytest.mark.parametrize("program", CALLS)
def test_calls_return_the_same(program, tables):
    names = {}
    for module in CALLS[program]:
        pytest.importorskip(module)
        package = module.partition(".")[0]
        names[package] = importlib.import_module(package)
    rng = np.random.default_rng(0)
    x, y = 0.4 * rng.random((300, 3)), rng.random((200, 3))
    x[150:] += 0.6  # two clusters
    names |= {"bmrm": bmrm, "numpy": np, "x": x, "y": y, "k": 4, "r": 0.1, "h": 0.3}
    names["edges"] = np.linspace(0.01, 0.3, 9)
    pairs = rng.integers(0, 40, (300, 2))
    if program == "NETWORKX":
        names["N"] = names["networkx"].DiGraph(pairs.tolist())
    elif program == "IGRAPH":
        names["I"] = names["igraph"].Graph(40, np.unique(pairs, axis=0).tolist(), directed=True)
    elif program == "KEOPS":
        lazy = names["pykeops"].numpy.LazyTensor
        names |= {"X_i": lazy(x[:, None]), "Y_j": lazy(y[None])}
    elif program == "FAISS":
        names["F"] = names["faiss"].IndexFlatL2(3)
        names["F"].add(y.astype("f4"))
    for call in getattr(tables, program):
        theirs, ours = eval(call.theirs, names), eval(call.ours, names)
        np.testing.assert_allclose(ours, theirs, rtol=call.tolerance, atol=call.tolerance, err_msg=call.ours)
