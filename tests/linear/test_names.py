"""Names of the columns of frames: kept in results, models and files, and checked in predictions."""

import gzip

import numpy as np
import pytest

import bmrm
from bmrm.errors import DataError
from bmrm.linear.models import model_file
from bmrm.linear.models.certificate import TrainingData

X = np.random.default_rng(5).standard_normal((20, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")
NAMES = ("age", "größe", "job\n")


class Frame:
    """What frames of all libraries have in common."""

    def __init__(self, values, columns):
        self.values, self.columns = values, list(columns)
        self.shape = values.shape

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


class Table(Frame):
    """A table of Arrow: its `columns` are not names."""

    def __init__(self, values, columns):
        super().__init__(values, values.T)
        self.column_names = list(columns)


@pytest.mark.parametrize("kind", [Frame, Table])
def test_names_are_kept_everywhere(kind, tmp_path):
    frame = kind(X, NAMES)
    for found in (
        bmrm.solve(frame, Y),
        bmrm.select(frame, Y, [0.1, 0.01], 3).result,
        bmrm.select(bmrm.Dataset(frame, Y), None, [0.1], 3, loss="logistic").result,
        bmrm.path(frame, Y, [0.1]).results[0],
    ):
        assert found.feature_names == NAMES
    found.save(tmp_path / "model")
    model = bmrm.Model.load(tmp_path / "model")
    assert model.feature_names == NAMES
    assert model.predict(frame).tolist() == found.predict(X).tolist()
    assert model.training == TrainingData(20, 3, 60)


@pytest.mark.parametrize(
    "columns", [(0, 1, 2), ("a", "b", 3), None, ()], ids=["numbers", "mixed", "none", "empty"]
)
def test_only_text_counts_as_names(columns):
    given = X if columns is None else Frame(X, columns)
    found = bmrm.solve(given, Y)
    assert found.feature_names is None
    found.predict(Frame(X, ("a", "b", "c")))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (("größe", "age", "job\n"), "X: found 'größe' as column 1, expected 'age' as in training"),
        (("age", "größe"), r"X: found no column 'job\\n', expected the columns of training"),
        (("age", "a", "b"), r"X: found no column 'größe', and 1 others are missing, expected"),
        ((*NAMES, "x", "y"), "X: found a column 'x' and 1 others, expected the columns of training alone"),
        ((*NAMES, "age"), "X: found 4 columns, expected 3 as in training"),
    ],
)
def test_other_columns_are_refused(columns, text):
    values = np.zeros((2, len(columns)))
    for model in (bmrm.solve(Frame(X, NAMES), Y), bmrm.Model.from_result(bmrm.solve(Frame(X, NAMES), Y))):
        for function in (model.predict, model.decision_function):
            with pytest.raises(DataError, match=text) as caught:
                function(Frame(values, columns))
            assert "\n" not in str(caught.value)


def test_a_prior_of_other_columns_is_refused():
    prior = bmrm.solve(Frame(X, NAMES), Y)
    with pytest.raises(DataError, match="prior: found 'age' as column 1, expected 'job"):
        bmrm.solve(Frame(X[:, ::-1], NAMES[::-1]), Y, prior=prior)
    bmrm.solve(X, Y, prior=prior)


def test_frames_of_libraries():
    pd = pytest.importorskip("pandas")
    found = bmrm.solve(pd.DataFrame(X, columns=list(NAMES)), Y)
    with pytest.raises(DataError, match="as column 1"):
        found.predict(pd.DataFrame(X[:, ::-1], columns=list(NAMES[::-1])))
    pl = pytest.importorskip("polars")
    assert bmrm.solve(pl.DataFrame(X, schema=list(NAMES)), Y).feature_names == NAMES
    pa = pytest.importorskip("pyarrow")
    table = pa.table(dict(zip(NAMES, X.T, strict=True)))
    assert bmrm.solve(table, Y).feature_names == NAMES


def test_many_names(tmp_path):
    """A header of a file has room for 1 MiB; names are not in it."""
    names = tuple(f"a rather long name of a feature, number {k}" for k in range(50_000))
    model = bmrm.Model(np.zeros(50_000), 0.0, "hinge", "binary", ("a", "b"), lam=1.0, feature_names=names)
    model.save(tmp_path / "model")
    assert bmrm.Model.load(tmp_path / "model").feature_names == names
    with pytest.raises(bmrm.errors.ParameterError, match="its labels are too many or too long"):
        bmrm.Model(np.zeros(1), 0.0, "hinge", "binary", ("a", "b" * 2**20), lam=1.0).save(tmp_path / "model")


FIELDS = {
    "w": np.ones(2),
    "intercept": 0.0,
    "loss": "squared",
    "task": "regression",
    "classes": None,
    "lam": 0.1,
}


@pytest.mark.parametrize("names", [("a",), ("a", 1), ("a", "b", "c")])
def test_a_model_with_impossible_names(names):
    with pytest.raises(DataError, match="names of features, expected 2 texts"):
        bmrm.Model(**FIELDS, feature_names=names)


@pytest.mark.parametrize("text", [b'["a"]', b'["a", 1]', b'"ab"', b"[", b"\xff", b"", b'{"a": 1, "b": 2}'])
def test_a_file_with_impossible_names(text, tmp_path):
    description, tensors = bmrm.Model(**FIELDS, feature_names=("a", "b")).file_parts()
    model_file.write(tmp_path / "m", description, {**tensors, "feature_names": np.frombuffer(text, np.uint8)})
    with pytest.raises(DataError, match="m: "):
        bmrm.Model.load(tmp_path / "m")


@pytest.mark.parametrize(
    "training",
    [
        {"rows": 1, "features": 2},
        {"rows": -1, "features": 2, "values": 2},
        {"rows": 1.5, "features": 2, "values": 2},
        {"rows": True, "features": 2, "values": 2},
        {"rows": 1, "features": 2, "values": 2, "text_checksum": "abc"},
        {"rows": 1, "features": 2, "values": 2, "text_checksum": 7},
        {"rows": 1, "features": 2, "values": 2, "more": 7},
        [1, 2, 3],
        "abc",
    ],
)
def test_a_file_with_impossible_training_data(training, tmp_path):
    description, tensors = bmrm.Model(**FIELDS).file_parts()
    model_file.write(tmp_path / "m", {**description, "training": training}, tensors)
    with pytest.raises(DataError, match="m: damaged model description"):
        bmrm.Model.load(tmp_path / "m")


def test_the_command_notes_the_text(tmp_path):
    from bmrm.cli import train

    path = tmp_path / "a.svm"
    path.write_text("1 1:1\n-1 2:1 3:0.5\n")
    sums = []
    for word in ("1", "1", "3"):
        path.write_text(f"{word} 1:1\n-1 2:1 3:0.5\n")
        assert train.main([str(path), str(tmp_path / "model"), "-q"]) == 0
        training = bmrm.Model.load(tmp_path / "model").training
        assert (training.rows, training.features, training.values) == (2, 3, 3)
        sums.append(training.text_checksum)
    assert sums[0] == sums[1] != sums[2]
    (tmp_path / "a.svm.gz").write_bytes(gzip.compress(path.read_bytes()))
    for words in ([], ["--cache"]):
        assert train.main([str(tmp_path / "a.svm.gz"), str(tmp_path / "model"), "-q", *words]) == 0
        assert bmrm.Model.load(tmp_path / "model").training == TrainingData(2, 3, 3)
