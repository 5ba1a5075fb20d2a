"""Problems from seeded generators, shaped so that a run takes every path.

They are small. What decides between two ways of a solver is the shape of X, so there is one for each:

    narrow   a Hessian pays (Newton's steps, rounded kinks), and so do several cuts per pass
    full     conjugate gradients pay: many full columns, more rows
    short    few rows with kinks: cuts that know them all, and interior points after them
    text     rows share few features: ascent in the dual
    wide     fewer rows than columns: points and cuts as combinations of rows
    long     conjugate gradients pay for kinks too; products are long enough for several threads
    uneven   columns of sizes over eight decades: cuts that are too steep for the QP
    streamed large as text, and as rows that a GPU with little memory keeps in part
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bmrm import losses
from bmrm.io import Csr
from same_bits_cases.recorder import Fields

Vector = NDArray[np.float64]

MAX_PASSES = 300
"""Maximum number of passes of a solve, which bounds the time of a run."""

TOL = 1e-4


class Shape(NamedTuple):
    """Rows and columns of X, stored values of a row (0 if it is dense), and a lam that suits it."""

    rows: int
    columns: int
    per_row: int
    lam: float


SHAPES = {
    "narrow": Shape(1500, 12, 0, 1e-3),
    "full": Shape(900, 200, 0, 1e-3),
    "short": Shape(160, 60, 0, 1e-4),
    "text": Shape(1100, 1500, 20, 1e-4),
    "wide": Shape(240, 2500, 25, 1e-4),
    "long": Shape(7000, 210, 0, 1e-2),
    "uneven": Shape(300, 30, 0, 1e-8),
    "streamed": Shape(20_000, 2000, 50, 1e-4),
}

CLASSES = np.array([-0.7, 0.4, 1.2])
"""Scores at which one of four ordered classes ends and the next begins."""

GROUP = 9
"""Rows of a group."""


class Problem:
    """Rows with labels for every kind of loss.

    Attributes
    ----------
    X : ndarray, scipy.sparse.csr_array or Csr
    options : dict
        Of `bmrm.solve`.
    labels : dict
        By the task of a loss.
    groups : ndarray of int64
        Of rows that do not lie together.
    weights : ndarray
        Weights of rows, some of them 0.
    """

    def __init__(self, X: Any, scores: Vector, lam: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.X, self.options = X, {"lam": lam, "tol": TOL, "max_iter": MAX_PASSES}
        rows = len(scores)
        noisy = scores + 0.4 * rng.standard_normal(scores.shape)
        z = noisy[:, 0]
        sets = (noisy > np.array([0.0, 0.5, -0.3])).astype(float)
        self.labels: dict[str, Any] = {
            "binary": np.where(z > 0.0, 1.0, -1.0),
            "regression": z,
            "count": np.floor(np.exp(np.clip(z, -2.0, 2.0))),
            "novelty": None,
            "multiclass": noisy.argmax(axis=1).astype(float) + 1.0,
            "multilabel": sets,
            "label_ranking": sets,
            "ranking": np.digitize(z, CLASSES).astype(float),
            "ordinal": np.digitize(z, CLASSES).astype(float),
        }
        self.groups = rng.permutation(rows) // GROUP
        self.weights = rng.random(rows)
        self.weights[rng.random(rows) < 0.2] = 0.0

    def given(self, loss: Any) -> Fields:
        """Return labels, the loss, and groups if it needs any."""
        known = losses.get(loss)
        found = {"y": self.labels[known.task], "loss": loss}
        return {**found, "groups": self.groups} if known.needs_groups else found


def sparse(rng: np.random.Generator, shape: Shape) -> sp.csr_array:
    """Draw rows as of text: a few common columns and many rare ones, each row of length 1."""
    indptr, indices, data = [0], [], []
    for _ in range(shape.rows):
        own = np.unique((shape.columns * rng.random(shape.per_row) ** 2).astype(np.int32))
        values = rng.random(len(own)) + 0.1
        indices.append(own)
        data.append(values / np.sqrt((values * values).sum()))
        indptr.append(indptr[-1] + len(own))
    parts = np.concatenate(data), np.concatenate(indices), np.array(indptr, np.int32)
    return sp.csr_array(parts, (shape.rows, shape.columns))


@cache
def problem(name: str, storage: str = "float64") -> Problem:
    """Make a problem of a shape; labels do not depend on how X is stored.

    Parameters
    ----------
    name : str
        One of `SHAPES`.
    storage : str
        "float64", "float32", "int64"; with "sparse " before it X is sparse though it is full, with "fortran "
        it lies by columns; "ones" has the pattern of X alone, and "implicit" as a `Csr` without values.
    """
    shape, seed = SHAPES[name], list(SHAPES).index(name)
    rng = np.random.default_rng(seed)
    X: Any
    if shape.per_row:
        X, size = sparse(rng, shape), 2.0
    else:
        X, size = rng.standard_normal((shape.rows, shape.columns)) + 0.3, shape.columns**-0.5
        X *= 10.0 ** np.linspace(-4.0, 4.0, shape.columns) if name == "uneven" else 1.0
    directions = size * rng.standard_normal((shape.columns, 3))
    # BLAS may add in a different order in another run.
    scores = X @ directions if shape.per_row else np.einsum("ij,jk->ik", X, directions)
    kind, _, dtype = storage.rpartition(" ")
    if dtype in ("ones", "implicit"):
        pattern = X if shape.per_row else sp.csr_array(X > 0.5)
        X = sp.csr_array((np.ones(pattern.nnz), pattern.indices, pattern.indptr), X.shape)
        if dtype == "implicit":
            X = Csr(X.indptr.astype(np.int64), X.indices.astype(np.int32), None, X.shape)
    else:
        X = (3.0 * X if dtype == "int64" else X).astype(dtype)
    if kind == "sparse":
        X = sp.csr_array(np.where(np.abs(X) > 0.7, X, 0.0))
    elif kind == "fortran":
        X = np.asfortranarray(X)
    return Problem(X, scores - scores.mean(axis=0), shape.lam, seed)


PARAMS: dict[str, Fields] = {"recall_at_k": {"k": 0.8}}
"""Parameters of losses whose defaults do not suit the problems."""

VARIANTS: dict[str, dict[str, Fields]] = {
    "quantile": {"tau": {"tau": 0.9}},
    "epsilon_insensitive": {"no tube": {"epsilon": 0.0}, "wide tube": {"epsilon": 0.5}},
    "squared_epsilon_insensitive": {"wide tube": {"epsilon": 0.4}},
    "huber_hinge": {"h": {"h": 0.05}},
    "huber": {"delta": {"delta": 0.3}},
    "novelty": {"nu": {"nu": 0.4}},
    "f_beta": {"beta": {"beta": 2.0}},
    "precision_at_k": {"share": {"k": 0.1}},
    "ndcg": {"k": {"k": 3.0}},
    "multiclass": {"costs": {"costs": [[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 2.0, 0.0]]}},
}
"""Other parameters of losses, by name."""

FEW = ("hinge", "logistic", "squared", "absolute", "squared_hinge", "multiclass", "roc_area", "ndcg")
"""Losses of all kinds: kinked, smooth, of several margins and of many rows."""

INTERCEPTS: dict[str, Fields] = {
    "free": {"fit_intercept": True},
    "penalised": {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 2.0},
}


def penalties(shape: str) -> dict[str, Fields]:
    """Return options of penalties, by name, for the columns of a shape."""
    columns, rng = SHAPES[shape].columns, np.random.default_rng(99)
    factors, prior = np.linspace(0.2, 2.0, columns), 0.1 * rng.standard_normal(columns)
    zeros = np.where(np.arange(columns) % 5 == 2, 0.0, factors)
    mixed = {"reg": "elastic_net", "l1_ratio": 0.3}
    return {
        "l1": {"reg": "l1"},
        "elastic net": mixed,
        "positive": {"positive": True},
        "l1 positive": {"reg": "l1", "positive": True},
        "strengths": {"feature_lambda": factors},
        "zeros": {"feature_lambda": zeros},
        "l1 zeros": {"reg": "l1", "feature_lambda": zeros},
        "prior": {"prior": prior},
        "all at once": {**mixed, "positive": True, "feature_lambda": zeros, "prior": prior},
    }
