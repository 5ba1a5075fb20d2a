"""Labels of any type that sorts: every function returns them as they were, and computes the same numbers."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bmrm
from bmrm.errors import DataConversionWarning, DataError, ParameterError
from bmrm.linear.models import metrics
from bmrm.linear.models.checkpoint import Checkpoint, save
from bmrm.linear.warm_start import problem_of

M = 24
RNG = np.random.default_rng(3)
X = RNG.standard_normal((M, 3))
CODES = RNG.permutation(np.arange(M) % 3)
BIG = 2**53

NAMES = {
    "text": np.array(["no", "perhaps", "yes"]),
    "text of other letters": np.array(["Ärger", "β", "日本語\n"]),
    "int8": np.array([-128, 0, 127], np.int8),
    "int32": np.array([3, 5, 7], np.int32),
    "int64 above 2^53": np.array([BIG, BIG + 1, BIG + 2]),
    "uint64 above 2^63": np.array([2**63, 2**63 + 1, 2**64 - 1], np.uint64),
    "float32": np.array([0.1, 0.2, 0.3], np.float32),
    "float64": np.array([-1.5, 0.0, 2.0]),
    "booleans": np.array([False, True]),
}
every_type = pytest.mark.parametrize("kind", NAMES)


def labels(kind, classes=3):
    names = NAMES[kind]
    return names, names[CODES % min(classes, len(names))]


def same(found, expected):
    """Check values and type; texts may be of another length."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype or (found.dtype.kind == expected.dtype.kind == "U")
    assert found.tolist() == expected.tolist()


def losses_for(kind, *names):
    return names if len(NAMES[kind]) > 2 else ("hinge",)


def numbers_of(y):
    """The same classes as numbers, in the same order."""
    return np.unique(y, return_inverse=True)[1].astype(float)


@every_type
@pytest.mark.parametrize("loss", ["hinge", "logistic", "multiclass", "softmax"])
def test_a_model_predicts_what_was_in_y(kind, loss, tmp_path):
    several = loss in ("multiclass", "softmax")
    _, y = labels(kind, 3 if several else 2)
    found = bmrm.solve(X, y, loss, lam=0.01)
    by_number = bmrm.solve(X, numbers_of(y), loss, lam=0.01)
    same(found.w, by_number.w)
    assert (found.objective, found.lower_bound) == (by_number.objective, by_number.lower_bound)
    same(found.classes, np.unique(y))
    expected = np.unique(y)[by_number.predict(X).astype(int)]
    same(found.predict(X), expected)
    found.save(tmp_path / "model")
    model = bmrm.Model.load(tmp_path / "model")
    same(model.predict(X), expected)
    assert model.classes == tuple(np.unique(y).tolist())
    assert [type(label) for label in model.classes] == [type(label) for label in np.unique(y).tolist()]


@given(
    names=st.one_of(
        st.lists(st.text(st.characters(exclude_characters="\0")), min_size=2, max_size=5, unique=True),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=5, unique=True),
        st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=5, unique=True),
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=5, unique=True),
    ),
    as_objects=st.booleans(),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_any_labels_come_back(names, as_objects, data, tmp_path_factory):
    codes = [*range(len(names)), *data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=8))]
    y = [names[code] for code in codes]
    given_y = np.array(y, object) if as_objects else y
    rows = np.random.default_rng(0).standard_normal((len(y), 2))
    found = bmrm.solve(rows, given_y, "softmax", lam=0.1, max_iter=3)
    assert found.classes.tolist() == sorted(names)
    path = tmp_path_factory.mktemp("labels") / "model"
    found.save(path)
    model = bmrm.Model.load(path)
    assert model.classes == tuple(sorted(names))
    same(model.predict(rows), found.predict(rows))
    assert set(model.predict(rows).tolist()) <= set(names)


@pytest.mark.parametrize(
    ("y", "text"),
    [
        (["a", 1] * 12, "labels: row 2 has 1, expected text like the others"),
        ([1, "a"] * 12, "labels: row 1 has 1, expected text like the others"),
        (np.array(["a", 2.0] * 12, object), "labels: row 2 has 2.0, expected text"),
        (["a", None] * 12, "labels: row 2 has None, expected a label"),
        (["a", float("nan")] * 12, "labels: row 2 has nan, expected a label"),
        ([1, None] * 12, "labels: row 2 has None, expected a number"),
        ([1.0, float("nan")] * 12, "labels: row 2 has nan, expected a finite number"),
        ([b"a", b"b"] * 12, "labels: found bytes, expected numbers or text"),
        (np.array([b"a", b"b"] * 12, object), "labels: found bytes, expected numbers or text"),
        ([True, "b"] * 12, "labels: row 1 has True, expected text"),
        (np.array(["2020", "2021"] * 12, "M8[Y]"), "labels: found values of type datetime64"),
        ([1j, 2j] * 12, "labels: found complex numbers"),
        (["a"] * M, r"found one label \('a'\), expected two classes"),
        (["a", "b", "c"] * 8, "found labels 'a', 'b' and 'c', expected two classes"),
        (["a", "b"], r"labels: found shape \(2,\), expected \(24,\)"),
    ],
)
def test_labels_that_are_refused(y, text):
    with pytest.raises(DataError, match=text) as caught:
        bmrm.solve(X, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("loss", ["squared", "poisson", "pairwise", "ordinal"])
def test_losses_of_numbers_refuse_text(loss):
    with pytest.raises(DataError, match=r"labels: found text|found text as labels"):
        bmrm.solve(X, np.array(["1", "2"] * 12), loss, groups=np.zeros(M) if loss == "pairwise" else None)


def test_ordered_classes_keep_their_type():
    y = np.array([1, 2, 5], np.int16)[CODES]
    found = bmrm.solve(X, y, "ordinal", lam=0.01)
    same(found.classes, np.array([1, 2, 5], np.int16))
    assert found.predict(X).dtype == np.int16
    same(found.w, bmrm.solve(X, y.astype(float), "ordinal", lam=0.01).w)
    scores = bmrm.cross_validate(bmrm.Dataset(X, y), 3, loss="ordinal", lam=0.01).metrics
    assert scores == bmrm.cross_validate(bmrm.Dataset(X, y + 0.0), 3, loss="ordinal", lam=0.01).metrics


@every_type
def test_folds_selection_and_calibration(kind):
    _, y = labels(kind, 2)
    numbers = numbers_of(y)
    for weights in (None, np.arange(M) % 4):
        one, other = (
            bmrm.select(X, labels_, [0.1, 0.01], 3, metric="auc", sample_weight=weights)
            for labels_ in (y, numbers)
        )
        same(one.scores, other.scores)
        same(one.result.classes, np.unique(y))
        assert one.validations[0].metrics == other.validations[0].metrics
        same(one.values, other.values)
        assert one.calibrate() == other.calibrate()
        assert bmrm.calibrate(one.values, y) == bmrm.calibrate(one.values, numbers)
    for loss in losses_for(kind, "multiclass", "softmax"):
        _, y = labels(kind)
        one, other = (
            bmrm.cross_validate(bmrm.Dataset(X, labels_), 3, loss=loss, lam=0.1).metrics
            for labels_ in (y, numbers_of(y))
        )
        assert one == other


@every_type
def test_class_weights_by_label(kind):
    names, y = labels(kind, 2)
    numbers = numbers_of(y)
    for weight in ({names[1]: 3.0}, {names.tolist()[0]: 0.5, names.tolist()[1]: 2.0}, "balanced"):
        of_numbers = weight
        if isinstance(weight, dict):
            of_numbers = {float(names.tolist().index(label)): factor for label, factor in weight.items()}
        same(bmrm.solve(X, y, class_weight=weight).w, bmrm.solve(X, numbers, class_weight=of_numbers).w)
    absent = "other" if kind.startswith("text") else 99
    with pytest.warns(UserWarning, match="class_weight: no row has label"):
        same(bmrm.solve(X, y, class_weight={absent: 2.0}).w, bmrm.solve(X, y).w)
    other = 99 if kind.startswith("text") else "other"
    with pytest.raises(ParameterError, match=r"found label .+, expected labels such as"):
        bmrm.solve(X, y, class_weight={other: 2.0})


def test_rows_of_weight_zero_may_have_any_label():
    y = ["a", "b"] * 12
    y[0] = y[5] = None
    s = np.ones(M)
    s[[0, 5]] = 0.0
    found = bmrm.solve(X, y, lam=0.1, sample_weight=s)
    assert found.classes.tolist() == ["a", "b"]
    others = bmrm.solve(X[s > 0], [label for label in y if label], lam=0.1)
    np.testing.assert_allclose(found.w, others.w, rtol=1e-12)


@pytest.mark.parametrize("loss", ["multilabel", "multilabel_ranking"])
def test_sets_of_labels(loss, tmp_path):
    names = ["cat", "dog", "emu"]
    sets = [(k % 3, (k + 1) % 3) if k % 2 else (k % 3,) for k in range(M)]
    y = [{names[code] for code in row} for row in sets]
    found = bmrm.solve(X, y, loss, lam=0.01)
    by_number = bmrm.solve(X, sets, loss, lam=0.01)
    same(found.w, by_number.w)
    expected = [tuple(names[code] for code in row) for row in by_number.predict(X)]
    assert found.predict(X) == expected
    found.save(tmp_path / "model")
    assert bmrm.Model.load(tmp_path / "model").predict(X) == expected
    one, other = (
        bmrm.select(X, labels_, [0.1, 0.01], 3, loss=loss).validations[0].metrics for labels_ in (y, sets)
    )
    assert one == other
    with pytest.raises(DataError, match="expected text like the others"):
        bmrm.solve(X, [("a", 1)] * M, loss)


@every_type
def test_metrics_of_labels(kind):
    names, y = labels(kind, 2)
    values, numbers = X[:, 0], numbers_of(y)
    for make in (metrics.BinaryMetrics, metrics.ProbabilityMetrics):
        given_values = values if make is metrics.BinaryMetrics else 1.0 / (1.0 + np.exp(-values))
        one, other = make(names[:2]), make((0.0, 1.0))
        one.update(given_values, y)
        other.update(given_values, numbers)
        assert one.report() == other.report()
    if len(names) > 2:
        _, y = labels(kind)
        one, other = metrics.MulticlassMetrics(names[1:]), metrics.MulticlassMetrics((1.0, 2.0))
        one.update(X[:, 1:], y)
        other.update(X[:, 1:], numbers_of(y))
        assert one.report() == other.report()


def test_metrics_refuse_text_among_numbers():
    scores = metrics.BinaryMetrics(("no", "yes"))
    with pytest.raises(DataError, match="labels: found numbers, expected text like the classes"):
        scores.update(X[:, 0], np.ones(M))
    scores.update(X[:, 0], np.ones(M), np.zeros(M))  # no row counts
    assert scores.report()["rows"] == 0
    with pytest.raises(DataError, match="labels: found text, expected numbers like the classes"):
        metrics.MulticlassMetrics((0, 1, 2)).update(X, ["a"] * M)


def test_warm_starts_and_checkpoints(tmp_path):
    y = np.array(["b", "a"])[np.arange(M) % 2]
    first = bmrm.solve(X, y, lam=0.01, max_iter=2)
    save(tmp_path / "state", bmrm.Model.from_result(first), problem_of(first), first.bundle.working())
    for start in (first, bmrm.Model.from_result(first), Checkpoint.load(tmp_path / "state")):
        found = bmrm.solve(X, y, lam=0.01, warm_start=start)
        assert found.status == "converged"
        assert found.classes.tolist() == ["a", "b"]
    assert [r.classes.tolist() for r in bmrm.path(X, y, [0.1, 0.01])] == [["a", "b"]] * 2


def test_a_column_of_labels_is_a_vector_with_a_warning():
    y = np.array(["a", "b"] * 12)
    right = bmrm.solve(X, y, lam=0.1)
    with pytest.warns(DataConversionWarning, match=r"labels: found shape \(24, 1\), expected \(24,\)"):
        same(bmrm.solve(X, y[:, None], lam=0.1).w, right.w)
    with pytest.warns(DataConversionWarning):
        same(bmrm.solve(X, X[:, :1], "squared").w, bmrm.solve(X, X[:, 0], "squared").w)
    with pytest.warns(DataConversionWarning):
        same(bmrm.select(X, y[:, None], [0.1], 3, class_weight="balanced").result.classes, ["a", "b"])


# --- the file


def document_of(path):
    raw = path.read_bytes()
    return json.loads(json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]["bmrm"])


def test_labels_in_the_file(tmp_path):
    for kind, (first, name) in {
        "text": ("no", "str"),
        "int8": (-128, "int8"),
        "booleans": (False, "bool"),
        "float32": (float(np.float32(0.1)), "float32"),
    }.items():
        bmrm.solve(X, labels(kind, 2)[1]).save(tmp_path / "model")
        document = document_of(tmp_path / "model")
        assert document["format_version"] == 2
        assert (document["classes"][0], document["label_type"]) == (first, name)
        assert type(document["classes"][0]) is type(first)


FIELDS = {"w": np.ones(2), "intercept": 0.0, "loss": "hinge", "task": "binary", "lam": 0.1}


@pytest.mark.parametrize(
    ("classes", "label_type"),
    [
        (("b", "a"), None),
        (("a", "a"), None),
        (("a", 1), None),
        ((b"a", b"b"), None),
        ((1, 2), "str"),
        (("a", "b"), "int64"),
        ((1, 300), "int8"),
        ((-1, 1), "uint8"),
        ((0.5, 1.0), "int64"),
        ((0, 1), "complex128"),
        ((0, 1), "object"),
    ],
)
def test_a_model_with_impossible_labels(classes, label_type):
    with pytest.raises(DataError, match="model: "):
        bmrm.Model(**FIELDS, classes=classes, label_type=label_type)


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": [1, 2]},
        {"classes": [True, False]},
        {"classes": ["a", None]},
        {"classes": "ab"},
        {"label_type": "int64"},
        {"label_type": None},
        {"label_type": 3},
        {"label_type": "object"},
        {"format_version": 1},
        {"format_version": True},
        {"format_version": 3},
        {"format_version": 2.0},
    ],
)
def test_a_file_with_impossible_labels(changes, tmp_path):
    from bmrm.linear.models import model_file

    model = bmrm.Model(**FIELDS, classes=("a", "b"))
    description, tensors = model.file_parts()
    model_file.write(tmp_path / "right", description, tensors)
    assert bmrm.Model.load(tmp_path / "right").classes == ("a", "b")
    model_file.write(tmp_path / "wrong", {**description, **changes}, tensors)
    with pytest.raises(DataError, match="wrong: "):
        bmrm.Model.load(tmp_path / "wrong")


# --- other containers


def in_frames():
    """Labels as the columns of frames and arrays of other libraries, by name."""
    words, numbers = np.array(["no", "yes"] * 12), np.array([3, 7] * 12)
    pd = pytest.importorskip("pandas")
    index = RNG.permutation(M) + 50
    for dtype in ("str", object, "category", "string"):
        yield f"pandas {dtype}", pd.Series(words.tolist(), index=index, dtype=dtype), words
    for dtype in ("Int64", "int8", "category", object):
        yield f"pandas {dtype}", pd.Series(numbers, index=index).astype(dtype), numbers
    yield "pandas boolean", pd.Series(numbers > 3, index=index, dtype="boolean"), numbers > 3
    pl = pytest.importorskip("polars")
    for kind in (pl.String, pl.Categorical, pl.Enum(["no", "yes"])):
        yield f"polars {kind}", pl.Series(words.tolist(), dtype=kind), words
    yield "polars int", pl.Series(numbers), numbers
    pa = pytest.importorskip("pyarrow")
    yield "arrow", pa.array(words.tolist()), words
    yield "arrow dictionary", pa.array(words.tolist()).dictionary_encode(), words
    yield "arrow chunks", pa.chunked_array([words[:5].tolist(), words[5:].tolist()]), words
    yield "arrow in pandas", pd.Series(words.tolist(), dtype=pd.ArrowDtype(pa.string())), words


def test_labels_in_frames():
    for name, y, plain in in_frames():
        found, right = bmrm.solve(X, y, lam=0.1), bmrm.solve(X, plain, lam=0.1)
        assert found.predict(X).tolist() == right.predict(X).tolist(), name
        assert (found.w == right.w).all(), name
        assert found.classes.dtype.kind == right.classes.dtype.kind, name
        s = np.arange(M) % 3
        weighted = [
            bmrm.solve(X, labels_, sample_weight=s, class_weight="balanced").w for labels_ in (y, plain)
        ]
        assert (weighted[0] == weighted[1]).all(), name


def test_missing_labels_in_frames():
    pd = pytest.importorskip("pandas")
    words, numbers = [None, "a", "b"] * 8, [None, 1, 2] * 8
    for y in (pd.Series(words), pd.Series(words, dtype="category"), pd.Series(numbers, dtype="Int64")):
        with pytest.raises(DataError, match=r"labels: row 1 has .*, expected a"):
            bmrm.solve(X, y)
    pl = pytest.importorskip("polars")
    for y in (pl.Series(words), pl.Series(numbers)):
        with pytest.raises(DataError, match=r"labels: row 1 has .*, expected a"):
            bmrm.solve(X, y)
