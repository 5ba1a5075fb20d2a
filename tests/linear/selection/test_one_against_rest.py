"""One class against the rest: each problem is the one of two classes that it says, on one matrix."""

import numpy as np
import pytest

import bmrm
from bmrm.errors import Interrupted
from bmrm.linear.selection.one_against_rest import class_problems, solve_each


def problem(number=3, rows=60):
    rng = np.random.default_rng(0)
    codes = np.arange(rows) % number
    return rng.standard_normal((rows, 4)) + 2.0 * np.eye(number, 4)[codes], codes


@pytest.mark.parametrize("factors", [None, [1.0, 3.0, 0.5]])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_result_is_that_of_its_own_problem(factors, weighted):
    X, codes = problem()
    weights = 1.0 + np.arange(60) % 4 if weighted else None
    options = {"loss": "logistic", "lam": 0.01, "tol": 1e-6}
    found = solve_each(
        class_problems(X, codes, 3, factors=factors, sample_weight=weights), [None] * 3, **options
    )
    for code, result in enumerate(found):
        own = np.ones(60) if weights is None else weights.copy()
        own[codes == code] *= 1.0 if factors is None else factors[code]
        alone = bmrm.solve(X, np.where(codes == code, 1, -1), sample_weight=own, **options)
        np.testing.assert_allclose(result.w, alone.w, rtol=1e-9)
        assert result.objective == pytest.approx(alone.objective, rel=1e-12)
        assert result.status == "converged"


def test_the_matrix_is_shared_and_the_given_data_stay():
    X, codes = problem()
    dataset = bmrm.Dataset(X, codes)
    parts = list(class_problems(dataset, codes, 3, factors=[2.0] * 3))
    assert all(part.matrix is dataset.matrix for part in parts)
    assert dataset.weights is None
    assert dataset.y.tolist() == codes.tolist()


def test_the_callback_knows_the_class_and_an_interrupt_has_no_result():
    X, codes = problem()
    seen = []

    def interrupt(number, state):
        seen.append(number)
        if number == 1:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        solve_each(class_problems(X, codes, 3), [None] * 3, callback=interrupt, lam=0.01)
    assert caught.value.result is None
    assert sorted(set(seen)) == [0, 1]


def test_the_time_is_that_of_all_classes():
    X, codes = problem()
    found = solve_each(class_problems(X, codes, 3), [None] * 3, max_time=1e-9, lam=1e-6, tol=1e-9)
    assert [result.status for result in found] == ["max_time"] * 3
