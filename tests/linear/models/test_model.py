"""The model file: loading returns what was saved, other tools read it, and damage never crashes."""

import contextlib
import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import load_file, save_file

from bmrm.errors import DataError, ParameterError
from bmrm.io.csr import Csr
from bmrm.linear.models.certificate import Certificate
from bmrm.linear.models.model import Model

CERTIFICATE = Certificate(0.35, 0.34, "converged", 12, 1e-3, "rel")


def example(**changes):
    fields = {
        "w": np.array([1.5, -0.0, 1e-300]),
        "intercept": 0.25,
        "loss": "huber_hinge",
        "task": "binary",
        "classes": (2.0, 4.0),
        "lam": 1e-5,
        "loss_params": {"h": 0.5},
        "certificate": CERTIFICATE,
        "zero_based": True,
    }
    return Model(**{**fields, **changes})


def same(one, other):
    assert one.w.tobytes() == other.w.tobytes()
    for name in (
        "intercept",
        "loss",
        "task",
        "classes",
        "lam",
        "reg",
        "certificate",
        "zero_based",
        "thresholds",
    ):
        assert getattr(one, name) == getattr(other, name)
    assert dict(one.loss_params) == dict(other.loss_params)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"task": "regression", "classes": None, "loss": "squared", "loss_params": {}},
        {"certificate": None, "zero_based": None},
        {"certificate": Certificate(0.5, -np.inf, "max_iter", 0, 1e-3, "abs")},
        {"w": np.zeros(0)},
    ],
)
def test_round_trip(changes, tmp_path):
    model = example(**changes)
    model.save(tmp_path / "model")
    same(Model.load(tmp_path / "model"), model)


@given(
    w=arrays.arrays(
        np.float64, st.integers(0, 20), elements=st.floats(allow_nan=False, allow_infinity=False)
    ),
    intercept=st.floats(allow_nan=False, allow_infinity=False),
    lam=st.floats(min_value=1e-300, max_value=1e300),
)
@settings(max_examples=30, deadline=None)
def test_round_trip_is_exact(w, intercept, lam, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    model = example(w=w, intercept=intercept, lam=lam)
    model.save(path)
    same(Model.load(path), model)


def test_the_library_version_is_recorded(tmp_path):
    from bmrm.base.version import __version__

    example().save(tmp_path / "model")
    assert Model.load(tmp_path / "model").library_version == __version__


def test_other_tools_read_it(tmp_path):
    example().save(tmp_path / "model")
    tensors = load_file(tmp_path / "model")
    assert tensors["w"].tolist() == example().w.tolist()
    assert tensors["intercept"].tolist() == [0.25]


def test_the_document_is_strict_json(tmp_path):
    example(certificate=Certificate(0.5, -np.inf, "max_iter", 0, 1e-3, "abs")).save(tmp_path / "model")
    raw = (tmp_path / "model").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert list(header["__metadata__"]) == ["bmrm"]

    def refuse(constant):
        raise AssertionError(constant)

    document = json.loads(header["__metadata__"]["bmrm"], parse_constant=refuse)
    assert document["certificate"]["lower_bound"] is None


@given(position=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_changed_byte_is_an_error_or_a_model(position, value, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    example().save(folder / "whole")
    raw = bytearray((folder / "whole").read_bytes())
    raw[int(position * len(raw))] = value
    (folder / "changed").write_bytes(raw)
    with contextlib.suppress(DataError):
        assert np.isfinite(Model.load(folder / "changed").w).all()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"loss": {"name": "softmax", "params": {}}},
            "found the task 'binary' with the loss softmax, expected",
        ),
        ({"loss": {"name": "logistic", "params": {}}, "task": "regression"}, "expected 'binary'"),
        ({"loss": {"name": "huber_hinge", "params": {"h": 0}}}, "h: found 0, expected > 0"),
        ({"loss": {"name": "huber_hinge", "params": {"k": 1}}}, "unknown parameter 'k'"),
        ({"loss": {"name": "precision_at_k", "params": {"k": 0}}}, "k: found 0, expected > 0"),
        ({"loss": {"name": "precision_at_k", "params": {"k": np.nan}}}, "damaged model description"),
        ({"loss": {"name": "own", "params": {"p": np.inf}}}, "damaged model description"),
        ({"reg_params": {"l1_ratio": np.nan}}, "damaged model description"),
        ({"reg_params": {"l1_ratio": 10**400}}, "damaged model description"),
        ({"certificate": {**vars(CERTIFICATE), "tol": np.inf}}, "damaged model description"),
    ],
)
def test_descriptions_that_fit_nothing_are_refused(changes, text, tmp_path):
    path = tmp_path / "model"
    example().save(path)
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    document = json.loads(header["__metadata__"]["bmrm"]) | changes
    save_file(load_file(path), path, {"bmrm": json.dumps(document)})
    with pytest.raises(DataError, match=f"^{path}: .*{text}"):
        Model.load(path)


def test_every_truncation_is_an_error(tmp_path):
    example().save(tmp_path / "whole")
    raw = (tmp_path / "whole").read_bytes()
    for length in range(len(raw)):
        (tmp_path / "part").write_bytes(raw[:length])
        with pytest.raises(DataError, match=r"empty|not a bmrm model|truncated"):
            Model.load(tmp_path / "part")


@pytest.mark.parametrize(
    "changes",
    [
        {"w": np.ones(3, np.float32)},
        {"w": np.ones((3, 1))},
        {"w": np.array([np.inf])},
        {"intercept": np.nan},
        {"task": "juggling"},
        {"classes": None},
        {"classes": (1.0, 1.0)},
        {"classes": (0.0, np.nan)},
        {"task": "regression"},
        {"task": "multiclass", "w": np.ones((3, 0)), "intercept": np.ones(0), "classes": ()},
        {"lam": 0.0},
        {"lam": np.inf},
    ],
)
def test_models_that_make_no_sense_are_refused(changes):
    with pytest.raises(DataError, match="model: "):
        example(**changes)


X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [-1.0, 3.0, 0.0]])


@pytest.mark.parametrize("kind", ["dense", "csr", "scipy"])
def test_decision_function(kind):
    from scipy import sparse

    model = example(w=np.array([1.0, -2.0, 0.5]))
    given_X = {"dense": X, "csr": Csr.from_scipy(sparse.csr_matrix(X)), "scipy": sparse.csr_array(X)}[kind]
    assert model.decision_function(given_X).tolist() == [2.25, 0.25, -6.75]
    assert model.predict(given_X).tolist() == [4.0, 4.0, 2.0]


@pytest.mark.parametrize(
    ("given_X", "text"),
    [
        (np.ones((1, 2)), "found 2 features, expected the model's 3"),
        (np.ones(3), r"found shape \(3,\)"),
        ([["a", "b", "c"]], "expected a matrix of real numbers"),
        (np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0]]), "row 2, column 2 has nan"),
        (np.array([[1.0, np.inf, 3.0]]), "row 1, column 2 has inf"),
        (np.ma.masked_greater(X, 2.5), "masked values"),
    ],
)
def test_data_that_cannot_be_predicted(given_X, text):
    with pytest.raises(DataError, match=text):
        example().predict(given_X)


def test_what_each_task_predicts():
    values = np.array([-1.0, 0.0, 2.0])
    assert example().predictions(values).tolist() == [2.0, 2.0, 4.0]
    assert example(task="regression", classes=None).predictions(values).tolist() == values.tolist()
    assert example(task="count", classes=None).predictions(values).tolist() == np.exp(values).tolist()
    assert example(task="novelty", classes=None).predictions(values).tolist() == [-1.0, 1.0, 1.0]
    assert example(task="ranking", classes=None).predictions(values).tolist() == values.tolist()


def test_liblinear_text(tmp_path):
    example(loss="hinge", w=np.array([0.1, -2.0]), zero_based=False).export_liblinear(tmp_path / "text")
    assert (tmp_path / "text").read_text().splitlines() == [
        "solver_type L2R_L1LOSS_SVC_DUAL",
        "nr_class 2",
        "label 4 2",
        "nr_feature 2",
        "bias 1",
        "w",
        "0.10000000000000001 ",
        "-2 ",
        "0.25 ",
    ]


def test_liblinear_text_of_regression_has_no_labels(tmp_path):
    model = example(loss="squared", task="regression", classes=None, intercept=0.0, zero_based=False)
    model.export_liblinear(tmp_path / "text")
    lines = (tmp_path / "text").read_text().splitlines()
    assert lines[:5] == ["solver_type L2R_L2LOSS_SVR", "nr_class 2", "nr_feature 3", "bias -1", "w"]


def test_liblinear_text_without_features(tmp_path):
    example(w=np.zeros(0), zero_based=False).export_liblinear(tmp_path / "text")
    assert (tmp_path / "text").read_text().splitlines()[3:] == ["nr_feature 0", "bias 1", "w", "0.25 "]


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": "poisson", "task": "count", "classes": None},
        {"loss": "novelty", "task": "novelty", "classes": None},
        {"classes": (0.5, 1.0), "zero_based": False},
        {"classes": (0.0, 2.0**40), "zero_based": False},
        {"zero_based": True},
    ],
)
def test_what_liblinear_cannot_hold(changes, tmp_path):
    with pytest.raises(ParameterError, match="liblinear"):
        example(**changes).export_liblinear(tmp_path / "text")
    assert os.listdir(tmp_path) == []


ORDINAL = {
    "loss": "ordinal",
    "task": "ordinal",
    "loss_params": {},
    "classes": (1.0, 2.0, 5.0),
    "thresholds": (-0.5, 0.5),
}


def test_ordered_classes_are_saved_and_predicted(tmp_path):
    example(**ORDINAL).save(tmp_path / "model")
    model = Model.load(tmp_path / "model")
    same(model, example(**ORDINAL))
    values = np.array([-1.0, -0.5, 0.0, 0.5, 0.6])
    assert model.predictions(values).tolist() == [1.0, 1.0, 2.0, 2.0, 5.0]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"thresholds": None}, "thresholds None"),
        ({"thresholds": (0.0,)}, "expected finite ones between the labels"),
        ({"thresholds": (0.5, -0.5)}, "in order"),
        ({"thresholds": (0.5, np.inf)}, "finite"),
        ({"classes": (1.0,), "thresholds": ()}, "labels"),
        ({"classes": (1.0, 2.0, 2.0)}, "ascending"),
        ({"classes": None}, "ordinal model with labels None"),
        ({"task": "binary"}, "binary model with thresholds"),
        ({"task": "ranking", "classes": None}, "ranking model with thresholds"),
    ],
)
def test_a_model_of_ordered_classes_must_fit_together(changes, text):
    with pytest.raises(DataError, match=text):
        example(**{**ORDINAL, **changes})
