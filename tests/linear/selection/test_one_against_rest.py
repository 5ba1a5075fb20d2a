"""One class against the rest: each problem is the one of two classes that it says, on one matrix."""

import numpy as np
import pytest

import bmrm
from bmrm import losses
from bmrm.errors import Interrupted
from bmrm.linear.selection.one_against_rest import ClassProblems, ClassValidation, class_problems, solve_each
from bmrm.matrix.row_weights import lam_from_c


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


def labelled(weights=None):
    """Rows with the labels 10, 20 and 30."""
    X, codes = problem()
    return bmrm.Dataset(X, 10.0 * (codes + 1), sample_weight=weights), codes


def test_the_model_of_all_classes_predicts_the_largest_margin():
    data, codes = labelled()
    problems = ClassProblems(data, {20.0: 3.0})
    results = solve_each(problems, [None] * 3, loss="logistic", lam=0.01)
    model = problems.model(results)
    X, _ = problem()
    margins = np.column_stack([X @ result.w for result in results])
    np.testing.assert_array_equal(model.predict(X), 10.0 * (margins.argmax(axis=1) + 1))
    assert (model.task, model.loss, model.classes) == ("multiclass", "logistic", (10.0, 20.0, 30.0))
    weights = np.where(codes == 1, 3.0, 1.0)
    alone = bmrm.solve(X, np.where(codes == 1, 1, -1), loss="logistic", lam=0.01, sample_weight=weights)
    assert results[1].objective == pytest.approx(alone.objective, rel=1e-3)


def test_a_label_that_no_row_has_is_named():
    with pytest.warns(UserWarning, match="40"):
        ClassProblems(labelled()[0], {40.0: 2.0})


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_rows_that_no_machine_has_seen(weighted):
    weights = 1.0 + np.arange(60) % 4 if weighted else None
    data, _ = labelled(weights)
    validation = ClassValidation(ClassProblems(data, {}), 3, losses.get("hinge"), tol=1e-8)
    best, scored = validation.select([0.01, 1.0])
    assert [row.cost for row in scored] == [0.01, 1.0]
    assert best == max(scored, key=lambda row: row.accuracy)
    results, found = validation.at(best.cost)
    assert found["accuracy"] == best.accuracy
    assert len(results) == 9
    own = np.ones(60) if weights is None else weights
    assert validation.cost_of(lam_from_c(2.0, own.sum())) == pytest.approx(2.0)
    assert {row.status for row in scored} == {"converged"}
