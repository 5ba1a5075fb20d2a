"""Solves of random problems, each compared with exact arithmetic.

A case is a problem with several solves of it: cold, warm, to other tolerances, along a path, from a
checkpoint, as the refit and the folds of a selection, in equivalent forms. Whatever point one of them
attains, every bound of the others must be at most J there.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import oracle
import problems
import scipy.sparse as sp
from oracle import Oracle, Problem
from problems import Drawn, pick

import bmrm
from bmrm.errors import BmrmError
from bmrm.linear.models.checkpoint import Checkpoint, save
from bmrm.linear.models.checkpoint import Problem as Described
from bmrm.linear.regularizers import RADIUS

try:
    from bmrm.linear.warm_start import problem_of
except ImportError:
    problem_of = None

WELL_CONDITIONED = 100.0
"""A solve must converge if the rounding of J's terms times this is below tol |J|."""

FAR = 1e-11
"""Share of the terms of J by which an objective may be off."""

ULP = Fraction(1, 2**52)
UNDERFLOW = Fraction(1, 2**1000)
"""A J below this counts as 0: squares in float64 underflow there."""

NIL = Fraction(1, 10**15)
"""Share of the documented scale below which an optimum counts as 0."""

LOOSE_WITHOUT_PENALTY = 1e-7
"""Relative tolerance that features without a penalty need not reach, as documented."""

LIMITS: dict[str, Any] = {"max_iter": 300, "max_time": 30.0}
"""Limits of passes and seconds. Whatever a solve has found by then must hold."""


@dataclass(frozen=True)
class Failure:
    """What a solve claimed and what is true."""

    index: int
    kind: str
    loss: str
    solve: str
    detail: str
    size: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind}: {self.solve}: {self.detail}"


@dataclass
class Solve:
    """A result and its problem, with the way to the case's own problem."""

    name: str
    problem: Problem
    lam: float
    result: Any
    own: Oracle
    base_lam: float
    back: Callable[[Any, Any], problems.Point]
    factor: Fraction


@dataclass
class Report:
    """The outcome of a case."""

    index: int
    description: str
    solves: int = 0
    failures: list[Failure] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Of (what, loss): statuses, refusals, exact optima, and so on."""
    unconverged: list[Failure] = field(default_factory=list)
    """Solves that did not converge, although rounding did not prevent it."""
    seconds: float = 0.0


def arguments(drawn: Drawn, problem: Problem, device: str) -> dict[str, Any]:
    """The arguments of `bmrm.solve` for a problem, without lam."""
    X: Any = problem.X
    if drawn.storage == "sparse":
        X = sp.csr_matrix(X)
    elif drawn.storage == "fortran":
        X = np.asfortranarray(X)
    elif drawn.storage == "float32" and (X.astype(np.float32) == X).all():
        X = X.astype(np.float32)
    given: dict[str, Any] = {"X": X, "y": problem.y, "loss": problem.loss, **problem.params}
    given |= {"reg": problem.reg, "positive": problem.positive, "device": device}
    optional = {
        "l1_ratio": problem.l1_ratio if problem.reg == "elastic_net" else None,
        "feature_lambda": problem.feature_lambda,
        "prior": problem.prior,
        "sample_weight": problem.weights,
        "offset": problem.offset,
        "groups": problem.groups,
        "costs": problem.costs,
        "threads": 1 if device == "cpu" else None,
    }
    given |= {name: value for name, value in optional.items() if value is not None}
    if problem.intercept != "none" and problem.loss != "novelty":
        given["fit_intercept"] = True
    if problem.intercept == "penalised":
        given |= {"penalize_intercept": True, "intercept_scaling": problem.scaling}
    return given


OF_DATA = ("X", "y", "sample_weight", "offset", "groups", "device", "threads")


class Case:
    """The solves of one seed and index."""

    def __init__(
        self, seed: int, index: int, losses: tuple[str, ...] = oracle.ALL, device: str = "cpu"
    ) -> None:
        self.drawn, self.rng = problems.drawn(seed, index, losses)
        self.device, self.index = device, index
        self.problem, self.lam = self.drawn.problem, self.drawn.lam
        self.own = Oracle(self.problem)
        self.solves: list[Solve] = []
        self._glimpsed: list[problems.Point] = []
        m, d = self.problem.shape
        p = self.problem
        self.report = Report(index, f"{p.loss} {m} x {d} {p.reg} intercept {p.intercept} lam {self.lam:.3g}")
        self._tol = 1e-3

    # ---- solving

    def run(self) -> Report:
        """Solve, and hold every solve against all others."""
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            self._solve_all()
        for warning in heard:
            text = f"{warning.category.__name__}: {warning.message}"
            self._fail("warning", "any", text)
        self._judge()
        self.report.solves = len(self.solves) + self.report.counts["error", self.problem.loss]
        self.report.seconds = time.perf_counter() - started
        return self.report

    def _solve_all(self) -> None:
        rng = self.rng
        self._tol = pick(rng, {1e-3: 3, 1e-4: 1, 1e-6: 3, 1e-8: 2, 1e-10: 1, 1e-12: 0.5})
        options: dict[str, Any] = {"tol": self._tol}
        if self.drawn.storage == "float32" and self.device != "cpu":
            options["tol"] = max(self._tol, 1e-4)
        if rng.random() < 0.1:
            options |= {"tol_kind": "abs", "tol": self._tol * self._size()}
        solver = pick(rng, {"ocas": 12, "bmrm": 1})
        if solver == "bmrm":
            options |= {"solver": solver, "max_iter": 300}
        if rng.random() < 0.1 and self.problem.loss not in oracle.JOINT and self.problem.intercept != "free":
            options["cuts_per_pass"] = min(int(rng.integers(1, 5)), len(self.problem.X))
        if rng.random() < 0.05:
            options["max_cuts"] = int(rng.integers(12, 30))
        data = self._dataset() if rng.random() < 0.5 else None
        first = self._solve("cold", options, data=data)
        tight = {"tol": min(1e-9, self._tol * 1e-3) if self._tol > 1e-11 else 1e-12}
        if self.device != "cpu":
            tight = {"tol": 1e-6}
        chosen = [
            name
            for name, share in {
                "tight": 0.7,
                "early": 0.2,
                "warm": 0.4,
                "elsewhere": 0.25,
                "form": 0.8,
                "path": 0.25,
                "resume": 0.25,
                "select": 0.15,
            }.items()
            if rng.random() < share
        ]
        for name in chosen:
            if name == "tight":
                last = self._solve("tight", tight, data=data)
            elif name == "early":
                self._solve("early", options | {"max_iter": int(rng.integers(1, 8))}, data=data)
            elif name == "warm" and first is not None:
                other = float(self.lam * 10.0 ** rng.uniform(-2, 2)) if rng.random() < 0.5 else self.lam
                last = self._solve("warm", options, data=data, lam=other, warm_start=first)
                if last is not None and rng.random() < 0.5:
                    self._solve("warm again", tight, data=data, warm_start=last)
            elif name == "elsewhere":
                w = rng.standard_normal(self._weights_shape(constant=True)) * 10.0 ** rng.uniform(-3, 3)
                self._solve("elsewhere", options, data=data, warm_start=w)
            elif name == "form":
                for _ in range(2 if rng.random() < 0.3 else 1):
                    self._form(options if rng.random() < 0.5 else tight)
            elif name == "path":
                self._path(options, data)
            elif name == "resume" and first is not None and self.device == "cpu":
                self._resume(options)
            elif name == "select":
                self._select(options)

    def _size(self) -> float:
        """About the size of J, for an absolute tolerance."""
        zero = np.zeros(self._weights_shape())
        found = self.own.risk(zero, 0.0 if self.own.columns == 1 else np.zeros(self.own.columns))
        size = float(found.high) if found.high != math.inf else 1.0
        return abs(size) or 1.0

    def _weights_shape(self, constant: bool = False) -> tuple[int, ...]:
        d, K = self.problem.shape[1], self.own.columns
        d += constant and self.problem.intercept == "penalised"
        return (d, K) if self.problem.loss in oracle.SEVERAL else (d,)

    def _dataset(self) -> Any:
        given = arguments(self.drawn, self.problem, self.device)
        return bmrm.Dataset(**{name: given[name] for name in OF_DATA if name in given}, tol=1e-9)

    def _given(self, problem: Problem, data: Any) -> dict[str, Any]:
        given = arguments(self.drawn, problem, self.device)
        if data is not None:
            given = {name: value for name, value in given.items() if name not in OF_DATA} | {"X": data}
        return given

    def _caught(self, name: str, work: Callable[[], Any], problem: Problem) -> Any:
        try:
            return work()
        except BmrmError as error:
            reason = refused(problem, str(error))
            if reason is None:
                self._error(name, error)
            else:
                self.report.counts["refused: " + reason, self.problem.loss] += 1
        except Exception as error:
            self._error(name, error)
        return None

    def _error(self, name: str, error: Exception) -> None:
        self.report.counts["error", self.problem.loss] += 1
        self._fail("error", name, f"{type(error).__name__}: {error}")

    def _solve(
        self,
        name: str,
        options: dict[str, Any],
        *,
        data: Any = None,
        lam: float | None = None,
        warm_start: Any = None,
    ) -> Any:
        lam = self.lam if lam is None else lam
        given = self._given(self.problem, data)
        result = self._caught(
            name,
            lambda: bmrm.solve(**given, lam=lam, warm_start=warm_start, **LIMITS | options),
            self.problem,
        )
        if result is not None:
            self._keep(name, result, lam)
        elif self.report.failures:
            self._glimpse(given, lam, warm_start, options)
        return result

    def _glimpse(self, given: dict[str, Any], lam: float, warm_start: Any, options: dict[str, Any]) -> None:
        """Solve again what ended in an error: the points before it may refute claims of other solves."""
        seen: list[problems.Point] = []

        def look(state: Any) -> bool:
            w, b = state.best()
            seen.append((np.array(w), np.array(b) if np.ndim(b) else float(b)))
            return False

        with contextlib.suppress(BmrmError):
            bmrm.solve(**given, lam=lam, warm_start=warm_start, callback=look, **LIMITS | options)
        self._glimpsed += seen[-1:]

    def _keep(self, name: str, result: Any, lam: float) -> None:
        self.solves.append(Solve(name, self.problem, lam, result, self.own, lam, _same, Fraction(1)))

    def _form(self, options: dict[str, Any]) -> None:
        form = problems.form(self.rng, self.problem, self.lam)
        given = arguments(self.drawn, form.problem, self.device)
        options = LIMITS | {"tol": self._tol if "tol_kind" in options else options["tol"]}
        name = f"form {form.name}"
        result = self._caught(name, lambda: bmrm.solve(**given, lam=form.lam, **options), form.problem)
        if result is not None:
            own = Oracle(form.problem)
            self.solves.append(
                Solve(name, form.problem, form.lam, result, own, self.lam, form.back, form.factor)
            )

    def _path(self, options: dict[str, Any], data: Any) -> None:
        lams = [
            float(self.lam * 10.0 ** self.rng.uniform(-1.5, 2)) for _ in range(int(self.rng.integers(1, 4)))
        ]
        given = self._given(self.problem, data)
        found = self._caught(
            "path",
            lambda: bmrm.path(**given, lams=[*lams, self.lam], **LIMITS | options),
            self.problem,
        )
        for result in found or []:
            self._keep("path", result, result.lam)

    def _resume(self, options: dict[str, Any]) -> None:
        """Stop after some passes, write, read and continue; then once more, with nothing left to do."""
        given = self._given(self.problem, None)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            passes = int(self.rng.integers(1, 6))
            state: list[Any] = []

            def resumed() -> Any:
                first = bmrm.solve(**given, lam=self.lam, **options | {"max_iter": passes})
                self._write(path, first)
                state.append(first)
                return bmrm.solve(
                    **given,
                    lam=self.lam,
                    warm_start=Checkpoint.load(path),
                    **LIMITS | options,
                )

            last = self._caught("resume", resumed, self.problem)
            for name, result in zip(
                ("before resume", "resume"), [*state, *([last] if last else [])], strict=False
            ):
                self._keep(name, result, self.lam)
            if last is None or self.rng.random() < 0.5:
                return
            self._write(path, last)
            again = self._caught(
                "resume again",
                lambda: bmrm.solve(
                    **given,
                    lam=self.lam,
                    warm_start=Checkpoint.load(path),
                    **LIMITS | options,
                ),
                self.problem,
            )
            if again is not None:
                self._keep("resume again", again, self.lam)
                if again.lower_bound < last.lower_bound and again.objective >= last.objective:
                    detail = f"bound {last.lower_bound!r} became {again.lower_bound!r}"
                    self._fail("bound lost by a resume", "resume again", detail)

    def _write(self, path: str, result: Any) -> None:
        save(path, bmrm.Model.from_result(result), self._described(result), result.bundle.working())

    def _described(self, result: Any) -> Described:
        if problem_of is not None:
            return problem_of(result)
        p = self.problem
        scaling = p.scaling if p.intercept == "penalised" else None
        return Described(p.shape[0], result.nnz, result.bundle.groups, p.intercept == "free", scaling)

    def _select(self, options: dict[str, Any]) -> None:
        p = self.problem
        if p.loss not in oracle.SCALAR or len(p.X) < 8:
            return
        given = arguments(self.drawn, p, self.device)
        lams = [self.lam, float(self.lam * 10.0 ** self.rng.uniform(-1, 1))]
        try:
            found = bmrm.select(
                given.pop("X"),
                given.pop("y"),
                lams,
                folds=int(self.rng.integers(2, 4)),
                metric="loss",
                **given,
                **LIMITS | options,
            )
        except BmrmError as error:
            reason = refused(p, str(error))
            if reason is None and "fold" not in str(error):
                self._error("select", error)
            return
        except Exception as error:
            self._error("select", error)
            return
        self._keep("refit", found.result, found.result.lam)
        for k, validation in enumerate(found.validations):
            for fold, result in enumerate(validation.results):
                held = found.folds.fold_of == fold
                part = replace(p, weights=np.where(held, 0.0, p.s))
                if not part.s.any():
                    continue
                own = Oracle(part)
                self.solves.append(
                    Solve(
                        f"fold {fold} of lam {k}", part, result.lam, result, own, math.nan, _same, Fraction(1)
                    )
                )

    # ---- judging

    def _fail(self, kind: str, name: str, detail: str, size: float = 0.0) -> None:
        self.report.failures.append(Failure(self.index, kind, self.problem.loss, name, detail, size))

    def _judge(self) -> None:
        points = self._points()
        for solve in self.solves:
            self._judge_one(solve, points)

    def _points(self) -> list[tuple[Any, Any, Fraction, Fraction]]:
        """Every attained point of the case's own problem: weights, intercept, penalty, risk."""
        found = list(self._glimpsed)
        for solve in self.solves:
            if math.isnan(solve.base_lam) or not np.isfinite(solve.result.w).all():
                continue
            w, b = solve.back(solve.result.w, solve.result.intercept)
            found += [(w, b)]
            if self.problem.intercept == "free" and self.problem.loss in oracle.RATIONAL:
                found.append((w, self._better_intercept(w, float(b))))
        points = []
        for w, b in found:
            if self.problem.positive:
                w = np.maximum(w, 0.0)
            if not (np.isfinite(w).all() and np.isfinite(b).all()):
                continue
            risk = self.own.risk(w, b)
            if risk.high != math.inf:
                points.append((w, b, self.own.omega(w, b), risk.high))
        return points

    def _better_intercept(self, w: Any, b: float) -> float:
        """The lowest kink of the risk in the intercept, in float64: often better than what was found."""
        p = self.problem
        z = p.X @ w + self.own.offset[:, 0]
        taking = p.s > 0
        y = np.zeros(len(z)) if p.loss == "novelty" else np.asarray(self.own.y, float)
        if p.loss == "squared":
            return float(np.average(y - z, weights=p.s))
        places = [y - z]
        for name in ("epsilon", "delta", "h"):
            if name in self.own.params:
                v = self.own.params[name]
                places = [y - z - v, y - z + v]
        candidates = np.unique(np.concatenate([place[taking] for place in places]))
        candidates = candidates[np.isfinite(candidates)]
        if len(candidates) == 0:
            return b
        if len(candidates) > 40:
            candidates = candidates[np.argsort(abs(candidates - b))[:40]]
        units = oracle.Units(1.0, y if p.loss != "novelty" else np.zeros(len(z)), self.own.params)
        kind = oracle.RATIONAL[p.loss]
        with np.errstate(all="ignore"):
            values = [
                float(
                    (p.s * kind.formula(z + c, units)).sum()
                    / p.s.sum()
                    / float(kind.divisor(self.own.params))
                )
                + (c if p.loss == "novelty" else 0.0)
                for c in candidates
            ]
        return float(candidates[int(np.nanargmin(values))]) if not np.isnan(values).all() else b

    def _attained(self, solve: Solve, points: list[Any]) -> Fraction | None:
        """The least J of the solve's problem that any solve attained, or its exact optimum."""
        here = solve.own.value(solve.result.w, solve.result.intercept, solve.lam).high
        best = None if here == math.inf else here
        if math.isnan(solve.base_lam):
            known = problems.optimum(solve.problem, solve.lam) if solve.problem.loss == "squared" else None
            return best if known is None else known
        lam = Fraction(solve.base_lam)
        for w, _, omega, risk in points:
            if self._covers(solve, w):
                value = (risk + lam * omega) * solve.factor
                best = value if best is None or value < best else best
        if solve.base_lam == self.lam and self.drawn.optimum is not None and self._covers(solve, None):
            optimum = self.drawn.optimum * solve.factor
            best = optimum if best is None or optimum < best else best
            self.report.counts["exact optimum", self.problem.loss] += 1
        return best

    def _covers(self, solve: Solve, w: Any) -> bool:
        """Whether a bound holds at some weights: if features have no penalty, only within a radius."""
        strength = self.problem.feature_lambda
        if strength is None or strength.all():
            return True
        if w is None:
            return False
        free = strength == 0.0
        answer = solve.back(solve.result.w, solve.result.intercept)[0]
        prior = np.zeros(len(w)) if self.problem.prior is None else self.problem.prior
        prior = (prior[:, None] if prior.ndim < w.ndim else prior)[free]
        radius = max(RADIUS, 4.0 * float(np.abs(answer[free] - prior).max()))
        return bool((np.abs(w[free] - prior) <= radius).all())

    def _judge_one(self, solve: Solve, points: list[Any]) -> None:
        result, loss, name = solve.result, self.problem.loss, solve.name
        counts = self.report.counts
        counts["solves", loss] += 1
        counts[result.status, loss] += 1
        b = np.atleast_1d(result.intercept)
        ends = (result.objective, math.nan if math.isnan(result.lower_bound) else 0.0)
        if not (np.isfinite(result.w).all() and np.isfinite(b).all() and np.isfinite(ends).all()):
            self._fail("not finite", name, f"objective {result.objective!r}, bound {result.lower_bound!r}")
            return
        if solve.problem.positive and (result.w < 0.0).any():
            self._fail("infeasible", name, f"a weight of {result.w.min():g}")
        J = solve.own.value(result.w, result.intercept, solve.lam)
        if J.high == math.inf:
            self._fail("objective", name, f"{result.objective!r}, exp of a margin overflows", math.inf)
            return
        objective, gap = Fraction(result.objective), Fraction(result.gap)
        if result.gap != result.objective - result.lower_bound:
            self._fail("gap", name, f"{result.gap!r} is not {result.objective!r} - {result.lower_bound!r}")
        off = max(objective - J.high, J.low - objective, Fraction(0))
        terms = solve.own.terms(result.w, result.intercept, solve.lam) + float(abs(J.high))
        relative = float(off / abs(J.high)) if J.high else math.inf
        if off > max(gap, 0) + ULP * abs(objective) + UNDERFLOW:
            size = float(off / (max(gap, 0) + ULP * abs(objective) + UNDERFLOW))
            what = f"objective {result.objective!r}, J {float(J.high)!r}: off by {relative:.2g} of J"
            self._fail("objective", name, f"{what}, gap {result.gap:.3g}, {result.status}", size)
        # The gap holds what rounding hides; but that should be little if all sample weights are similar.
        elif (
            self._is_even()
            and off > Fraction(FAR * min(terms, 1e300)) + UNDERFLOW
            and abs(J.high) > NIL * scale_of(solve)
        ):
            what = f"objective {result.objective!r}, J {float(J.high)!r}, terms {terms:.3g}"
            self._fail("objective far off", name, what, float(off / (Fraction(terms) + UNDERFLOW)))
        best = self._attained(solve, points)
        if best is None:
            return
        self._judge_bound(solve, best)
        self._judge_tolerance(solve, J, best, terms)

    def _is_even(self) -> bool:
        """Whether all sample weights are similar, and sums are in float64."""
        s = self.problem.s[self.problem.s > 0.0]
        return self.device == "cpu" and bool(s.max() <= 1e6 * s.min())

    def _judge_bound(self, solve: Solve, best: Fraction) -> None:
        result = solve.result
        bounds = {"": result.lower_bound}
        strength = solve.problem.feature_lambda
        if strength is None or strength.all():
            bounds[" in the history"] = max((row["lower_bound"] for row in result.history), default=-math.inf)
        for where, bound in bounds.items():
            if bound == -math.inf or Fraction(bound) <= best:
                continue
            excess = Fraction(bound) - best
            size = float(excess / abs(best)) if best else math.inf
            kind = "bound" if excess > 16 * ULP * abs(best) else "bound by an ulp"
            rounding = float(excess / (ULP * Fraction(self._terms(solve))))
            detail = f"bound {bound!r}, attained {float(best)!r}: {size:.2g} of J above, {result.status}"
            detail += f"; {rounding:.2g} times the rounding of J's terms"
            self._fail(kind + where, solve.name, detail, size)
            return

    def _terms(self, solve: Solve) -> float:
        """The absolute terms of J at the answer or at the start, 0, whichever are larger."""
        zero = np.zeros_like(solve.result.w), np.zeros_like(np.atleast_1d(solve.result.intercept))
        found = [
            solve.own.terms(w, b, solve.lam) + float(abs(solve.own.value(w, b, solve.lam).high))
            for w, b in ((solve.result.w, solve.result.intercept), zero)
        ]
        return max(v for v in found if v < math.inf)

    def _judge_tolerance(self, solve: Solve, J: oracle.Interval, best: Fraction, terms: float) -> None:
        result, loss = solve.result, self.problem.loss
        wanted = allowed(solve, J)
        if result.status == "converged":
            if J.low - best > wanted + UNDERFLOW:
                size = float((J.low - best) / wanted) if wanted else math.inf
                detail = (
                    f"converged at J {float(J.low)!r}, attained {float(best)!r}: {size:.2g} of the tolerance"
                )
                self._fail("tolerance", solve.name, f"{detail} {result.tol:g}", size)
            if Fraction(result.gap) > wanted + ULP * abs(Fraction(result.objective)):
                self._fail("gap beyond tol", solve.name, f"gap {result.gap!r}, allowed {float(wanted)!r}")
            return
        if result.status != "precision":  # a limit that was set
            return
        strength = solve.problem.feature_lambda
        if strength is not None and not strength.all() and result.tol < LOOSE_WITHOUT_PENALTY:
            return
        if wanted > UNDERFLOW and terms * 1e-16 * WELL_CONDITIONED <= float(wanted):
            self.report.counts["unconverged", loss] += 1
            if self._dual_rounding(solve) * WELL_CONDITIONED > float(wanted):
                self.report.counts["beyond a dual in float64", loss] += 1
            detail = f"{result.status} after {result.n_iter}, J {float(J.high):.6g}, gap {result.gap:.3g}"
            self.report.unconverged.append(
                Failure(self.index, "unconverged", loss, solve.name, f"{detail}, tol {result.tol:g}")
            )
        else:
            self.report.counts["ill-conditioned", loss] += 1

    def _dual_rounding(self, solve: Solve) -> float:
        """About what the bound loses if the derivatives r, a point of the dual, are rounded to float64.

        Then a_j = (X' r)_j is off by u times the length of its terms, however it is computed. Under l2 that
        costs its square over the curvature; under l1 it costs J times the error relative to the kink.
        """
        p = solve.problem
        share = p.s / p.s.sum()
        r = np.where(p.s > 0, share * solve.own.steepness(solve.result.w, solve.result.intercept), 0.0)
        off = 1.1e-16 * np.sqrt((r * r) @ (p.X * p.X))
        if p.intercept == "penalised":
            off = np.append(off, 1.1e-16 * p.scaling * np.sqrt(r @ r))
        f = solve.lam * np.ones(len(off)) if p.feature_lambda is None else np.full(len(off), solve.lam)
        if p.feature_lambda is not None:
            f[: len(p.feature_lambda)] *= p.feature_lambda
        held = f > 0.0
        l1, l2 = p.rho * f[held], (1.0 - p.rho) * f[held]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            bent = np.where(l2 > 0.0, off[held] ** 2 / (2.0 * l2), np.inf).sum()
            kinked = np.where(l1 > 0.0, off[held] / l1, np.inf).max(initial=0.0) * abs(solve.result.objective)
        return float(min(bent, kinked))


def _same(w: Any, b: Any) -> problems.Point:
    return w, b


def allowed(solve: Solve, J: oracle.Interval) -> Fraction:
    """The gap at which a solve may end: absolute, a share of |J|, or a share of a scale if the optimum is 0.

    The scale is the mean loss at w = 0 and b = 0, or 1 if that is 0. An optimum counts as 0 if the bound is
    at most 0 and J within `NIL` of the scale, which is what rounding hides.
    """
    result = solve.result
    if result.tol_kind == "abs":
        return Fraction(result.tol)
    size = min(abs(J.high), abs(Fraction(result.objective)))
    return Fraction(result.tol) * (scale_of(solve) if is_nil(solve, size) else abs(J.high))


def scale_of(solve: Solve) -> Fraction:
    """The mean loss at w = 0 and b = 0, or 1 if that is 0."""
    w, b = np.zeros_like(solve.result.w), np.zeros_like(np.atleast_1d(solve.result.intercept))
    return solve.own.risk(w, b).high or Fraction(1)


def is_nil(solve: Solve, size: Fraction) -> bool:
    """Whether an objective of this size counts as 0, as documented."""
    return solve.result.lower_bound <= 0.0 and size <= NIL * scale_of(solve)


REFUSALS = {
    "weights too unlike": re.compile("sample weights: found .* use device='cpu'"),
    "too large": re.compile("the objective is (inf|nan) at the first weights"),
    "weights too small": re.compile("sample weights: their sum is"),
}


def refused(problem: Problem, message: str) -> str | None:
    """The documented reason why a problem is refused, if there is one and it applies."""
    if REFUSALS["weights too small"].search(message) and not 2.0**-1022 <= problem.s.sum() < math.inf:
        return "weights too small"
    if REFUSALS["weights too unlike"].search(message):
        s = problem.s[problem.s > 0.0]
        return "weights too unlike" if s.max() > 1e15 * s.min() else None
    if REFUSALS["too large"].search(message):
        w = np.zeros((problem.shape[1], Oracle(problem).columns)) if problem.prior is None else problem.prior
        found = Oracle(problem).value(w, np.zeros(Oracle(problem).columns), 1.0)
        if found.high == math.inf or float(found.high) > 1e300:
            return "too large"
    return None


def cases(seed: int, first: int, solves: int) -> Iterator[Report]:
    """Run cases of a seed, from an index on, until the given number of solves is done."""
    done, index = 0, first
    while done < solves:
        report = Case(seed, index).run()
        done += report.solves
        index += 1
        yield report
