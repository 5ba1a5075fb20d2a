"""The certificate against exact arithmetic: 500 random solves, and tests of the arithmetic itself."""

import math
from dataclasses import replace
from fractions import Fraction

import joint_definitions
import numpy as np
import oracle
import problems
import pytest
from certificates import Case, cases
from oracle import Oracle, Problem

from bmrm import losses
from bmrm.losses.labels import encode

SEED = 20261126


UNCONVERGED = 0.04
"""Most solves, as a share, that may end with status "precision" though J has digits left: gradients that
cancel under l1, and problems at extreme scales, lose more of the bound than J itself rounds."""


def test_no_bound_is_above_what_any_solve_attains_and_converged_means_within_tol():
    # Consecutive indices go through all losses, each several times.
    failures, solves, unconverged = [], 0, []
    for report in cases(SEED, 0, 500):
        solves += report.solves
        line = f"scripts/certify.py --replay {SEED}:{report.index}: {report.description}"
        failures += [f"{line}: {failure}" for failure in report.failures]
        unconverged += [f"{line}: {one}" for one in report.unconverged]
    assert solves >= 500
    assert not failures, "\n".join(failures)
    assert len(unconverged) <= UNCONVERGED * solves, "\n".join(unconverged)


def examples(count=5):
    """Some problems of every loss, with a point of each."""
    for loss in oracle.ALL:
        for index in range(count):
            rng = np.random.default_rng([99, index])
            drawn = problems.problem(rng, loss)
            known = Oracle(drawn.problem)
            d, K = drawn.problem.shape[1], known.columns
            scale = 1.0 / (abs(drawn.problem.X).max() + 1e-300) if loss != "squared" else 1.0
            w = scale * rng.standard_normal((d, K) if loss in oracle.SEVERAL else d)
            b = np.zeros(K) if loss in oracle.SEVERAL else 0.0
            if drawn.problem.intercept != "none":
                b = rng.standard_normal(K) if loss in oracle.SEVERAL else float(rng.standard_normal())
            yield drawn, known, w, b


def test_exact_risks_are_those_of_the_losses_of_the_package():
    for drawn, known, w, b in examples():
        p = drawn.problem
        params = {"costs": p.costs} if p.costs is not None else {}
        loss = losses.get(p.loss, **p.params, **params).grouped(
            None if p.groups is None else np.unique(p.groups, return_inverse=True)[1]
        )
        labels, _ = encode(p.y, len(p.X), loss)
        u = p.X @ np.reshape(w, (p.shape[1], -1)) + b
        if p.loss in oracle.JOINT:
            s = p.weights
            r = np.zeros(len(u))
            risk = loss.joint_risk(labels, s, 1)
            value = np.sum(risk.evaluate(np.ascontiguousarray(u[:, 0]), np.zeros(len(u)), 0.0, 0.0, r))
        else:
            each = loss.value(u if p.loss in oracle.SEVERAL else u[:, 0], labels)
            taking = p.s > 0
            value = float(p.s[taking] @ each[taking] / p.s.sum()) + (float(b) if p.loss == "novelty" else 0.0)
        exact = known.risk(w, b)
        if exact.high == math.inf:
            assert not value < 1e300
            continue
        assert exact.low <= exact.high
        terms = known.terms(w, b, 1.0) + abs(float(exact.high))
        ratio = float(p.s.max() / p.s[p.s > 0].min()) if p.loss in oracle.JOINT else 1.0
        assert value == pytest.approx(float(exact.high), rel=1e-13, abs=1e-14 * terms * min(ratio, 1e8)), (
            p.loss
        )


@pytest.mark.parametrize("loss", oracle.JOINT)
def test_joint_risks_are_those_of_every_labelling_permutation_and_threshold(loss):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        m = 5
        y = rng.integers(0, 3, m).astype(float)
        y[:3] = [0.0, 1.0, 2.0]
        params = {}
        if loss in oracle.BINARY:
            y = np.where(y > 0, 1.0, -1.0)
            params = {"precision_at_k": {"k": 2.0}, "recall_at_k": {"k": 5.0}, "f_beta": {"beta": 0.5}}.get(
                loss, {}
            )
        elif loss == "ndcg":
            params = {"k": 3.0}
        s = np.ones(m) if loss in (*problems.ONE_WEIGHT, *oracle.RANKING) else rng.random(m) + 0.1
        groups = np.zeros(m, np.int64)
        u = rng.standard_normal(m).round(int(rng.integers(0, 4)))
        weights = s if loss not in oracle.RANKING else None
        p = Problem(u[:, None], y, loss, params, weights=weights, groups=groups)
        exact = Oracle(p).risk(np.ones(1), 0.0)
        given = {k: int(v) if k == "k" else v for k, v in params.items()}
        if loss == "ordinal":
            value = joint_definitions.ordinal_value(y, s, u)
        else:
            value = joint_definitions.value(getattr(joint_definitions, loss)(y, s, groups, **given), u)
        assert float(exact.high) == pytest.approx(value, rel=1e-12, abs=1e-13)
        assert exact.high - exact.low <= Fraction(1, 10**80)


def test_exp_and_log_without_flint_enclose_those_with_it(monkeypatch):
    if oracle.flint is None:
        pytest.skip("python-flint is not installed")
    numbers = [(5, 0), (-1, 1), (3 << 60, 62), (1000, 0), (-700, 0), (-5000, 0)]
    balls = [oracle.exp_bounds(*n) for n in numbers] + [oracle.log_bounds(3 << 400, 3 << 400)]
    monkeypatch.setattr(oracle, "flint", None)
    others = [oracle.exp_bounds(*n) for n in numbers] + [oracle.log_bounds(3 << 400, 3 << 400)]
    for ball, other in zip(balls, others, strict=True):
        assert other[0] <= ball[1]
        assert ball[0] <= other[1]
        assert other[1] - other[0] <= (abs(other[1]) >> 300) + (1 << 80)


def test_forms_of_a_problem_have_its_value():
    tried = set()
    for drawn, known, w, b in examples(12):
        rng = np.random.default_rng(len(tried))
        for _ in range(3):
            form = problems.form(rng, drawn.problem, drawn.lam)
            tried.add(form.name)
            own = Oracle(form.problem)
            v = np.zeros((form.problem.shape[1], *w.shape[1:]))
            v[: len(w)] = w
            if form.name == "copies":
                v = np.repeat(w / 2.0, 2, axis=0)
            there, here = own.value(v, b, form.lam), known.value(*form.back(v, b), drawn.lam)
            if there.high == math.inf:
                assert here.high == math.inf
                continue
            slack = abs(here.high) * form.factor / 2**40  # intervals, and weights that were divided
            assert abs(there.high - here.high * form.factor) <= slack, form.name
    assert tried >= {"weights", "rows", "columns", "signs", "X", "y", "repeat", "zero", "copies"}


def test_known_optima_are_below_every_point_and_attained():
    found = 0
    for index in range(400):
        drawn, rng = problems.drawn(5, index)
        if drawn.optimum is None:
            continue
        found += 1
        p = drawn.problem
        known = Oracle(p)
        for size in (0.0, 1.0):
            w = size * rng.standard_normal(p.shape[1])
            w = np.maximum(w, 0.0) if p.positive else w
            b = size * float(rng.standard_normal()) if p.intercept != "none" else 0.0
            assert drawn.optimum <= known.value(w, b, drawn.lam).high
        case = Case(5, index)
        result = case._solve("cold", {"tol": 1e-3})
        if result is not None and result.status == "converged":
            J = known.value(result.w, result.intercept, drawn.lam).high
            assert J - drawn.optimum <= Fraction(1, 100) * abs(J) + Fraction(1, 10**200)
    assert found > 20


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"lower_bound": 1.0000001}, "bound"),
        ({"objective": 0.999}, "objective"),
        ({"objective": 1.01}, "objective"),
    ],
)
def test_a_result_that_claims_too_much_is_found_out(change, kind):
    case = Case(0, next(i for i in range(100) if problems.drawn(0, i)[0].problem.loss == "hinge"))
    case._solve("cold", {"tol": 1e-6})
    honest = case.solves[0].result
    claims = {name: factor * honest.objective for name, factor in change.items()}
    changed = replace(honest, **claims)
    changed = replace(changed, gap=changed.objective - changed.lower_bound)
    case.solves[0].result = changed
    case._judge()
    assert any(failure.kind.startswith(kind) for failure in case.report.failures)


def test_a_point_that_is_no_optimum_has_not_converged():
    case = Case(0, next(i for i in range(100) if problems.drawn(0, i)[0].problem.loss == "hinge"))
    honest = case._solve("cold", {"tol": 1e-6})
    J = float(case.own.value(3.0 * honest.w, honest.intercept, case.lam).high)
    case._keep("worse", replace(honest, w=3.0 * honest.w, objective=J, lower_bound=J, gap=0.0), case.lam)
    case._judge()
    found = {failure.kind for failure in case.report.failures if failure.solve == "worse"}
    assert {"tolerance", "bound"} <= found
