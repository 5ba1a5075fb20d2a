"""Calibration compared with scikit-learn's on the same values, and its storage in a model file."""

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import bmrm
from bmrm.errors import DataError, ParameterError
from bmrm.linear.models.calibration import Isotonic, Platt
from bmrm.linear.models.metrics import ProbabilityMetrics
from bmrm.linear.models.model import Model


def drawn(rows, seed, scale=1.0, shift=0.3):
    rng = np.random.default_rng(seed)
    values = scale * rng.standard_normal(rows)
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-1.7 * values / scale + shift)), 2.0, 1.0)
    y[:2] = 1.0, 2.0
    return values, y


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0])
def test_platt_is_scikit_learns(scale, weighted):
    from sklearn.calibration import _SigmoidCalibration

    values, y = drawn(500, 0, scale)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, 500) if weighted else None
    for side in (y == 1, y == 2) if weighted else ():
        # Its targets use sums of weights as numbers of rows; here both are the effective numbers.
        weights[side] *= weights[side].sum() / (weights[side] ** 2).sum()
    ours = bmrm.calibrate(values, y, sample_weight=weights)
    # Its tolerance depends on the scale of the values, and is tight for values of size 1.
    theirs = _SigmoidCalibration().fit(values / scale, (y == 2).astype(float), weights)
    np.testing.assert_allclose(ours.probability(values), theirs.predict(values / scale), atol=2e-4)


def test_platt_is_the_minimum():
    """Compare with SciPy's minimiser of the penalised likelihood."""
    from scipy.optimize import minimize

    values, y = drawn(200, 2)
    up, down = (y == 2).sum(), (y == 1).sum()
    target = np.where(y == 2, (up + 1) / (up + 2), 1 / (down + 2))

    def f(ab):
        u = ab[0] * values + ab[1]
        return np.sum(target * np.logaddexp(0, u) + (1 - target) * np.logaddexp(0, -u))

    best = minimize(f, [0.0, 0.0], method="BFGS", options={"gtol": 1e-8})
    ours = bmrm.calibrate(values, y)
    assert f([ours.a, ours.b]) <= best.fun + 1e-9
    np.testing.assert_allclose([ours.a, ours.b], best.x, rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_isotonic_is_scikit_learns(weighted):
    from sklearn.isotonic import IsotonicRegression

    values, y = drawn(400, 3)
    values = values.round(1)  # ties
    weights = np.random.default_rng(4).uniform(0.2, 3.0, 400) if weighted else None
    theirs = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(values, y == 2, weights)
    ours = bmrm.calibrate(values, y, "isotonic", sample_weight=weights)
    wide = np.linspace(-4, 4, 1001)
    np.testing.assert_allclose(ours.probability(wide), theirs.predict(wide), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=40),
    seed=st.integers(0, 100),
    method=st.sampled_from(["platt", "isotonic"]),
)
@example(values=[0.0, 0.0, 5e-324], seed=0, method="platt")
def test_probabilities_are_probabilities_and_follow_the_values(values, seed, method):
    rng = np.random.default_rng(seed)
    u = np.array(values)
    y = rng.choice([0.0, 1.0], len(u))
    y[:2] = 0.0, 1.0
    found = bmrm.calibrate(u, y, method)
    p = found.probability(np.sort(u))
    assert np.isfinite(p).all()
    assert ((p >= 0) & (p <= 1)).all()
    steps = np.diff(p)
    assert (steps >= -1e-15).all() or (method == "platt" and (steps <= 1e-15).all())


def test_separable_values_stay_finite():
    values = np.concatenate([np.full(50, -30.0), np.full(50, 30.0)])
    found = bmrm.calibrate(values, values > 0)
    np.testing.assert_allclose(found.probability([-30.0, 30.0]), [1 / 52, 51 / 52], atol=1e-6)
    alike = bmrm.calibrate(np.zeros(4), [0, 1, 1, 1]).probability(np.zeros(1))
    assert alike == pytest.approx((3 * 0.8 + 1 / 3) / 4, abs=1e-6)


def test_rows_of_weight_zero_take_no_part():
    values, y = drawn(100, 5)
    weights = np.arange(100) % 2
    for method in ("platt", "isotonic"):
        some = bmrm.calibrate(values, y, method, sample_weight=weights).probability(values)
        cut = bmrm.calibrate(values[1::2], y[1::2], method).probability(values)
        np.testing.assert_allclose(some, cut, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0, 2.0], [0, 1], "beta"), ParameterError, "calibration: found 'beta'"),
        (([1.0, 2.0], [0, 1, 1]), DataError, "expected the same number"),
        (([1.0, np.nan], [0, 1]), DataError, "not finite"),
        (([1.0, 2.0], [1, 1]), DataError, "found 1 classes"),
        (([1.0, 2.0, 3.0], [0, 1, 2]), DataError, "found 3 classes"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        bmrm.calibrate(*arguments)


def test_bad_weights():
    with pytest.raises(DataError, match="negative"):
        bmrm.calibrate([1.0, 2.0], [0, 1], sample_weight=[1.0, -1.0])


def test_calibrating_a_selection_uses_held_out_values():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((300, 4))
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1, -1)
    found = bmrm.select(X, y, [1e-2, 1e-1], 3)
    direct = bmrm.calibrate(found.validations[found.chosen].values, y)
    assert found.calibrate() == direct
    model = Model.from_result(found.result, calibration=direct)
    np.testing.assert_array_equal(model.predict_probability(X), direct.probability(X @ found.result.w))
    scores = ProbabilityMetrics((-1.0, 1.0))
    scores.update(direct.probability(found.values), y)
    prior = -np.mean(y == 1) * np.log(np.mean(y == 1)) - np.mean(y != 1) * np.log(np.mean(y != 1))
    assert scores.report()["log_loss"] < prior


def test_probability_metrics_are_scikit_learns():
    from sklearn.metrics import brier_score_loss, log_loss

    rng = np.random.default_rng(7)
    p, y = rng.random(300), rng.choice([3.0, 4.0], 300)
    p[0], y[0] = 0.0, 4.0  # certain and wrong
    metrics = ProbabilityMetrics((3.0, 4.0))
    for part in np.array_split(np.arange(300), 7):
        metrics.update(p[part], y[part])
    report = metrics.report()
    assert report["log_loss"] == pytest.approx(log_loss(y == 4, p), rel=1e-9)
    assert report["brier"] == pytest.approx(brier_score_loss(y == 4, p), rel=1e-9)
    assert ProbabilityMetrics((0.0, 1.0)).report() == {"log_loss": None, "brier": None}


def model(calibration, **changes):
    fields = {"loss": "hinge", "task": "binary", "classes": (1.0, 2.0), **changes}
    return Model(np.array([1.0, -1.0]), 0.5, lam=0.1, calibration=calibration, **fields)


@pytest.mark.parametrize(
    "calibration",
    [Platt(-1.25, 0.1), Isotonic(np.array([-1.0, 0.5, 2.0]), np.array([0.0, 0.25, 1.0]))],
    ids=["platt", "isotonic"],
)
def test_a_model_file_keeps_it(calibration, tmp_path):
    model(calibration).save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model").calibration
    values = np.linspace(-3, 3, 50)
    assert loaded.probability(values).tobytes() == calibration.probability(values).tobytes()
    assert loaded.method == calibration.method


def test_models_without_a_calibration():
    assert not model(None).has_probabilities
    with pytest.raises(ParameterError, match="no calibration"):
        model(None).probabilities(np.zeros(2))
    logistic = model(None, loss="logistic")
    np.testing.assert_allclose(logistic.probabilities(np.array([0.0, 2.0])), [0.5, 1 / (1 + np.exp(-2.0))])
    with pytest.raises(DataError, match="regression model with a calibration"):
        model(Platt(-1.0, 0.0), task="regression", classes=None)


@pytest.mark.parametrize(
    "damage",
    [
        {"method": "platt", "a": None, "b": 0.0},
        {"method": "platt", "a": 1e999, "b": 0.0},
        {"method": "platt"},
        {"method": "magic"},
        {"method": "isotonic"},
        7,
    ],
)
def test_a_damaged_calibration_is_an_error(damage, tmp_path):
    model(Platt(-1.0, 0.0)).save(tmp_path / "model")
    raw = (tmp_path / "model").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    document = json.loads(header["__metadata__"]["bmrm"])
    header["__metadata__"]["bmrm"] = json.dumps({**document, "calibration": damage})
    text = json.dumps(header).encode()
    (tmp_path / "model").write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])
    with pytest.raises(DataError, match="damaged"):
        Model.load(tmp_path / "model")


@pytest.mark.parametrize(
    "knots",
    [
        (np.array([1.0, 0.0]), np.array([0.0, 1.0])),
        (np.array([0.0, 1.0]), np.array([1.0, 0.0])),
        (np.array([0.0, 1.0]), np.array([0.0, 2.0])),
        (np.array([0.0]), np.array([0.0, 1.0])),
        (np.zeros(0), np.zeros(0)),
        (np.array([0.0, np.nan]), np.array([0.0, 1.0])),
    ],
)
def test_knots_that_make_no_function_are_an_error(knots, tmp_path):
    model(Isotonic(*knots)).save(tmp_path / "model")
    with pytest.raises(DataError, match="damaged"):
        Model.load(tmp_path / "model")
