"""J in exact arithmetic, from the formulas of docs/losses.md and nothing else of the package.

Every float64 is an integer over a power of two. So are margins, penalties and the losses without exp or log:
they are computed in integers, multiples of 1 / one for a power of two that fits all numbers of the problem,
and J is a fraction without error. exp and log are enclosed: by ball arithmetic (python-flint) if it is
installed, else by `decimal`, whose exp and ln are rounded correctly. J is an interval of fractions, and a
point if nothing had to be enclosed.
"""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

try:
    import flint
except ImportError:
    flint = None

ENCLOSED_BY = "decimal" if flint is None else "python-flint"

SEVERAL = ("multiclass", "softmax", "multilabel", "multilabel_ranking")
LABEL_SETS = ("multilabel", "multilabel_ranking")
BINARY = (
    *("hinge", "squared_hinge", "huber_hinge", "logistic", "exponential"),
    *("roc_area", "f_beta", "precision_at_k", "recall_at_k", "prbep"),
)
CONTINGENCY = ("f_beta", "precision_at_k", "recall_at_k", "prbep")
RANKING = ("pairwise", "ndcg", "lambda_ndcg", "mrr")
JOINT = ("roc_area", *CONTINGENCY, *RANKING, "ordinal")
REGRESSION = (
    *("squared", "absolute", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive", "huber"),
    "poisson",
)
SCALAR = ("hinge", "squared_hinge", "huber_hinge", "logistic", "exponential", *REGRESSION, "novelty")
ALL = (*SCALAR, *SEVERAL, *JOINT)

DEFAULTS = {
    "huber_hinge": {"h": 0.5},
    "quantile": {"tau": 0.5},
    "epsilon_insensitive": {"epsilon": 0.1},
    "squared_epsilon_insensitive": {"epsilon": 0.1},
    "huber": {"delta": 1.0},
    "novelty": {"nu": 0.1},
    "f_beta": {"beta": 1.0},
    "precision_at_k": {"k": 10.0},
    "recall_at_k": {"k": 10.0},
    "ndcg": {"k": 10.0},
}


class Interval(NamedTuple):
    """Bounds of a number: fractions, or infinities if exp overflowed."""

    low: Fraction | float
    high: Fraction | float


RAN_AWAY = Interval(math.inf, math.inf)

# ---- numbers


def dyadic(values: Any) -> tuple[np.ndarray, int]:
    """Return integers n and a number of bits with ``values == n / 2**bits`` exactly."""
    given = np.asarray(values, np.float64)
    ratios = [v.as_integer_ratio() for v in given.ravel().tolist()]
    bits = max((den for _, den in ratios), default=1).bit_length() - 1
    found = np.empty(len(ratios), dtype=object)
    found[:] = [num << (bits - den.bit_length() + 1) for num, den in ratios]
    return found.reshape(given.shape), bits


FIXED = 400
"""Bits after the point of enclosed numbers."""

FARTHEST = 3000
"""Margins beyond which exp is not taken: float64 ends at 710."""

DIGITS = 140
"""Digits of `decimal` for `FIXED` bits, of numbers up to about 1e9."""


class RanAwayError(Exception):
    """An exponential of a number beyond `FARTHEST`."""


def exp_bounds(n: int, bits: int) -> tuple[int, int]:
    """Bounds of ``exp(n / 2**bits)`` in units of ``2**-FIXED``."""
    whole = n >> bits
    if whole > FARTHEST:
        raise RanAwayError
    if whole < -FARTHEST:
        return 0, 1
    if flint is None:
        digits = DIGITS + max(0, whole) // 2
        with decimal.localcontext() as context:
            context.prec = digits
            # Rounding the argument to this number of digits after the point changes exp by as little.
            argument = decimal.Decimal(n) / decimal.Decimal(1 << bits)
            return _rounded(argument.exp(), digits - 8)
    with flint.ctx.workprec(FIXED + 64 + 2 * max(0, whole)):
        return _ends(flint.arb((n, -bits)).exp())


def log_bounds(low: int, high: int) -> tuple[int, int]:
    """Bounds of the logarithm of a number within positive ones, all in units of ``2**-FIXED``."""
    if flint is None:
        with decimal.localcontext() as context:
            context.prec = DIGITS
            unit = decimal.Decimal(1 << FIXED)
            ends = [_rounded((decimal.Decimal(n) / unit).ln(), DIGITS - 8) for n in (low, high)]
    else:
        with flint.ctx.workprec(FIXED + 64):
            ends = [_ends(flint.arb((n, -FIXED)).log()) for n in (low, high)]
    return ends[0][0], ends[1][1]


def _rounded(value: decimal.Decimal, digits: int) -> tuple[int, int]:
    """Bounds of a number from its rounded value, right to `digits` digits or `digits` decimals."""
    num, den = value.as_integer_ratio()
    slack = (abs(num) // den + 1) * (1 << FIXED) // 10**digits + 1
    n = (num << FIXED) // den
    return n - slack, n + slack + 1


def _ends(ball: Any) -> tuple[int, int]:
    low, high = (end.man_exp() for end in (ball.lower(), ball.upper()))
    return _shift(*low), -_shift(-high[0], high[1])


def _shift(mantissa: Any, exponent: Any) -> int:
    """Round ``mantissa * 2**exponent`` down to units of ``2**-FIXED``."""
    n, places = int(mantissa), int(exponent) + FIXED
    return n << places if places >= 0 else n >> -places


@lru_cache(maxsize=1000)
def discount_bounds(place: int) -> tuple[Fraction, Fraction]:
    """Bounds of ``1 / log2(1 + place)`` for the places 1, 2, ..."""
    two = log_bounds(2 << FIXED, 2 << FIXED)
    here = log_bounds((1 + place) << FIXED, (1 + place) << FIXED)
    return Fraction(two[0], here[1]), Fraction(two[1], here[0])


# ---- losses of one margin: numbers are multiples of 1 / one, values of 1 / (divisor one**degree)


class Units(NamedTuple):
    """The numbers of a problem in one unit."""

    one: Any
    y: np.ndarray
    params: dict[str, Any]


def _positive(v: np.ndarray) -> np.ndarray:
    return np.maximum(v, 0)


def _huber_hinge(u: np.ndarray, n: Units) -> np.ndarray:
    h, v = n.params["h"], n.y * u
    return np.where(n.one - v <= h, _positive(n.one + h - v) ** 2, 4 * h * (n.one - v))


def _quantile(u: np.ndarray, n: Units) -> np.ndarray:
    tau = n.params["tau"]
    return np.maximum(tau * (n.y - u), (n.one - tau) * (u - n.y))


def _huber(u: np.ndarray, n: Units) -> np.ndarray:
    e, delta = abs(u - n.y), n.params["delta"]
    return np.where(e <= delta, e * e, delta * (2 * e - delta))


class Scalar(NamedTuple):
    """A loss of one margin without exp."""

    degree: int
    divisor: Callable[[dict[str, Fraction]], Fraction | int]
    formula: Callable[[np.ndarray, Units], np.ndarray]


def _no(params: dict[str, Fraction]) -> int:
    return 1


RATIONAL: dict[str, Scalar] = {
    "hinge": Scalar(1, _no, lambda u, n: _positive(n.one - n.y * u)),
    "squared_hinge": Scalar(2, _no, lambda u, n: _positive(n.one - n.y * u) ** 2),
    "huber_hinge": Scalar(2, lambda p: 4 * p["h"], _huber_hinge),
    "squared": Scalar(2, lambda p: 2, lambda u, n: (u - n.y) ** 2),
    "absolute": Scalar(1, _no, lambda u, n: abs(u - n.y)),
    "quantile": Scalar(2, _no, _quantile),
    "epsilon_insensitive": Scalar(1, _no, lambda u, n: _positive(abs(u - n.y) - n.params["epsilon"])),
    "squared_epsilon_insensitive": Scalar(
        2, _no, lambda u, n: _positive(abs(u - n.y) - n.params["epsilon"]) ** 2
    ),
    "huber": Scalar(2, lambda p: 2, _huber),
    "novelty": Scalar(1, lambda p: p["nu"], lambda u, n: _positive(-u)),
}


# ---- problems


@dataclass(frozen=True, eq=False)
class Problem:
    """A problem as `bmrm.solve` is given it, except for lam: X dense float64, labels as users write them."""

    X: np.ndarray
    y: Any
    loss: str
    params: dict[str, float] = field(default_factory=dict)
    reg: str = "l2"
    l1_ratio: float = 0.5
    positive: bool = False
    feature_lambda: np.ndarray | None = None
    prior: np.ndarray | None = None
    weights: np.ndarray | None = None
    offset: np.ndarray | None = None
    groups: np.ndarray | None = None
    costs: np.ndarray | None = None
    intercept: str = "none"
    """"none", "free" or "penalised"."""
    scaling: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def rho(self) -> float:
        return {"l2": 0.0, "l1": 1.0, "elastic_net": self.l1_ratio}[self.reg]

    @property
    def s(self) -> np.ndarray:
        return np.ones(len(self.X)) if self.weights is None else self.weights

    def coded(self) -> tuple[Any, int]:
        """Labels as formulas take them, and the number of margins of a row."""
        m = len(self.X)
        if self.loss in LABEL_SETS:
            classes = sorted({label for row in self.y for label in row})
            return np.array([[1 if c in row else -1 for c in classes] for row in self.y]), len(classes)
        if self.loss == "novelty":
            return np.zeros(m), 1
        if self.loss in BINARY:
            return np.where(self.y == np.max(self.y), 1, -1), 1
        if self.loss in ("multiclass", "softmax", "ordinal"):
            classes, codes = np.unique(self.y, return_inverse=True)
            return codes, len(classes) if self.loss != "ordinal" else 1
        return np.asarray(self.y, np.float64), 1


class Oracle:
    """J of a problem at any point and any lam.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.params = {k: float(v) for k, v in (DEFAULTS.get(problem.loss, {}) | problem.params).items()}
        self.y, self.columns = problem.coded()
        self._X, self._x_bits = dyadic(problem.X)
        self._s, _ = dyadic(problem.s)
        self._total = sum(self._s)
        taking = np.flatnonzero(problem.s > 0)
        self._rows = [int(i) for i in taking]
        regression = problem.loss in REGRESSION
        self._labels, self._y_bits = dyadic(self.y) if regression else (self.y.astype(object), 0)
        self._param_ints = {k: dyadic(v) for k, v in self.params.items()}
        self._costs = None if problem.costs is None else dyadic(problem.costs)
        d, K = problem.X.shape[1], self.columns
        fl = np.ones(d) if problem.feature_lambda is None else problem.feature_lambda
        self._strength, self._strength_bits = dyadic(fl)
        prior = np.zeros(d) if problem.prior is None else np.asarray(problem.prior, np.float64)
        self._prior = dyadic(np.repeat(prior[:, None], K, axis=1) if prior.ndim == 1 else prior)
        offset = np.zeros(len(problem.X)) if problem.offset is None else problem.offset
        self.offset = np.broadcast_to(offset.reshape(len(offset), -1), (len(offset), K))
        self._offset, self._offset_bits = dyadic(self.offset)

    # ---- J and its parts

    def value(self, w: np.ndarray, b: Any, lam: float) -> Interval:
        """Bounds of J at weights (d,) or (d, K) and an intercept or K of them."""
        risk = self.risk(w, b)
        if risk is RAN_AWAY:
            return RAN_AWAY
        penalty = Fraction(lam) * self.omega(w, b)
        return Interval(risk.low + penalty, risk.high + penalty)

    def omega(self, w: np.ndarray, b: Any) -> Fraction:
        """The regulariser without lam."""
        W, w_bits = dyadic(np.reshape(w, (self.problem.X.shape[1], -1)))
        P, p_bits = self._prior
        bits = max(w_bits, p_bits)
        v = abs((W << (bits - w_bits)) - (P << (bits - p_bits)))
        f, shared = self._strength[:, None], 1 << self._strength_bits
        kinked = Fraction(int((f * v).sum()), shared << bits)
        bent = Fraction(int((f * v * v).sum()), shared << (2 * bits))
        if self.problem.intercept == "penalised":
            for value in np.atleast_1d(b).tolist():
                v_b = abs(Fraction(value) / Fraction(self.problem.scaling))
                kinked, bent = kinked + v_b, bent + v_b * v_b
        rho = Fraction(self.problem.rho)
        return rho * kinked + (1 - rho) * bent / 2

    def risk(self, w: np.ndarray, b: Any) -> Interval:
        """Bounds of the weighted mean loss."""
        W, w_bits = dyadic(np.reshape(w, (self.problem.X.shape[1], -1)))
        B, b_bits = dyadic(np.atleast_1d(b))
        others = [bits for _, bits in self._param_ints.values()]
        others += [] if self._costs is None else [self._costs[1]]
        bits = max(self._x_bits + w_bits, b_bits, self._y_bits, self._offset_bits, *others, 0)
        u = (self._X.dot(W) << (bits - self._x_bits - w_bits)) + (B << (bits - b_bits))
        u = u + (self._offset << (bits - self._offset_bits))
        params = {k: int(n) << (bits - own) for k, (n, own) in self._param_ints.items()}
        if self.problem.loss in REGRESSION:
            units = Units(1 << bits, self._labels << (bits - self._y_bits), params)
        else:
            units = Units(1 << bits, self._labels, params)
        try:
            return self._risk(u if self.columns > 1 or self._several else u[:, 0], units, bits, b)
        except RanAwayError:
            return RAN_AWAY

    @property
    def _several(self) -> bool:
        return self.problem.loss in SEVERAL

    def rational_risk(self, u: list[Fraction], b: Fraction) -> Fraction:
        """The risk at margins that are any fractions, of a loss in `RATIONAL`."""
        exact = np.vectorize(Fraction, otypes=[object])
        units = Units(
            Fraction(1),
            exact(self.y.tolist()) if len(self.y) else self.y,
            {k: Fraction(v) for k, v in self.params.items()},
        )
        given = np.empty(len(u), dtype=object)
        given[:] = u
        return self._scalar(given, units, b).low

    # ---- risks by kind

    def _risk(self, u: np.ndarray, n: Units, bits: int, b: Any) -> Interval:
        loss = self.problem.loss
        if loss in RATIONAL:
            return self._scalar(u, n, Fraction(float(np.atleast_1d(b)[0])))
        if loss in ("logistic", "exponential", "poisson"):
            return self._exponential(u, n, bits)
        if self._several:
            return self._softmax(u, bits) if loss == "softmax" else self._classes(u, n)
        values: list[int] = u.tolist()
        if loss == "roc_area":
            return _exact(self._roc(values, n.one))
        if loss in CONTINGENCY:
            return _exact(self._contingency(values, n.one))
        if loss == "ordinal":
            return _exact(self._ordinal(values, n.one))
        return self._ranking(values, n.one)

    def _scalar(self, u: np.ndarray, n: Units, b: Fraction) -> Interval:
        kind = RATIONAL[self.problem.loss]
        values = kind.formula(u, n)
        params = {k: Fraction(v) for k, v in self.params.items()}
        total = Fraction((self._s * values).sum()) / (
            self._total * n.one**kind.degree * Fraction(kind.divisor(params))
        )
        return _exact(total + b if self.problem.loss == "novelty" else total)

    def _exponential(self, u: np.ndarray, n: Units, bits: int) -> Interval:
        low = high = linear = 0
        loss, unit = self.problem.loss, 1 << FIXED
        for i in self._rows:
            s = self._s[i]
            if loss == "poisson":
                one = exp_bounds(u[i], bits)
                linear -= s * n.y[i] * u[i]
            elif loss == "exponential":
                one = exp_bounds(-n.y[i] * u[i], bits)
            else:
                t = -n.y[i] * u[i]
                tail = exp_bounds(-abs(t), bits)
                one = log_bounds(unit + tail[0], unit + tail[1])
                linear += s * max(t, 0) << bits
            low, high = low + s * one[0], high + s * one[1]
        return self._mean(low, high, Fraction(linear, self._total << (2 * bits)))

    def _softmax(self, u: np.ndarray, bits: int) -> Interval:
        low = high = linear = 0
        for i in self._rows:
            s, row = self._s[i], u[i].tolist()
            top = max(row)
            ends = [exp_bounds(v - top, bits) for v in row]
            one = log_bounds(sum(end[0] for end in ends), sum(end[1] for end in ends))
            low, high = low + s * one[0], high + s * one[1]
            linear += s * (top - row[self.y[i]])
        return self._mean(low, high, Fraction(linear, self._total << bits))

    def _mean(self, low: int, high: int, more: Fraction) -> Interval:
        whole = self._total << FIXED
        return Interval(more + Fraction(low, whole), more + Fraction(high, whole))

    def _classes(self, u: np.ndarray, n: Units) -> Interval:
        total = 0
        for i in self._rows:
            row, y = u[i].tolist(), self.y[i]
            if self.problem.loss == "multiclass":
                if self._costs is None:
                    costs = [0 if c == y else n.one for c in range(len(row))]
                else:
                    ints, own = self._costs
                    costs = [int(v) * n.one >> own for v in ints[y]]
                value = max(v + cost for v, cost in zip(row, costs, strict=True)) - row[y]
            elif self.problem.loss == "multilabel":
                value = sum(max(0, n.one - int(c) * v) for c, v in zip(y, row, strict=True))
            else:
                inside = [v for c, v in zip(y, row, strict=True) if c > 0]
                outside = [v for c, v in zip(y, row, strict=True) if c < 0]
                value = max(0, n.one + max(outside) - min(inside)) if inside and outside else 0
            total += self._s[i] * value
        return _exact(Fraction(total, self._total * n.one))

    def _roc(self, u: list[int], one: int) -> Fraction:
        positive = [i for i in self._rows if self.y[i] > 0]
        negative = [i for i in self._rows if self.y[i] < 0]
        return self._pairs([(i, j) for i in positive for j in negative], u, one)

    def _pairs(self, pairs: list[tuple[int, int]], u: list[int], one: int) -> Fraction:
        s = self._s
        total = sum(s[i] * s[j] * max(0, one - u[i] + u[j]) for i, j in pairs)
        return Fraction(total, sum(s[i] * s[j] for i, j in pairs) * one)

    def _contingency(self, u: list[int], one: int) -> Fraction:
        """The largest over c of the positives and b of the negatives labelled wrongly, the best of each."""
        positive = sorted(u[i] for i in self._rows if self.y[i] > 0)
        negative = sorted((u[i] for i in self._rows if self.y[i] < 0), reverse=True)
        rows, all_positive = len(self._rows), len(positive)
        left = [0, *itertools.accumulate(-v for v in positive)]
        right = [0, *itertools.accumulate(negative)]
        k = self.params.get("k", 1.0)
        k = int(k) if k >= 1 else max(1, round(k * rows))
        beta = Fraction(self.params.get("beta", 1.0)) ** 2
        found = []
        for c, b in itertools.product(range(all_positive + 1), range(len(negative) + 1)):
            a, labelled = all_positive - c, all_positive - c + b
            if self.problem.loss == "f_beta":
                delta = 1 - (1 + beta) * a / ((1 + beta) * a + b + beta * c)
            elif self.problem.loss == "precision_at_k":
                if labelled < k:
                    continue
                delta = 1 - Fraction(a, labelled)
            else:
                if labelled > k if self.problem.loss == "recall_at_k" else labelled != all_positive:
                    continue
                delta = 1 - Fraction(a, all_positive)
            found.append((delta, left[c] + right[b]))
        # Exactly only where it may be the largest: sums are rounded once in float64.
        near = [float(delta) + float(Fraction(n, rows * one)) for delta, n in found]
        least = max(near) - 1e-12 * max(1.0, *(abs(v) for v in near))
        return max(
            delta + Fraction(n, rows * one) for (delta, n), v in zip(found, near, strict=True) if v >= least
        )

    def _ordinal(self, u: list[int], one: int) -> Fraction:
        """Each threshold on its own: the least is at a kink, at which some row has a margin of 1."""
        s, total = self._s, 0
        for k in range(int(self.y.max())):
            side = {i: 1 if self.y[i] > k else -1 for i in self._rows}
            kinks = sorted({u[i] - side[i] * one for i in self._rows})

            def value(theta: int, side: dict[int, int] = side) -> int:
                return sum(s[i] * max(0, one - side[i] * (u[i] - theta)) for i in self._rows)

            low, high = 0, len(kinks) - 1
            while low < high:  # convex in theta
                middle = (low + high) // 2
                if value(kinks[middle]) <= value(kinks[middle + 1]):
                    high = middle
                else:
                    low = middle + 1
            total += value(kinks[low])
        return Fraction(total, self._total * one)

    def _ranking(self, u: list[int], one: int) -> Interval:
        loss = self.problem.loss
        labels = np.asarray(self.y, np.float64)
        groups: dict[Any, list[int]] = {}
        for i in self._rows:
            groups.setdefault(self.problem.groups[i], []).append(i)
        low: Fraction = Fraction(0)
        high: Fraction = Fraction(0)
        total = Fraction(0)
        for rows in groups.values():
            grades = [bool(labels[i] > 0) if loss == "mrr" else float(labels[i]) for i in rows]
            if len(set(grades)) < 2:
                continue
            share = Fraction(sum(self._s[i] for i in rows), len(rows))
            margins = [u[i] for i in rows]
            if loss == "pairwise":
                pairs = [(i, j) for i in rows for j in rows if labels[i] > labels[j]]
                value = _exact(self._pairs(pairs, u, one))
            elif loss == "mrr":
                value = _exact(first_relevant(margins, grades, one))
            elif loss == "lambda_ndcg":
                value = graded_pairs(margins, grades, one)
            else:
                value = assigned(margins, grades, one, int(self.params["k"]))
            low, high, total = low + share * value.low, high + share * value.high, total + share
        return Interval(low / total, high / total)

    # ---- size of the terms that cancel

    def terms(self, w: np.ndarray, b: Any, lam: float) -> float:
        """About the sum of the absolute terms of J: float64 holds J to some units in the last place of it."""
        problem = self.problem
        W = np.abs(np.reshape(w, (problem.X.shape[1], -1)))
        B = np.abs(np.atleast_1d(b))
        with np.errstate(all="ignore"):
            sizes = (np.abs(problem.X) @ W + B + np.abs(self.offset)).max(axis=1)
            if problem.loss in REGRESSION:
                sizes = sizes + np.abs(self.y)
            share = problem.s / problem.s.sum()
            steep = self.steepness(w, b)
            found = float((share * np.where(problem.s > 0, sizes * steep, 0.0)).sum())
            if problem.loss in JOINT:
                found = 2.0 * float(sizes[problem.s > 0].max()) * self._joint_slope()
            if problem.loss == "novelty":
                found += float(B[0])
        P = np.abs(self._prior[0].astype(float) / 2.0 ** self._prior[1])
        f = (self._strength.astype(float) / 2.0**self._strength_bits)[:, None]
        rho = problem.rho
        penalty = float((f * (rho * (W + P) + (1.0 - rho) * (W + P) ** 2 / 2.0)).sum())
        return found + lam * penalty

    def steepness(self, w: np.ndarray, b: Any) -> np.ndarray:
        """About the size of the derivative of each row's loss."""
        problem = self.problem
        z = problem.X @ np.reshape(w, (problem.X.shape[1], -1)) + np.atleast_1d(b) + self.offset
        if problem.loss in SEVERAL or problem.loss in JOINT:
            return np.full(len(z), 2.0)
        u, y, loss = z[:, 0], self.y, problem.loss
        if loss in ("squared", "squared_epsilon_insensitive"):
            return 2.0 * np.abs(u - y)
        if loss == "huber":
            return np.minimum(np.abs(u - y), self.params["delta"])
        if loss == "squared_hinge":
            return 2.0 * np.maximum(0.0, 1.0 - y * u)
        if loss == "exponential":
            return np.exp(-y * u)
        if loss == "logistic":
            return 1.0 / (1.0 + np.exp(y * u))
        if loss == "poisson":
            return np.exp(u) + np.abs(y)
        return np.full(len(u), 1.0 / self.params["nu"] if loss == "novelty" else 1.0)

    def _joint_slope(self) -> float:
        return (
            float(len(np.unique(self.y))) if self.problem.loss in ("ordinal", "lambda_ndcg", "ndcg") else 1.0
        )


def _exact(value: Fraction) -> Interval:
    return Interval(value, value)


def first_relevant(u: list[int], relevant: list[bool], one: int) -> Fraction:
    """MRR's bound of a group: each rank of the first relevant row, with the best order for it.

    Rows before the first relevant one are before all of these. Each other pair may be in the better order,
    except the pairs of the first relevant row, which is best the one of the largest margin.
    """
    good = sorted((v for v, g in zip(u, relevant, strict=True) if g), reverse=True)
    bad = sorted((v for v, g in zip(u, relevant, strict=True) if not g), reverse=True)
    before = [sum(v - g for g in good) for v in bad]
    after = [sum(max(0, v - g) for g in good[1:]) for v in bad]
    pairs, value, best = len(good) * len(bad), sum(after), None
    for rank in range(1, len(bad) + 2):
        found = 1 - Fraction(1, rank) + Fraction(value, pairs * one)
        best = found if best is None else max(best, found)
        if rank <= len(bad):
            value += before[rank - 1] - after[rank - 1]
    return best


def gain(grade: float) -> Fraction:
    """``2**grade - 1`` of a whole grade."""
    return Fraction(2 ** int(grade) - 1)


def graded_pairs(u: list[int], grades: list[float], one: int) -> Interval:
    """lambda_ndcg's value of a group."""
    total = sum(
        (gain(a) - gain(b)) * max(0, one - v + z)
        for v, a in zip(u, grades, strict=True)
        for z, b in zip(u, grades, strict=True)
        if a > b
    )
    low, high = (sum(d[k] * gain(g) for d, g in _ideal(grades)) for k in (0, 1))
    swap = discount_bounds(2)  # 1 / log2(3)
    total = total / one
    return Interval((1 - swap[1]) * total / high, (1 - swap[0]) * total / low)


def _ideal(grades: list[float]) -> list[tuple[tuple[Fraction, Fraction], float]]:
    ordered = sorted(grades, reverse=True)
    return [(discount_bounds(place), g) for place, g in enumerate(ordered, 1)]


def assigned(u: list[int], grades: list[float], one: int, k: int) -> Interval:
    """NDCG's bound of a group: the linear assignment, which one sort solves (rearrangement inequality)."""
    n, ends = len(u), []
    discounts = [discount_bounds(place) if place <= k else (Fraction(0),) * 2 for place in range(1, n + 1)]
    ordered = sorted(range(n), key=lambda i: -grades[i])
    for near, far in ((0, 1), (1, 0)):
        best = sum(discounts[p][far] * gain(grades[i]) for p, i in enumerate(ordered))
        best_other = sum(discounts[p][near] * gain(grades[i]) for p, i in enumerate(ordered))
        middle = (best + best_other) / 2
        order = sorted(range(n), key=lambda i: -(Fraction(u[i], one) - gain(grades[i]) / middle))
        anchors: list[tuple[Fraction, Fraction]] = [(Fraction(0),) * 2] * n
        p = 0
        while p < n:
            q = p
            while q < n and grades[ordered[q]] == grades[ordered[p]]:
                q += 1
            for t in range(p, q):
                anchors[ordered[t]] = tuple(sum(d[e] for d in discounts[p:q]) / (q - p) for e in (0, 1))
            p = q
        # A sum over rows of (discount - anchor) u, less DCG over its ideal: each end as far as it goes.
        value = Fraction(1)
        for p, i in enumerate(order):
            factor = [discounts[p][0] - anchors[i][1], discounts[p][1] - anchors[i][0]]
            if discounts[p] == anchors[i]:
                factor = [Fraction(0)] * 2
            margin = Fraction(u[i], one)
            products = (factor[0] * margin, factor[1] * margin)
            value += min(products) if near == 0 else max(products)
            value -= discounts[p][far] * gain(grades[i]) / (best_other if near == 0 else best)
        ends.append(value)
    return Interval(min(ends), max(ends))
