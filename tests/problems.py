"""Random problems for the certificate, the same problems in other forms, and optima that are known exactly.

All losses, penalties, intercepts and weights occur, rows and columns that repeat, and scales from 1e-12 to
1e12.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import oracle
from oracle import Oracle, Problem

Vector = np.ndarray
Point = tuple[Vector, Any]

QUADRATIC = ("squared", "squared_epsilon_insensitive", "huber")
"""Losses that grow with the square of the labels' scale."""

KINKED = ("absolute", "quantile", "epsilon_insensitive")
"""Losses that grow as the labels do."""

WITHOUT_FLOOR = ("novelty",)
"""Losses that take no penalty without curvature."""

ONE_WEIGHT = ("f_beta", "precision_at_k", "recall_at_k", "prbep")
NO_INTERCEPT = ("roc_area", "prbep", *oracle.RANKING, "ordinal")


@dataclass(frozen=True)
class Drawn:
    """A problem, strengths to solve it for, how X is handed over, and the optimum if it is known."""

    problem: Problem
    lam: float
    storage: str
    """"dense", "fortran", "sparse" or "float32"."""
    optimum: Fraction | None = None
    """Of J at `lam`."""


def pick(rng: np.random.Generator, shares: dict[Any, float]) -> Any:
    """Draw one of the keys by their shares."""
    at = rng.random() * sum(shares.values())
    for key, share in shares.items():
        at -= share
        if at < 0.0:
            return key
    return key


def power(rng: np.random.Generator, low: float, high: float) -> float:
    return 10.0 ** rng.uniform(low, high)


# ---- X, labels, weights


def features(rng: np.random.Generator, m: int, d: int) -> Vector:
    """A matrix of about unit scale, at times with defects."""
    kind = pick(rng, {"normal": 5, "sparse": 2, "small": 1, "binary": 1, "offset": 0.5, "collinear": 0.5})
    X = rng.standard_normal((m, d))
    if kind == "sparse":
        X *= rng.random((m, d)) < rng.uniform(0.1, 0.6)
    elif kind == "small":
        X = rng.integers(-3, 4, (m, d)).astype(float)
    elif kind == "binary":
        X = (rng.random((m, d)) < 0.4).astype(float)
    elif kind == "offset":
        X += power(rng, 0, 6)
    elif kind == "collinear":
        X = X[:, :1] + power(rng, -9, -1) * X
    if rng.random() < 0.25 and m > 1:  # repeated rows or columns, rows or columns of zeros
        X[rng.integers(m, size=m // 2 + 1)] = X[rng.integers(m)]
    if rng.random() < 0.15 and d > 1:
        X[:, rng.integers(d)] = X[:, rng.integers(d)]
    if rng.random() < 0.1:
        X[rng.random(m) < 0.3] = 0.0
    if rng.random() < 0.08:
        X[:, rng.integers(d)] = 0.0
    if rng.random() < 0.08:
        X *= 10.0 ** rng.uniform(-6, 6, d)
    return X


def scale(rng: np.random.Generator) -> float:
    """Mostly 1; otherwise a power of ten or any number between 1e-12 and 1e12."""
    return pick(rng, {1.0: 6, 10.0 ** int(rng.integers(-12, 13)): 2, power(rng, -12, 12): 2})


def two_classes(rng: np.random.Generator, score: Vector, taking: Vector) -> Vector:
    """Labels of two classes, both of which occur in the rows that take part."""
    noise = pick(rng, {0.0: 1, 0.5: 3, 3.0: 1})
    positive = score + noise * (np.std(score) + 1e-300) * rng.standard_normal(len(score)) > np.median(score)
    positive[taking[0]], positive[taking[1]] = True, False
    low, high = pick(rng, {(-1.0, 1.0): 4, (0.0, 1.0): 1, (3.0, 7.0): 1})
    return np.where(positive, high, low)


def weights(rng: np.random.Generator, m: int, loss: str, groups: Vector | None) -> Vector | None:
    """Weights of rows as the loss takes them; None for none. The first four rows always have some."""
    kind = pick(rng, {"none": 5, "uniform": 2, "whole": 2, "ratios": 1.5, "zeros": 2})
    if kind == "none":
        return None
    one = loss in ONE_WEIGHT
    by_group = loss in ("ndcg", "lambda_ndcg", "mrr") and groups is not None
    size = 1 if one else int(groups.max()) + 1 if by_group else m
    if kind == "uniform":
        s = rng.random(size) + 0.01
    elif kind == "whole":
        s = rng.integers(1, 5, size).astype(float)
    elif kind == "ratios":
        s = 10.0 ** rng.uniform(-12, 12, size)
    else:
        s = np.ones(size)
    s = np.full(m, s[0]) if one else s[groups] if by_group else s
    if kind == "zeros" or rng.random() < 0.2:
        s[4:] *= rng.random(m - 4) < 0.7
    if rng.random() < 0.2:
        s *= power(rng, -12, 12)
    return s


def shape(rng: np.random.Generator, loss: str) -> tuple[int, int]:
    """Rows and columns: tiny as a rule, narrow or wide, now and then a few hundred rows."""
    small = loss in oracle.JOINT
    kind = pick(rng, {"narrow": 6, "wide": 3, "one": 0.7, "larger": 0.0 if small else 0.5})
    if kind == "narrow":
        return int(rng.integers(4, 25 if small else 31)), int(rng.integers(1, 11))
    if kind == "wide":
        m = int(rng.integers(4, 15))
        return m, int(rng.integers(2 * m, 5 * m))
    if kind == "one":
        return int(rng.integers(4, 12)), 1
    return int(rng.integers(80, 300)), int(rng.integers(2, 6))


def parameters(rng: np.random.Generator, loss: str, t: float, positives: int, rows: int) -> dict[str, float]:
    """Parameters of the loss, those in units of the labels in their scale."""
    if rng.random() < 0.3 and not loss.endswith("_at_k"):
        return {}
    if loss == "huber_hinge":
        return {"h": pick(rng, {0.5: 1, 0.01: 1, 2.0: 1, 1e-6: 0.3})}
    if loss == "quantile":
        return {"tau": float(pick(rng, {0.5: 1, 0.3: 1, 0.9: 1, 0.001: 0.5, rng.random(): 1}))}
    if loss.endswith("epsilon_insensitive"):
        return {"epsilon": t * pick(rng, {0.0: 1, 0.1: 2, 1.0: 1})}
    if loss == "huber":
        return {"delta": t * pick(rng, {1.0: 2, 0.1: 1, 100.0: 0.5, 1e-6: 0.3})}
    if loss == "novelty":
        return {"nu": pick(rng, {0.1: 1, 0.5: 1, 0.9: 1, rng.uniform(0.01, 0.99): 1})}
    if loss == "f_beta":
        return {"beta": pick(rng, {1.0: 1, 0.5: 1, 2.0: 1, 10.0: 0.3})}
    if loss == "precision_at_k":
        return {"k": float(rng.integers(1, positives + 1))}
    if loss == "recall_at_k":
        return {"k": float(rng.integers(positives, rows + 1))}
    if loss == "ndcg":
        return {"k": float(rng.integers(1, 8))}
    return {}


def problem(rng: np.random.Generator, loss: str) -> Drawn:
    """Draw a problem of a loss."""
    m, d = shape(rng, loss)
    plain = features(rng, m, d)
    c = scale(rng)
    X = c * plain
    storage = pick(rng, {"dense": 5, "fortran": 1, "sparse": 4, "float32": 1})
    if storage == "float32":
        X = X.astype(np.float32).astype(float)
    score = plain @ rng.standard_normal(d)
    groups = rng.integers(0, max(1, m // 4), m) if loss in oracle.RANKING else None
    if groups is not None:
        groups[:4] = 0
    s = weights(rng, m, loss, groups)
    taking = np.arange(m) if s is None else np.flatnonzero(s > 0)
    t = 1.0
    y: Any
    if loss in oracle.BINARY:
        y = two_classes(rng, score, taking)
    elif loss in ("multiclass", "softmax", "ordinal"):
        K = int(rng.integers(2, 5 if m > 4 else 4))
        y = rng.integers(0, K, m).astype(float)
        y[taking[:2]] = [0.0, 1.0]
        if rng.random() < 0.5:
            y = np.clip(np.round(score + (K - 1) / 2), 0, K - 1)
            y[taking[:2]] = [0.0, 1.0]
        y[~np.isin(y, y[taking])] = 0.0  # a class whose rows all have weight 0 does not count
    elif loss in oracle.LABEL_SETS:
        K = int(rng.integers(2, 5))
        y = [tuple(float(k) for k in range(K) if rng.random() < 0.4) for _ in range(m)]
        y[taking[0]], y[taking[1]] = (0.0,), tuple(float(k) for k in range(1, K))
    elif loss in oracle.RANKING:
        y = rng.integers(0, int(rng.integers(2, 6)), m).astype(float)
        y[:2] = [0.0, 1.0]
    elif loss == "novelty":
        y = None
    elif loss == "poisson":
        t = pick(rng, {1.0: 4, power(rng, 0, 6): 1})
        y = np.floor(t * rng.exponential(1.0, m))
        if not y[taking].any():
            y[taking[0]] = 1.0
    else:
        t = scale(rng)
        noise = pick(rng, {0.0: 1, 0.5: 3, 3.0: 1})
        y = score + noise * rng.standard_normal(m)
        kind = pick(rng, {"plain": 6, "offset": 1, "constant": 0.3, "whole": 1, "zeros": 0.3})
        if kind == "offset":
            y = y + power(rng, 0, 9)
        elif kind == "constant":
            y = np.full(m, 1.0)
        elif kind == "whole":
            y = np.round(2 * y)
        elif kind == "zeros":
            y = np.zeros(m)
        y = t * y
    positives = int((y[taking] == y.max()).sum()) if loss in oracle.BINARY else 0
    params = parameters(rng, loss, t, positives, len(taking))
    curved = loss in WITHOUT_FLOOR
    reg = pick(rng, {"l2": 6, "l1": 0 if curved else 1.2, "elastic_net": 1.2})
    l1_ratio = pick(rng, {0.5: 2, 0.1: 1, 0.9: 1} | ({} if curved else {0.0: 0.3, 1.0: 0.3}))
    strength = None
    if rng.random() < 0.15 and loss not in ("roc_area",):
        strength = pick(rng, {"mild": 1, "wild": 0.5, "zeros": 0 if curved else 0.7})
        kinds = {"mild": rng.uniform(0.1, 3, d), "wild": 10.0 ** rng.uniform(-6, 6, d)}
        strength = kinds.get(strength, np.where(rng.random(d) < 0.4, 0.0, 1.0))
        strength[rng.integers(d)] = 1.0
    K = Problem(X, y, loss).coded()[1]
    prior = None
    if rng.random() < 0.1:
        prior = t / c * rng.standard_normal(d if K == 1 or rng.random() < 0.5 else (d, K))
    intercepts = {"none": 1.0}
    if loss == "novelty":
        intercepts = {"free": 1}
    elif loss in oracle.SEVERAL:
        intercepts = {"none": 1, "free": 1.5, "penalised": 1}
    elif loss not in NO_INTERCEPT:
        intercepts = {"none": 1, "free": 1, "penalised": 0.5}
    intercept = pick(rng, intercepts)
    costs = None
    if loss == "multiclass" and rng.random() < 0.3:
        costs = np.round(rng.uniform(0, 4, (K, K)), 1) * (1 - np.eye(K))
    found = Problem(
        X,
        y,
        loss,
        params,
        reg=reg,
        l1_ratio=l1_ratio,
        positive=rng.random() < 0.08,
        feature_lambda=strength,
        prior=prior,
        weights=s,
        groups=groups,
        costs=costs,
        intercept=intercept,
        scaling=pick(rng, {1.0: 3, 10.0: 1, 0.1: 1}) if intercept == "penalised" else 1.0,
    )
    return Drawn(found, strength_of(rng, found, c, t), storage)


def strength_of(rng: np.random.Generator, problem: Problem, c: float, t: float) -> float:
    """A lam: mostly relative to one at which the penalty is about as large as the loss, sometimes any."""
    size = t * t if problem.loss in QUADRATIC else t if problem.loss in KINKED else 1.0
    w = t / c if problem.loss in (*QUADRATIC, *KINKED) else 1.0 / c
    natural = size / ((1.0 - problem.rho) * w * w + problem.rho * w)
    lam = pick(
        rng,
        {
            natural * power(rng, -6, 0.5): 6,
            natural * power(rng, -12, 4): 1.0,
            power(rng, -6, 0): 1.5,
            power(rng, -12, 12): 0.3,
        },
    )
    return float(min(max(lam, 1e-200), 1e200))


# ---- the same problem in other forms


@dataclass(frozen=True)
class Form:
    """A problem with the optimum of another one, times a power of two, and the way back for its points."""

    name: str
    problem: Problem
    lam: float
    back: Callable[[Vector, Any], Point]
    factor: Fraction = Fraction(1)


def _same(w: Vector, b: Any) -> Point:
    return w, b


def _rows(problem: Problem, take: Vector, **changes: Any) -> Problem:
    """The problem with its rows taken by index."""
    y = problem.y
    if y is not None:
        y = [y[i] for i in take] if isinstance(y, list) else y[take]
    s = None if problem.weights is None else problem.weights[take]
    groups = None if problem.groups is None else problem.groups[take]
    offset = None if problem.offset is None else problem.offset[take]
    rows = {"X": problem.X[take], "y": y, "weights": s, "offset": offset, "groups": groups}
    return replace(problem, **(rows | changes))


def form(rng: np.random.Generator, problem: Problem, lam: float) -> Form:
    """Write a problem in another form, at random."""
    m, d = problem.shape
    loss, rho = problem.loss, problem.rho
    repeatable = loss not in (*ONE_WEIGHT, "ndcg", "lambda_ndcg", "mrr")
    scalable = 0.0 < rho < 1.0 or (problem.feature_lambda is not None and not problem.feature_lambda.all())
    weighted = problem.weights is not None and bool(np.isin(problem.weights, np.arange(1.0, 6.0)).all())
    choice = {"weights": 1, "rows": 1, "columns": 1, "signs": 0 if problem.positive else 1}
    choice["X"] = 0 if scalable else 1.5
    choice["y"] = 1.5 if loss in (*QUADRATIC, *KINKED) and not scalable else 0
    choice["repeat"] = 2 if repeatable else 0
    choice["whole"] = 1 if weighted and repeatable and loss != "pairwise" else 0
    choice["zero"] = 0 if problem.weights is not None or loss in oracle.RANKING else 1
    choice["copies"] = 1 if rho in (0.0, 1.0) and not problem.positive else 0
    kind = pick(rng, choice)
    k = int(rng.integers(-30, 31))
    f = 2.0**k
    if kind == "weights":
        return Form(kind, replace(problem, weights=f * problem.s), lam, _same)
    if kind == "rows":
        return Form(kind, _rows(problem, rng.permutation(m)), lam, _same)
    if kind == "repeat":
        times = int(rng.integers(2, 4))
        return Form(kind, _rows(problem, np.repeat(np.arange(m), times)), lam, _same)
    if kind == "whole":
        take = np.repeat(np.arange(m), problem.s.astype(int))
        return Form(kind, _rows(problem, take, weights=None), lam, _same)
    if kind == "zero":
        take = np.concatenate([np.arange(m), rng.integers(0, m, 3)])
        s = np.concatenate([np.ones(m), np.zeros(3)])
        X = problem.X[take]
        X[m:] *= power(rng, -3, 3)
        return Form(kind, _rows(problem, take, X=X, weights=s), lam, _same)
    if kind == "columns":
        order = rng.permutation(d)
        back = np.argsort(order)
        return Form(kind, _columns(problem, problem.X[:, order], order), lam, lambda w, b: (w[back], b))
    if kind == "signs":
        signs = np.where(rng.random(d) < 0.5, -1.0, 1.0)
        prior = problem.prior
        if prior is not None:
            prior = (prior.T * signs).T
        turned = replace(problem, X=problem.X * signs, prior=prior)
        return Form(kind, turned, lam, lambda w, b: ((w.T * signs).T, b))
    if kind == "copies":  # each column twice: half of the weight in each
        order = np.repeat(np.arange(d), 2)
        strength = np.ones(d) if problem.feature_lambda is None else problem.feature_lambda
        prior = None if problem.prior is None else problem.prior / 2.0
        twice = _columns(replace(problem, prior=prior), problem.X[:, order], order)
        twice = replace(twice, feature_lambda=strength[order] * (1.0 if rho else 2.0))
        return Form(kind, twice, lam, lambda w, b: (w[::2] + w[1::2], b))
    prior = None if problem.prior is None else problem.prior / f
    if kind == "X":
        scaled = replace(problem, X=f * problem.X, prior=prior, scaling=problem.scaling)
        if problem.intercept == "penalised":
            scaled = replace(scaled, scaling=f * problem.scaling)
        return Form(kind, scaled, lam * (f if rho else f * f), lambda w, b: (f * w, b))
    params = {p: v * (f if p in ("epsilon", "delta") else 1.0) for p, v in Oracle(problem).params.items()}
    prior = None if problem.prior is None else problem.prior * f
    offset = None if problem.offset is None else problem.offset * f
    scaled = replace(problem, y=f * problem.y, params=params, prior=prior, offset=offset)
    degree = 2 if loss in QUADRATIC else 1
    return Form(
        kind,
        scaled,
        lam * 2.0 ** (k * (degree - (1 if rho else 2))),
        lambda w, b: (w / f, np.asarray(b) / f),
        Fraction(2) ** (k * degree),
    )


def _columns(problem: Problem, X: Vector, order: Vector) -> Problem:
    strength = None if problem.feature_lambda is None else problem.feature_lambda[order]
    prior = None if problem.prior is None else problem.prior[order]
    return replace(problem, X=X, feature_lambda=strength, prior=prior)


# ---- problems whose optimum is known


def from_slopes(rng: np.random.Generator) -> Drawn | None:
    """A regression built backwards from its optimum: slopes of the rows first, then weights, then labels.

    All numbers are short, so that everything is exact in float64; None if it is not.
    """
    loss = pick(rng, dict.fromkeys((*QUADRATIC, *KINKED), 1))
    m, d = int(2 ** rng.integers(1, 5)), int(rng.integers(1, 7))
    grain = 2.0 ** int(rng.integers(-20, 21))  # the unit of X
    unit = 2.0 ** int(rng.integers(-30, 31))  # that of the labels
    X = rng.integers(-3, 4, (m, d)) * grain
    if rng.random() < 0.3:
        X[m // 2 :] = X[: m - m // 2]
    free = rng.random() < 0.5
    tau = pick(rng, {0.5: 1, 0.25: 1, 0.875: 1})
    epsilon, delta = unit * pick(rng, {0.0: 1, 0.5: 1, 2.0: 1}), unit * pick(rng, {1.0: 1, 0.25: 1})
    slopes = rng.integers(-16, 17, m) / 16.0
    if free:
        slopes = slopes - slopes.mean()  # exact: m is a power of two
        slopes /= 2.0
    ends = (tau - 1.0, tau)  # of -r: the loss is tau (y - u) above
    if loss == "quantile":
        slopes = np.clip(slopes, -tau, 1.0 - tau) if not free else slopes * min(map(abs, ends))
    elif rng.random() < 0.7 and not free and loss in KINKED:
        slopes = np.where(rng.random(m) < 0.5, np.sign(slopes), slopes)
    shift = np.where(rng.random(m) < 0.5, 0.0, rng.integers(1, 9, m)) * unit
    params: dict[str, float] = {}
    residual = slopes * 0.0
    if loss == "absolute":
        residual = np.where(abs(slopes) == 1.0, np.sign(slopes) * shift, 0.0)
    elif loss == "quantile":
        params = {"tau": tau}
        residual = np.where(slopes == 1.0 - tau, shift, np.where(slopes == -tau, -shift, 0.0))
    elif loss == "epsilon_insensitive":
        params = {"epsilon": epsilon}
        at_end = np.where(abs(slopes) == 1.0, shift, 0.0)
        residual = np.where(slopes == 0.0, 0.0, np.sign(slopes) * (epsilon + at_end))
    elif loss == "squared":
        slopes = slopes * unit
        residual = slopes
    elif loss == "squared_epsilon_insensitive":
        params = {"epsilon": epsilon}
        slopes = slopes * unit
        residual = np.where(slopes == 0.0, 0.0, np.sign(slopes) * epsilon + slopes / 2.0)
    else:
        params = {"delta": delta}
        slopes = slopes * delta
        residual = np.where(abs(slopes) == delta, slopes + np.sign(slopes) * shift, slopes)
    lam = 2.0 ** int(rng.integers(-30, 11)) * grain * grain / (1.0 if loss in QUADRATIC else unit)
    w = [-Fraction(float(v)) / m / Fraction(lam) for v in (X * slopes[:, None]).sum(axis=0)]
    b = Fraction(int(rng.integers(-9, 10))) * Fraction(unit) * Fraction(2) ** int(rng.integers(0, 30)) * free
    y = [
        sum(Fraction(float(x)) * v for x, v in zip(row, w, strict=True)) + b - Fraction(float(e))
        for row, e in zip(X, residual, strict=True)
    ]
    if any(Fraction(float(v)) != v for v in [*w, *y, b]):
        return None
    found = Problem(X, np.array([float(v) for v in y]), loss, params, intercept="free" if free else "none")
    optimum = Oracle(found).value(np.array([float(v) for v in w]), float(b), lam)
    return Drawn(found, lam, pick(rng, {"dense": 1, "sparse": 1}), Fraction(optimum.low))


def least_squares(problem: Problem, lam: float) -> Fraction | None:
    """The optimum of squared loss with an l2 penalty on all features, by rational elimination."""
    strength = problem.feature_lambda
    if (
        problem.loss != "squared"
        or problem.rho
        or problem.positive
        or problem.shape[1] > 6
        or (strength is not None and not strength.all())
    ):
        return None
    m, d = problem.shape
    exact = np.vectorize(Fraction, otypes=[object])
    X, y, s = exact(problem.X), exact(problem.y), exact(problem.s)
    if problem.offset is not None:
        y = y - exact(problem.offset)
    total = sum(s)
    prior = [Fraction(0)] * d if problem.prior is None else [Fraction(float(v)) for v in problem.prior]
    ridge = [Fraction(lam)] * d
    if strength is not None:
        ridge = [Fraction(lam) * Fraction(float(v)) for v in strength]
    if problem.intercept != "none":
        constant = Fraction(problem.scaling) if problem.intercept == "penalised" else Fraction(1)
        column = np.empty((m, 1), dtype=object)
        column[:, 0] = constant
        X, prior = np.hstack([X, column]), [*prior, Fraction(0)]
        ridge = [*ridge, Fraction(lam) if problem.intercept == "penalised" else Fraction(0)]
    n = len(ridge)
    A = (X.T * s).dot(X) / total
    rhs = (X.T * s).dot(y) / total
    for j in range(n):
        A[j, j] += ridge[j]
        rhs[j] += ridge[j] * prior[j]
    w = _solved(A, rhs)
    e = X.dot(w) - y
    penalty = sum(r * (v - p) ** 2 for r, v, p in zip(ridge, w, prior, strict=True))
    return Fraction((s * e * e).sum()) / (2 * total) + penalty / 2


def _solved(A: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Gaussian elimination on fractions."""
    A, x = A.copy(), rhs.copy()
    n = len(x)
    for j in range(n):
        pivot = next(i for i in range(j, n) if A[i, j] != 0)
        A[[j, pivot]], x[[j, pivot]] = A[[pivot, j]], x[[pivot, j]]
        for i in range(j + 1, n):
            factor = A[i, j] / A[j, j]
            if factor:
                A[i, j:] = A[i, j:] - factor * A[j, j:]
                x[i] = x[i] - factor * x[j]
    for j in reversed(range(n)):
        x[j] = (x[j] - A[j, j + 1 :].dot(x[j + 1 :])) / A[j, j]
    return x


def one_feature(problem: Problem, lam: float) -> Fraction | None:
    """The optimum of a problem in one number, w, or a free b if X is zero and w 0: by its kinks.

    J is convex, and a parabola between one kink and the next: the lowest kink is found by bisection, then the
    lowest point of the parabolas on both sides of it from three values each.
    """
    if problem.loss not in oracle.RATIONAL or len(problem.X) > 60:
        return None
    over_b = problem.intercept == "free" and not problem.X.any() and problem.prior is None
    if not over_b and (problem.shape[1] != 1 or problem.intercept != "none"):
        return None
    known = Oracle(problem)
    taking = [i for i in range(len(problem.X)) if problem.s[i] > 0]
    rows = [Fraction(1) if over_b else Fraction(float(v)) for v in problem.X[:, 0]]
    offset = [Fraction(float(v)) for v in known.offset[:, 0]]
    kinks = {Fraction(0)}
    prior = Fraction(0 if problem.prior is None else float(problem.prior.ravel()[0]))
    strength = Fraction(1 if problem.feature_lambda is None else float(problem.feature_lambda[0]))
    if not over_b:
        kinks.add(prior)
    for i in taking:
        if rows[i]:
            kinks |= {(place - offset[i]) / rows[i] for place in _places(known, i)}
    rho = Fraction(problem.rho)

    def at(x: Fraction) -> Fraction:
        risk = known.rational_risk([x * row + o for row, o in zip(rows, offset, strict=True)], x)
        v = Fraction(0) if over_b else abs(x - prior)
        return risk + Fraction(lam) * strength * (rho * v + (1 - rho) * v * v / 2)

    if problem.positive and not over_b:
        kinks = {x for x in kinks if x >= 0}
    ordered = sorted(kinks)
    width = max(1, *(abs(x) for x in ordered))
    # Parabolas without a kink beyond them: their lowest point is found from any three values.
    if not problem.positive or over_b:
        ordered.insert(0, ordered[0] - width)
    ordered.append(ordered[-1] + width)
    low, high = 0, len(ordered) - 1
    while low < high:
        middle = (low + high) // 2
        if at(ordered[middle]) <= at(ordered[middle + 1]):
            high = middle
        else:
            low = middle + 1
    best = at(ordered[low])
    for k in (low - 1, low):
        if 0 <= k < len(ordered) - 1:
            left, right = ordered[k], ordered[k + 1]
            outer_left = k == 0 and not (problem.positive and not over_b)
            outer_right = k == len(ordered) - 2
            best = min(best, _lowest(at, left, right, outer_left, outer_right))
    return best


def _lowest(
    at: Callable[[Fraction], Fraction], left: Fraction, right: Fraction, open_left: bool, open_right: bool
) -> Fraction:
    """The least of a parabola on an interval, which may be open at either end."""
    middle, h = (left + right) / 2, (right - left) / 2
    a, b, c = at(left), at(middle), at(right)
    bend, slope = a - 2 * b + c, (c - a) / 2
    if bend <= 0:
        return min(a, c)
    x = middle - h * slope / bend
    if (x < left and not open_left) or (x > right and not open_right):
        return min(a, c)
    return at(x)


def _places(known: Oracle, i: int) -> list[Fraction]:
    """Margins at which a row's loss has a kink, or one of its second derivative."""
    params = {k: Fraction(v) for k, v in known.params.items()}
    y, loss = Fraction(known.y[i].item()), known.problem.loss
    if loss in ("hinge", "squared_hinge"):
        return [y]
    if loss == "huber_hinge":
        return [y * (1 - params["h"]), y * (1 + params["h"])]
    if loss == "novelty":
        return [Fraction(0)]
    if loss == "huber":
        return [y - params["delta"], y + params["delta"]]
    if loss.endswith("epsilon_insensitive"):
        return [y - params["epsilon"], y + params["epsilon"]]
    return [] if loss == "squared" else [y]


def optimum(problem: Problem, lam: float) -> Fraction | None:
    """The exact optimum if there is a formula for it."""
    found = least_squares(problem, lam)
    return one_feature(problem, lam) if found is None else found


def with_offsets(rng: np.random.Generator, drawn: Drawn) -> Drawn:
    """Give the rows of some problems offsets, mostly of the size of margins."""
    problem = drawn.problem
    if rng.random() > 0.25:
        return drawn
    m, K = len(problem.X), Oracle(problem).columns
    each = (m, K) if problem.loss in oracle.SEVERAL and (K > 1 or rng.random() < 0.5) else (m,)
    if problem.loss == "multilabel" and rng.random() < 0.5:
        each = (m,)
    offset = rng.standard_normal(each)
    if problem.loss in (*QUADRATIC, *KINKED):
        offset *= max(float(np.abs(problem.y).max()), 1e-12)
    kind = pick(rng, {"plain": 5, "whole": 1, "few": 1, "large": 1, "alike": 0.5})
    if kind == "whole":
        offset = np.round(offset)
    elif kind == "few":
        offset *= rng.random(each) < 0.3
    elif kind == "large":
        offset *= 30.0 if problem.loss in ("poisson", "exponential") else power(rng, 0, 6)
    elif kind == "alike":
        offset[:] = offset[0]
    return replace(drawn, problem=replace(problem, offset=offset))


def drawn(seed: int, index: int, losses: tuple[str, ...] = oracle.ALL) -> tuple[Drawn, np.random.Generator]:
    """Draw the problem of a seed and an index, and the generator for further draws."""
    rng = np.random.default_rng([seed, index])
    kind = pick(rng, {"any": 85, "slopes": 7, "least squares": 4, "one": 4})
    known = None
    if kind == "slopes":
        known = next((k for k in (from_slopes(rng) for _ in range(20)) if k is not None), None)
    if known is not None and known.problem.loss in losses:
        return known, rng
    among = losses
    if kind == "least squares" and "squared" in losses:
        among = ("squared",)
    elif kind == "one":
        among = tuple(name for name in losses if name in oracle.RATIONAL) or losses
    found = problem(rng, among[index % len(among)])
    if kind == "one":
        whole = found.problem
        prior = None if whole.prior is None else whole.prior[:1]
        strength = None if whole.feature_lambda is None else np.ones(1)
        intercept = "none" if whole.loss != "novelty" and rng.random() < 0.6 else "free"
        X = whole.X[:, :1] if intercept == "none" else 0.0 * whole.X[:, :1]
        prior = prior if intercept == "none" else None
        one = replace(whole, X=X, prior=prior, feature_lambda=strength, intercept=intercept)
        found = replace(found, problem=one)
    # Of a generator of their own, so that the other draws do not depend on them.
    found = with_offsets(np.random.default_rng([seed, index, 1]), found)
    return replace(found, optimum=optimum(found.problem, found.lam)), rng
