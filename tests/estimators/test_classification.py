"""Classifiers: labels, several classes, weights, probabilities, bad input."""

import signal
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import bmrm
from bmrm.errors import Interrupted, ParameterError
from bmrm.estimators import BMRMClassifier
from bmrm.losses import CallableLoss


def problem(classes=2, seed=0, rows=150):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 4))
    scores = X @ rng.standard_normal((4, classes)) + 0.5 * rng.standard_normal((rows, classes))
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize(
    "names", [["no", "yes"], [3, 7], [False, True], [-1.0, 2.0], ["a", "b", "c"], [5, 1, 9]]
)
def test_labels_come_back_as_they_were(names):
    X, codes = problem(len(names))
    y = np.array(names)[codes]
    found = BMRMClassifier(tol=1e-3).fit(X, y)
    assert found.classes_.tolist() == sorted(names)
    predicted = found.predict(X)
    assert predicted.dtype == y.dtype
    assert np.mean(predicted == y) > 0.75
    assert found.score(X, y) == np.mean(predicted == y)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("multi_class", ["joint", "ovr"])
def test_attributes_of_several_classes(loss, multi_class):
    X, y = problem(3)
    found = BMRMClassifier(loss, multi_class=multi_class, lam=0.01).fit(X, y)
    assert found.coef_.shape == (3, 4)
    assert found.intercept_.shape == (3,)
    values = found.decision_function(X)
    np.testing.assert_allclose(values, X @ found.coef_.T + found.intercept_)
    assert (found.predict(X) == values.argmax(axis=1)).all()
    gaps = np.asarray(found.objective_) - found.lower_bound_
    np.testing.assert_allclose(found.dual_gap_, gaps)
    assert (found.dual_gap_ <= 1e-4 * np.asarray(found.objective_)).all()
    assert np.shape(found.objective_) == (() if multi_class == "joint" else (3,))
    assert hasattr(found, "predict_proba") == (loss == "logistic")
    if loss == "logistic":
        np.testing.assert_allclose(found.predict_proba(X).sum(axis=1), 1.0)
        np.testing.assert_allclose(np.exp(found.predict_log_proba(X)), found.predict_proba(X))


def test_several_classes_are_those_of_the_core():
    X, y = problem(3)
    found = BMRMClassifier("logistic", C=2.0, tol=1e-8).fit(X, y)
    core = bmrm.solve(X, y, "softmax", C=2.0, tol=1e-8, fit_intercept=True)
    np.testing.assert_array_equal(found.coef_, core.w.T)
    assert found.objective_ == core.objective
    assert found.lower_bound_ == core.lower_bound
    assert isinstance(found.model_, bmrm.Model)
    assert found.model_.loss == "softmax"


def test_rare_classes_have_the_probabilities_of_the_peer():
    """With the penalised intercepts of one constant feature they would be several times too large."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4))
    P = np.exp(np.array([3, 0, -3.0]) + 0.3 * X[:, :3])
    y = (rng.random((1500, 1)) > np.cumsum(P / P.sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
    for weights in (None, "balanced"):
        theirs = LogisticRegression(C=0.01, class_weight=weights, tol=1e-10, max_iter=10_000).fit(X, y)
        ours = BMRMClassifier("logistic", C=0.01, class_weight=weights, tol=1e-9).fit(X, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
        assert abs(ours.intercept_.sum()) < 1e-12
    plain = BMRMClassifier("logistic", lam=10.0, tol=1e-9).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(plain.mean(axis=0), np.bincount(y) / 1500, atol=1e-8)


def test_intercepts_of_the_hinge_of_several_classes_are_those_of_crammer_and_singer():
    X, y = problem(3)
    options = {"C": 0.1, "tol": 1e-8}
    ours = BMRMClassifier("hinge", **options).fit(X + 1.0, y)
    theirs = LinearSVC(C=0.1, multi_class="crammer_singer", tol=1e-8, max_iter=100_000).fit(X + 1.0, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    free = BMRMClassifier("hinge", penalize_intercept=False, **options).fit(X + 1.0, y)
    assert free.objective_ < ours.lower_bound_


def test_one_against_the_rest_is_a_model_for_each():
    X, y = problem(3)
    found = BMRMClassifier("squared_hinge", multi_class="ovr", lam=0.01, class_weight="balanced").fit(X, y)
    weights = (len(y) / (3 * np.bincount(y)))[y]
    for code in range(3):
        alone = bmrm.solve(
            X, np.where(y == code, 1, -1), "squared_hinge", lam=0.01, tol=1e-4, sample_weight=weights,
            fit_intercept=True, penalize_intercept=True,
        )  # fmt: skip
        np.testing.assert_allclose(found.coef_[code], alone.w)
        assert found.objective_[code] == pytest.approx(alone.objective, rel=1e-12)


def test_costs_of_several_classes():
    X, y = problem(3)
    costs = 5.0 * (1.0 - np.eye(3))
    found = BMRMClassifier(costs=costs, lam=0.01).fit(X, y)
    assert found.objective_ > BMRMClassifier(lam=0.01).fit(X, y).objective_


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_a_weight_counts_like_repeated_rows_and_0_like_none(make):
    X, y = problem(3)
    weights = np.random.default_rng(1).integers(0, 4, len(y))
    y = np.where(weights > 0, y, 99)  # a label that only rows of weight 0 have
    options = {"loss": "logistic", "tol": 1e-9}
    weighted = BMRMClassifier(**options).fit(make(X), y, weights)
    repeated = BMRMClassifier(**options).fit(make(X.repeat(weights, axis=0)), y.repeat(weights))
    assert weighted.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


def test_class_weights_are_those_of_the_labels():
    X, codes = problem()
    y = np.array(["no", "yes"])[codes]
    plain = BMRMClassifier("logistic").fit(X, y, np.where(codes == 1, 10.0, 1.0))
    named = BMRMClassifier("logistic", class_weight={"yes": 10.0, "no": 1.0}).fit(X, y)
    np.testing.assert_array_equal(plain.coef_, named.coef_)
    balanced = BMRMClassifier("logistic", class_weight="balanced", tol=1e-8).fit(X, y)
    given = {"no": len(y) / (2 * (codes == 0).sum()), "yes": len(y) / (2 * (codes == 1).sum())}
    same = BMRMClassifier("logistic", class_weight=given, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(balanced.coef_, same.coef_)


def test_the_intercept_is_penalised_as_the_peer_does():
    X, y = problem()
    unpenalised, penalised = (
        BMRMClassifier("logistic", lam=1.0, penalize_intercept=value).fit(X + 3.0, y)
        for value in (False, True)
    )
    assert BMRMClassifier("logistic", lam=1.0).fit(X + 3.0, y).intercept_ == unpenalised.intercept_
    assert unpenalised.intercept_ != penalised.intercept_
    assert BMRMClassifier("hinge", fit_intercept=False).fit(X, y).intercept_ == 0.0
    assert BMRMClassifier("roc_area").fit(X, y).intercept_ == 0.0


def test_a_warm_start_takes_fewer_passes():
    X, y = problem(3, rows=400)
    model = BMRMClassifier(lam=1e-3, warm_start=True, tol=1e-6).fit(X, y)
    first = model.n_iter_
    again = model.fit(X, y).n_iter_
    assert again < first
    each = BMRMClassifier("hinge", lam=1e-3, warm_start=True, multi_class="ovr").fit(X, y)
    assert each.fit(X, y).status_ == "converged"
    assert each.set_params(multi_class="joint").fit(X, y).status_ == "converged"


def test_a_solve_that_has_not_converged_warns():
    X, y = problem()
    with pytest.warns(ConvergenceWarning, match=r"status max_iter before the gap was within tol=1e-09"):
        found = BMRMClassifier(max_iter=1, tol=1e-9, lam=1e-6).fit(X, y)
    assert found.status_ == "max_iter"
    assert found.dual_gap_ > 0.0
    with pytest.warns(ConvergenceWarning, match="3 of 3 solves"):
        BMRMClassifier(max_iter=1, tol=1e-9, lam=1e-6, multi_class="ovr").fit(*problem(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BMRMClassifier().fit(X, y)


def test_a_loss_of_your_own():
    X, y = problem()
    square = CallableLoss(
        lambda u, y: (np.maximum(0, 1 - y * u) ** 2, -2 * y * np.maximum(0, 1 - y * u)),
        name="mine", task="binary", minimum=0.0,
    )  # fmt: skip
    mine = BMRMClassifier(square, tol=1e-6, lam=0.01).fit(X, y)
    named = BMRMClassifier("squared_hinge", tol=1e-6, lam=0.01, penalize_intercept=False).fit(X, y)
    assert mine.objective_ == pytest.approx(named.objective_, rel=1e-5)
    with pytest.raises(ParameterError, match="found the task regression, expected binary"):
        BMRMClassifier(CallableLoss(lambda u, y: (u, u))).fit(X, y)


def test_ctrl_c_leaves_the_best_model_so_far():
    X, y = problem()
    calls = []

    def loss(u, y):
        calls.append(1)
        if len(calls) == 500:  # some passes have been made
            signal.raise_signal(signal.SIGINT)
        return np.maximum(0, 1 - y * u), -y * (y * u < 1)

    model = BMRMClassifier(CallableLoss(loss, task="binary"), lam=1e-4, tol=1e-9)
    with pytest.raises(Interrupted):
        model.fit(X, y)
    assert model.status_ == "interrupted"
    assert model.dual_gap_ > 0.0
    assert set(model.predict(X)) <= {0, 1}


def test_the_number_of_threads_changes_no_bit():
    X, y = problem(3)
    one, *others = (
        BMRMClassifier("logistic", **words).fit(X, y)
        for words in ({"n_jobs": 1}, {"n_jobs": 2}, {"threads": 2}, {"threads": 1, "n_jobs": 2})
    )
    for other in others:
        np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize("names", [["no", "yes"], [3, 7], ["a", "b", "c"]])
def test_the_model_of_the_core_can_be_saved(names, tmp_path):
    X, codes = problem(len(names))
    found = BMRMClassifier("logistic").fit(X, np.array(names)[codes])
    found.model_.save(tmp_path / "a.model")
    loaded = bmrm.Model.load(tmp_path / "a.model")
    assert list(loaded.classes) == names
    assert (loaded.predict(X) == found.predict(X)).all()
    assert loaded.certificate.gap == pytest.approx(found.dual_gap_)


X2, Y2 = problem()
X3, Y3 = problem(3)


@pytest.mark.parametrize(
    ("options", "data", "text"),
    [
        ({}, (X2, np.zeros(150)), "y: found one class, .*, expected two or more"),
        ({"loss": "roc_area"}, (X3, Y3), "Only binary classification is supported.*found 3 classes"),
        ({"loss": "squared_hinge"}, (X3, Y3), "multi_class='ovr' trains a model for each"),
        ({}, (X2, X2[:, 0]), "Unknown label type: continuous"),
        ({}, (np.where(X2 > 1, np.nan, X2), Y2), "Input X contains NaN"),
        ({}, (X2 + 1j, Y2), "Complex data not supported"),
        ({}, (X2[:0], Y2[:0]), "0 sample"),
        ({}, (X2[:, :0], Y2), r"0 feature\(s\)"),
        ({}, (X2[:1], Y2[:1]), "one class"),
        ({"loss": "hing"}, (X2, Y2), "did you mean 'hinge'"),
        ({"loss": "squared"}, (X2, Y2), "loss: found 'squared', expected one of hinge"),
        ({"loss": ["hinge"]}, (X2, Y2), "loss: found"),
        ({"loss": "softmax"}, (X3, Y3), "expected 'logistic'"),
        ({"lam": 1.0, "C": 1.0}, (X2, Y2), "lam, C: found both"),
        ({"lam": -1.0}, (X2, Y2), "lam"),
        ({"C": 0.0}, (X2, Y2), "C: found 0"),
        ({"multi_class": "both"}, (X3, Y3), "expected 'joint' or 'ovr'"),
        ({"penalize_intercept": "yes"}, (X2, Y2), "penalize_intercept: found 'yes'"),
        ({"class_weight": {7: 2.0, 0: 1.0}}, (X2, Y2), "not in class_weight"),
        ({"reg": "l3"}, (X2, Y2), "reg"),
        ({"tol": 0.0}, (X2, Y2), "tol"),
        ({"max_iter": 0}, (X2, Y2), "max_iter"),
        ({"device": "tpu"}, (X2, Y2), "device"),
    ],
)
def test_bad_input_is_a_value_error_of_one_line(options, data, text):
    with pytest.raises(ValueError, match=text):
        BMRMClassifier(**options).fit(*data)


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (np.zeros(150), "at least one non-zero"),
        (-np.ones(150), "[Nn]egative values"),
        (np.ones(149), r"sample_weight.shape == \(149,\)"),
        (np.ones((150, 2)), "1D array"),
        (np.where(Y2 == 0, 1.0, 0.0), "y: found one class"),
    ],
)
def test_bad_weights(weights, text):
    with pytest.raises(ValueError, match=text):
        BMRMClassifier().fit(X2, Y2, weights)


def test_an_estimator_that_is_not_fitted():
    for name in ("predict", "decision_function", "predict_proba", "score"):
        arguments = (X2, Y2) if name == "score" else (X2,)
        with pytest.raises(NotFittedError):
            getattr(BMRMClassifier("logistic"), name)(*arguments)
    assert not hasattr(BMRMClassifier("hinge"), "predict_proba")


@pytest.mark.parametrize("multi_class", ["joint", "ovr"])
@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("dtype", ["datetime64[D]", object, bool, np.int8, np.float32])
def test_labels_keep_their_type(dtype, number, multi_class):
    X, codes = problem(number)
    if dtype is bool and number > 2:
        pytest.skip("there are two truth values")
    names = np.array(["x", "y", "z"] if dtype is object else np.arange(3))[:number].astype(dtype)
    weights = np.ones(len(X))
    weights[:5] = 0.0
    plain = BMRMClassifier("logistic", multi_class=multi_class, class_weight="balanced")
    wanted = clone(plain).fit(X, codes, weights)
    found = plain.fit(X, names[codes], weights)
    assert found.classes_.dtype == names.dtype
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    np.testing.assert_array_equal(found.predict(X), names[wanted.predict(X)])
    factors = dict(zip(names.tolist(), [0.5, 2.0, 3.0], strict=False))
    if dtype != "datetime64[D]":
        given, coded = factors, dict(enumerate(factors.values()))
        pair = [clone(plain).set_params(class_weight=f) for f in (given, coded)]
        one, two = pair[0].fit(X, names[codes], weights), pair[1].fit(X, codes, weights)
        np.testing.assert_array_equal(one.coef_, two.coef_)
