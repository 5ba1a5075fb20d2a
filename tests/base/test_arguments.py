"""Every array argument of every public function, in every container: same result as an array, or one line."""

import collections
import contextlib
import datetime
import decimal
import functools

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm import losses
from bmrm.base import arguments
from bmrm.base.groups import number_groups
from bmrm.base.labels import label_sets
from bmrm.errors import BmrmError, DataError, ParameterError
from bmrm.linear.models import metrics
from bmrm.linear.models.model import Model
from bmrm.matrix.examples import Examples

M, D = 12, 3
RNG = np.random.default_rng(5)
X = RNG.standard_normal((M, D)).round(3)
Y = np.where(X[:, 0] + 0.3 * RNG.standard_normal(M) > 0, 1.0, -1.0)
CLASSES = np.arange(M) % 3.0
SETS = (X > 0).astype(float)
WEIGHTS = (RNG.random(M) + 0.1).round(3)
GROUPS = np.arange(M) // 4
COSTS = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
TARGETS = np.abs(X[:, 1]).round(2)


def weights_of(result):
    return np.append(np.ravel(result.w), result.objective)


def solved(data=X, y=Y, **options):
    return weights_of(bmrm.solve(data, y, lam=0.1, **options))


def selected(data=X, y=Y, lams=(0.1, 1.0), **options):
    found = bmrm.select(data, y, lams, folds=2, **options)
    return np.append(found.scores.ravel(), weights_of(found.result))


def of_dataset(data=X, y=Y, loss="hinge", **options):
    return weights_of(bmrm.solve(bmrm.Dataset(data, y, **options), lam=0.1, loss=loss))


def along(data=X, y=Y, lams=(0.1, 1.0), **options):
    return np.concatenate([weights_of(result) for result in bmrm.path(data, y, lams, **options)])


def calibrated(values=X[:, 0], y=Y, method="platt", **options):
    return bmrm.calibrate(values, y, method, **options).probability(np.linspace(-1.0, 1.0, 5))


def report(scores, values, y):
    scores.update(values, y)
    return np.array([np.nan if x is None else x for x in scores.report().values()], float)


MODEL = Model(np.array([1.0, -2.0, 0.5]), 0.25, "logistic", "binary", (-1.0, 1.0), lam=0.1)
SOFTMAX = Model(np.eye(3), np.zeros(3), "softmax", "multiclass", (0.0, 1.0, 2.0), lam=0.1)
P = np.linspace(0.0, 1.0, M).round(3)


def loss_at(name, given=X[:, 0], y=Y, **options):
    loss = losses.get(name)
    if hasattr(loss, "evaluate"):
        return loss.evaluate(given, y, **options)[1]
    return np.append(loss.value(given, y), loss.derivative(given, y))


def model(classes):
    return Model(np.ones(2), 0.0, "hinge", "binary", classes, lam=0.1).classes


# Name, function of the argument, the argument as an ndarray, what a message may call it.
SLOTS = [
    ("solve X", lambda a: solved(a), X, "X"),
    ("solve X, K classes", lambda a: solved(a, CLASSES, loss="softmax"), X, "X"),
    ("solve y", lambda a: solved(y=a), Y, "labels"),
    ("solve y, classes", lambda a: solved(y=a, loss="multiclass"), CLASSES, "labels"),
    ("solve y, ordered", lambda a: solved(y=a, loss="ordinal"), CLASSES, "labels"),
    ("solve y, reals", lambda a: solved(y=a, loss="squared"), TARGETS, "labels"),
    ("solve y, counts", lambda a: solved(y=a, loss="poisson"), CLASSES, "labels"),
    ("solve y, relevances", lambda a: solved(y=a, loss="pairwise", groups=GROUPS), CLASSES, "labels"),
    ("solve y, sets", lambda a: solved(y=a, loss="multilabel"), SETS, "labels"),
    ("solve y, sets in order", lambda a: solved(y=a, loss="multilabel_ranking"), SETS, "labels"),
    ("solve sample_weight", lambda a: solved(sample_weight=a), WEIGHTS, "sample weights"),
    ("solve groups", lambda a: solved(y=CLASSES, loss="pairwise", groups=a), GROUPS, "groups"),
    ("solve feature_lambda", lambda a: solved(feature_lambda=a), WEIGHTS[:D], "feature_lambda"),
    ("solve prior", lambda a: solved(prior=a), X[0], "prior"),
    ("solve warm_start", lambda a: solved(warm_start=a), X[0], "warm_start"),
    ("solve costs", lambda a: solved(y=CLASSES, loss="multiclass", costs=a), COSTS, "costs"),
    ("Dataset X", lambda a: of_dataset(a), X, "X"),
    ("Dataset y", lambda a: of_dataset(y=a), Y, "labels"),
    ("Dataset y with class_weight", lambda a: of_dataset(y=a, class_weight="balanced"), Y, "labels"),
    ("Dataset sample_weight", lambda a: of_dataset(sample_weight=a), WEIGHTS, "sample weights"),
    ("Dataset groups", lambda a: of_dataset(y=CLASSES, loss="pairwise", groups=a), GROUPS, "groups"),
    ("select X", lambda a: selected(a), X, "X"),
    ("select y", lambda a: selected(y=a), Y, "labels"),
    ("select y, reals", lambda a: selected(y=a, loss="squared"), TARGETS, "labels"),
    ("select y, sets", lambda a: selected(y=a, loss="multilabel"), SETS, "labels"),
    ("select sample_weight", lambda a: selected(sample_weight=a), WEIGHTS, "sample weights"),
    ("select groups", lambda a: selected(groups=a), GROUPS, "groups"),
    ("select lams", lambda a: selected(lams=a), np.array([0.1, 1.0]), "lam"),
    ("path X", lambda a: along(a), X, "X"),
    ("path y", lambda a: along(y=a), Y, "labels"),
    ("path sample_weight", lambda a: along(sample_weight=a), WEIGHTS, "sample weights"),
    ("path lams", lambda a: along(lams=a), np.array([0.1, 1.0]), "lam"),
    ("calibrate values", lambda a: calibrated(a), X[:, 0], "calibration"),
    ("calibrate y", lambda a: calibrated(y=a), Y, "calibration"),
    ("calibrate y, isotonic", lambda a: calibrated(y=a, method="isotonic"), Y, "calibration"),
    ("calibrate sample_weight", lambda a: calibrated(sample_weight=a), WEIGHTS, "calibration"),
    ("Platt", lambda a: bmrm.calibrate(X[:, 0], Y).probability(a), X[:, 0], "values"),
    ("Isotonic", lambda a: bmrm.calibrate(X[:, 0], Y, "isotonic").probability(a), X[:, 0], "values"),
    ("Model.decision_function", lambda a: MODEL.decision_function(a), X, "X|data"),
    ("Model.predict", lambda a: MODEL.predict(a), X, "X|data"),
    ("Model.predict_probability", lambda a: SOFTMAX.predict_probability(a), X, "X|data"),
    ("Model.predictions", lambda a: MODEL.predictions(a), X[:, 0], "values"),
    ("Model.predictions, K classes", lambda a: SOFTMAX.predictions(a), X, "values"),
    ("Model.probabilities", lambda a: MODEL.probabilities(a), X[:, 0], "values"),
    ("Model.probabilities, K classes", lambda a: SOFTMAX.probabilities(a), X, "values"),
    ("Model classes", lambda a: model(a), np.array([-1.0, 1.0]), "model"),
    ("hinge margins", lambda a: loss_at("hinge", a), X[:, 0], "margins"),
    ("hinge labels", lambda a: loss_at("hinge", y=a), Y, "labels"),
    ("softmax margins", lambda a: loss_at("softmax", a, CLASSES), X, "margins"),
    ("softmax labels", lambda a: loss_at("softmax", X, a), CLASSES, "labels"),
    ("roc_area margins", lambda a: loss_at("roc_area", a), X[:, 0], "margins"),
    ("roc_area labels", lambda a: loss_at("roc_area", y=a), Y, "labels"),
    ("roc_area weights", lambda a: loss_at("roc_area", weights=a), WEIGHTS, "weights"),
    ("Examples sample_weight",
     lambda a: Examples(X, Y, 3, sample_weight=a).weights, WEIGHTS, "sample weights"),
    ("roc_auc y", lambda a: metrics.roc_auc(a, X[:, 1]), Y, "y"),
    ("roc_auc score", lambda a: metrics.roc_auc(Y, a), X[:, 0], "values|one per score"),
    ("roc_auc sample_weight", lambda a: metrics.roc_auc(Y, X[:, 0], a), WEIGHTS, "sample weights"),
    ("precision_recall_at values", lambda a: metrics.precision_recall_at(a, Y > 0, 4), X[:, 0], "values"),
    ("precision_recall_at relevant",
     lambda a: metrics.precision_recall_at(X[:, 0], a, 4), SETS[:, 0], "relevant"),
    ("BinaryMetrics values", lambda a: report(metrics.BinaryMetrics((-1, 1), k=3), a, Y), X[:, 0], "values"),
    ("BinaryMetrics y", lambda a: report(metrics.BinaryMetrics((-1, 1)), X[:, 0], a), Y, "labels"),
    ("BinaryMetrics classes",
     lambda a: report(metrics.BinaryMetrics(a), X[:, 0], Y), np.array([-1.0, 1.0]), "classes"),
    ("RegressionMetrics values",
     lambda a: report(metrics.RegressionMetrics(), a, TARGETS), X[:, 0], "values"),
    ("RegressionMetrics y", lambda a: report(metrics.RegressionMetrics(), X[:, 0], a), TARGETS, "labels"),
    ("CountMetrics values", lambda a: report(metrics.CountMetrics(), a, CLASSES), X[:, 0], "values"),
    ("CountMetrics y", lambda a: report(metrics.CountMetrics(), X[:, 0], a), CLASSES, "labels"),
    ("NoveltyMetrics values", lambda a: report(metrics.NoveltyMetrics(), a, Y), X[:, 0], "values"),
    ("ProbabilityMetrics p", lambda a: report(metrics.ProbabilityMetrics((-1, 1)), a, Y), P, "values"),
    ("ProbabilityMetrics y", lambda a: report(metrics.ProbabilityMetrics((-1, 1)), P, a), Y, "labels"),
    ("OrdinalMetrics values",
     lambda a: report(metrics.OrdinalMetrics(), a, CLASSES), CLASSES[::-1], "values"),
    ("OrdinalMetrics y", lambda a: report(metrics.OrdinalMetrics(), CLASSES[::-1], a), CLASSES, "labels"),
    ("RankingMetrics values",
     lambda a: report(metrics.RankingMetrics(GROUPS), a, CLASSES), X[:, 0], "values"),
    ("RankingMetrics y", lambda a: report(metrics.RankingMetrics(GROUPS), X[:, 0], a), CLASSES, "labels"),
    ("RankingMetrics groups", lambda a: report(metrics.RankingMetrics(a), X[:, 0], Y), GROUPS, "groups"),
    ("MulticlassMetrics values",
     lambda a: report(metrics.MulticlassMetrics((0, 1, 2)), a, CLASSES), X, "values"),
    ("MulticlassMetrics y", lambda a: report(metrics.MulticlassMetrics((0, 1, 2)), X, a), CLASSES, "labels"),
    ("MultilabelMetrics values",
     lambda a: report(metrics.MultilabelMetrics((0, 1, 2)), a, SETS), X, "values"),
    ("MultilabelMetrics y", lambda a: report(metrics.MultilabelMetrics((0, 1, 2)), X, a), SETS, "labels"),
    ("LabelRankingMetrics y", lambda a: report(metrics.LabelRankingMetrics((0, 1, 2)), X, a), SETS, "labels"),
]  # fmt: skip
IDS = [slot[0] for slot in SLOTS]


class FakeSeries:
    """An object that is not an array but can become one, like a column of any data frame library."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        raise KeyError(key)  # its rows have names of their own


class FakeFrame(FakeSeries):
    """A frame whose columns have different types, so that NumPy makes an array of objects from it."""

    @property
    def columns(self):
        return [f"column {j}" for j in range(self.values.shape[1])]

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, object if dtype is None else dtype)


class OnlyDlpack:
    """An array of a library that knows NumPy only by DLPack."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **keywords):
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OnDevice:
    """An array on a GPU, of which NumPy can make none."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **keywords):
        raise BufferError("on a GPU\nnot here")


def container(a):
    return FakeSeries(a) if a.ndim == 1 else FakeFrame(a)


def strided(a):
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    wide[..., ::2] = a
    return wide[..., ::2]


def read_only(a):
    a = a.copy()
    a.setflags(write=False)
    return a


SAME = {
    "itself again": lambda a: a,
    "list": lambda a: a.tolist() if a.ndim == 1 else [list(row) for row in a],
    "list of arrays": list,
    "tuple": lambda a: tuple(a.tolist()) if a.ndim == 1 else tuple(list(row) for row in a),
    "deque": lambda a: collections.deque(a.tolist()),
    "read only": read_only,
    "backwards": lambda a: a[::-1].copy()[::-1],
    "strided": strided,
    "by columns": np.asfortranarray,
    "big endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "longdouble": lambda a: a.astype(np.longdouble),
    "objects": lambda a: a.astype(object),
    "objects of NumPy": lambda a: np.array([x for x in a.ravel()], object).reshape(a.shape),
    "unmasked": np.ma.array,
    "a class of its own": container,
    "memoryview": lambda a: memoryview(a.copy()),
    "DLPack": lambda a: OnlyDlpack(a.copy()),
}  # fmt: skip


def changed(a, value, dtype=object):
    """Return the array with its second value replaced."""
    b = a.astype(dtype)
    b[(1,) + (0,) * (a.ndim - 1)] = value
    return b


def masked(a):
    return np.ma.array(a, mask=np.arange(a.size).reshape(a.shape) % 2 == 0)


REFUSED = {
    "masked": masked,
    "list with a mask": lambda a: [np.ma.masked, *list(a)[1:]],
    "nan": lambda a: changed(a, np.nan, float),
    "nan among objects": lambda a: changed(a, float("nan")),
    "nan in a list": lambda a: changed(a, np.nan, float).tolist(),
    "None": lambda a: changed(a, None),
    "None in a list": lambda a: changed(a, None).tolist(),
    "scalar": lambda a: 1.0,
    "no dimension": lambda a: np.array(1.0),
    "too short": lambda a: a[:1],
    "too long": lambda a: np.concatenate([a, a]),
    "three dimensions": lambda a: np.stack([np.atleast_2d(a)] * 2),
    "ragged": lambda a: [[1.0, 2.0], [3.0]] * (len(a) // 2),
    "generator": lambda a: (x for x in a),
    "iterator": iter,
    "set": lambda a: set(np.ravel(a).tolist()),
    "dict": lambda a: dict(enumerate(a.tolist())),
    "values of a dict": lambda a: dict(enumerate(a.tolist())).values(),
    "complex": lambda a: a + 1j,
    "structure": lambda a: np.zeros(a.shape, [("a", float), ("b", int)]),
    "object()": lambda a: object(),
}
REFUSED_NUMBERS = {
    "inf": lambda a: changed(a, np.inf, float),
    "text": lambda a: a.astype(str),
    "text in a list": lambda a: a.astype(str).tolist(),
    "a word": lambda a: "word",
    "a text among numbers": lambda a: changed(a, "1"),
    "a word among numbers": lambda a: changed(a, "word\nof two lines").tolist(),
    "bytes": lambda a: a.astype("S"),
    "dates": lambda a: a.astype("int64").astype("datetime64[D]"),
    "spans of time": lambda a: a.astype("int64").astype("timedelta64[s]"),
    "a date among numbers": lambda a: changed(a, datetime.datetime(2020, 1, 1)),
    "an integer that is too large": lambda a: changed(a, 10**400).tolist(),
    "a fraction too large": lambda a: changed(a, decimal.Decimal("1e999")),
}  # fmt: skip


def outcome(function, given):
    return np.asarray(function(given), float)


def refusal(function, given, names):
    """Return what is wrong with how a function refuses an argument; None if it raises one line."""
    try:
        found = function(given)
    except BmrmError as error:
        text = str(error)
        named = any(name in text for name in names.split("|"))
        return None if named and "\n" not in text and len(text) < 400 else text
    except Exception as error:
        return repr(error)
    return f"gave {found}"


@functools.cache
def outcome_of_array(name):
    _, function, right, _ = SLOTS[IDS.index(name)]
    return outcome(function, right)


every_slot = pytest.mark.parametrize(("name", "function", "right", "names"), SLOTS, ids=IDS)


def check_same(name, function, right, forms):
    expected = outcome_of_array(name)
    for form, convert in forms.items():
        np.testing.assert_array_equal(outcome(function, convert(right)), expected, form)


@every_slot
def test_other_containers_give_the_same_result_as_an_array(name, function, right, names):
    check_same(name, function, right, SAME)


ANY_ROWS = ("Platt", "Isotonic", "Model.", "NoveltyMetrics")  # take any number of them
SETS_OF = ("solve y, sets", "solve y, sets in order", "select y, sets", "MultilabelMetrics y")
SETS_OF += ("LabelRankingMetrics y",)


ANY_LABELS = {
    "solve y",
    "solve y, classes",
    "Dataset y",
    "Dataset y with class_weight",
    "select y",
    "path y",
}
ANY_LABELS |= {"calibrate y", "calibrate y, isotonic", "Model classes", "roc_auc y"}  # labels may be text


def is_right_there(name, form):
    """Return whether this argument accepts a value that other arguments refuse."""
    if name == "path lams":
        return form in ("scalar", "no dimension", "too short", "too long", "three dimensions")
    return (
        (form == "too short" and name == "select lams")
        or (form == "too long" and name == "RankingMetrics groups")  # more rows may come
        or (form in ("too short", "too long") and name.startswith(ANY_ROWS))
        or (form == "ragged" and name in SETS_OF)
        or (form.startswith("nan") and "margins" in name)  # the loss is NaN, too
        or (form in ("complex", "structure") and "groups" in name)
    )


@every_slot
def test_containers_other_than_arrays_are_refused(name, function, right, names):
    wrong = {}
    for form, convert in REFUSED.items():
        if name == "select groups" and form == "structure":
            continue  # all rows in one group make no folds
        if is_right_there(name, form):
            outcome(function, convert(right))
        else:
            wrong[form] = refusal(function, convert(right), names)
    assert {form: text for form, text in wrong.items() if text} == {}


@every_slot
def test_values_other_than_numbers_are_refused(name, function, right, names):
    wrong = {}
    for form, convert in REFUSED_NUMBERS.items():
        given = convert(right)
        infinite = names.split("|")[0] in ("values", "margins") and form in ("inf", "a fraction too large")
        if (names == "groups" and form != "a word") or infinite:
            # Groups may have names of any kind, and decision values may have overflowed.
            with np.errstate(invalid="ignore"), contextlib.suppress(BmrmError):
                outcome(function, given)
        elif name in ANY_LABELS and form in ("text", "text in a list"):
            np.testing.assert_array_equal(outcome(function, given), outcome(function, right), form)
        elif name in SETS_OF[:3] and form == "text in a list":
            outcome(function, given)  # the labels "0.0" and "1.0"
        else:
            wrong[form] = refusal(function, given, names)
    assert {form: text for form, text in wrong.items() if text} == {}


def shuffled(a):
    return RNG.permutation(len(a)) + 100


def of_pandas(pd):
    """Frames and series of all kinds, with an index in another order than the rows."""

    def framed(a, dtype=None):
        kind = pd.Series if a.ndim == 1 else pd.DataFrame
        found = kind(a, index=shuffled(a))
        return found if dtype is None else found.astype(dtype)

    return {
        "plain": framed,
        "nullable": lambda a: framed(a, "Float64"),
        "objects": lambda a: framed(a, object),
        "an index": lambda a: pd.Index(a) if a.ndim == 1 else framed(a),
        "categories": lambda a: framed(a).astype("category") if a.ndim == 1 else framed(a),
    }


def of_arrow_in_pandas(pd):
    pytest.importorskip("pyarrow")
    return {"backed by Arrow": lambda a: of_pandas(pd)["plain"](a).astype("double[pyarrow]")}


def of_polars(pl):
    return {
        "plain": lambda a: pl.Series(a) if a.ndim == 1 else pl.DataFrame(a),
        "decimals": lambda a: pl.Series(a).cast(pl.Decimal(12, 3)) if a.ndim == 1 else pl.DataFrame(a),
    }


def of_arrow(pa):
    def table(a):
        return pa.table({f"column {j}": column for j, column in enumerate(a.T)})

    return {
        "plain": lambda a: pa.array(a) if a.ndim == 1 else table(a),
        "chunks": lambda a: pa.chunked_array([a[:1], a[1:]]) if a.ndim == 1 else table(a),
    }


LIBRARIES = [
    ("pandas", of_pandas),
    ("pandas", of_arrow_in_pandas),
    ("polars", of_polars),
    ("pyarrow", of_arrow),
]


@pytest.mark.parametrize(("library", "forms"), LIBRARIES)
@every_slot
def test_frames_give_the_same_result_as_an_array(name, function, right, names, library, forms):
    check_same(name, function, right, forms(pytest.importorskip(library)))


@pytest.mark.parametrize(("library", "forms"), LIBRARIES)
@every_slot
def test_missing_values_of_frames_are_refused(name, function, right, names, library, forms):
    found = pytest.importorskip(library)
    given = right.astype(float)
    if library == "pandas":
        form = of_pandas(found)["nullable"](given)
        form.iloc[(1,) + (0,) * (given.ndim - 1)] = found.NA
    else:
        columns = [[None if k == 1 else x for k, x in enumerate(column)] for column in np.atleast_2d(given.T)]
        kind = found.DataFrame if library == "polars" else found.table
        form = columns[0] if given.ndim == 1 else kind({f"c{j}": c for j, c in enumerate(columns)})
        if given.ndim == 1:
            form = found.Series(form) if library == "polars" else found.array(form)
    if names == "margins":  # the loss is NaN, too, unless it is pandas' NA
        with contextlib.suppress(BmrmError):
            outcome(function, form)
    else:
        assert refusal(function, form, names) is None


def mixed(data=X):
    """Columns of floats, integers and booleans, and the same as a float64 matrix."""
    columns = {"age": data[:, 0], "number": np.arange(len(data)), "job_a": Y > 0, "job_b": Y < 0}
    return columns, np.column_stack(list(columns.values())).astype(float)


def frames_of_mixed_types():
    columns, matrix = mixed()

    class Frame(FakeFrame):
        @property
        def columns(self):
            return list(columns)

    yield "fake", Frame(np.array(list(zip(*columns.values(), strict=True)), object)), matrix
    with contextlib.suppress(ImportError):
        import pandas as pd

        frame = pd.DataFrame(columns, index=shuffled(matrix))
        yield "pandas", frame, matrix
        yield "nullable", frame.convert_dtypes(), matrix
        yield (
            "dummies",
            pd.get_dummies(frame[["age"]].assign(job=np.where(Y > 0, "a", "b"))),
            matrix[:, [0, 2, 3]],
        )
        yield "sparse", frame.astype({"job_a": "Sparse[bool]"}), matrix
        with contextlib.suppress(ImportError):
            import pyarrow  # noqa: F401

            yield "arrow", frame.convert_dtypes(dtype_backend="pyarrow"), matrix
    with contextlib.suppress(ImportError):
        import polars as pl

        yield "polars", pl.DataFrame(columns), matrix
    with contextlib.suppress(ImportError):
        import pyarrow as pa

        yield "pyarrow", pa.table(columns), matrix


def test_frames_of_numbers_and_booleans_can_be_trained_on():
    for kind, frame, matrix in frames_of_mixed_types():
        right = bmrm.solve(matrix, Y, lam=0.1)
        found = bmrm.solve(frame, Y, lam=0.1)
        np.testing.assert_array_equal(found.w, right.w, kind)
        np.testing.assert_array_equal(found.predict(frame), right.predict(matrix), kind)
        np.testing.assert_array_equal(selected(frame), selected(matrix), kind)
    assert kind


def test_a_column_of_text_is_named():
    columns, _ = mixed()
    rows = list(zip(*columns.values(), ["a", "b"] * (M // 2), strict=True))

    class Frame(FakeFrame):
        columns = ("age", "number", "job_a", "job_b", "town")

    with pytest.raises(DataError, match="X: row 1, column 'town' has 'a', expected a number"):
        bmrm.solve(Frame(np.array(rows, object)), Y)


def test_an_array_on_another_device_is_one_line():
    for function, names in ((bmrm.Dataset, "X"), (lambda a: bmrm.solve(X, a), "labels")):
        assert refusal(function, OnDevice(), names) is None


def test_float32_stays():
    assert arguments.matrix("X", np.eye(2, dtype=np.float32)).dtype == np.float32
    assert arguments.matrix("X", np.eye(2, dtype=np.float16)).dtype == np.float64


def test_float64_arrays_are_not_copied():
    a = np.eye(2)
    assert arguments.matrix("X", a) is a
    assert arguments.numbers("weights", a) is a


def test_sparse_matrices_are_accepted_only_as_matrices():
    for kind in (sp.csr_matrix, sp.csc_array, sp.coo_array):
        np.testing.assert_allclose(solved(kind(X)), solved(), rtol=1e-9)
        np.testing.assert_array_equal(
            solved(y=kind(SETS), loss="multilabel"), solved(y=SETS, loss="multilabel")
        )
    for name, function, right, names in SLOTS:
        if right.ndim == 1:
            assert refusal(function, sp.csr_matrix(right[None]), names) is None, name
            assert refusal(function, sp.coo_array(right), names) is None, name
    with pytest.raises(DataError, match="labels: found a matrix of other values, expected zeros"):
        solved(y=sp.csr_matrix(2 * SETS), loss="multilabel")


SMALL_SETS = np.array([[0, 1], [1, 0], [1, 0], [0, 1]] * 3)


@pytest.mark.parametrize(
    "given",
    [
        SMALL_SETS.tolist(),
        list(SMALL_SETS),
        SETS[:, :1].tolist(),
        [tuple(row) for row in SETS.tolist()],
        [tuple(row) for row in SMALL_SETS.astype(bool).tolist()],
    ],
)
def test_ambiguous_rows_of_zeros_and_ones_are_refused(given):
    """Read as the labels 0 and 1 they would silently be another problem."""
    with pytest.raises(DataError, match="could be labels or flags for labels"):
        solved(y=given, loss="multilabel")


def test_booleans_are_flags_for_labels():
    for given in (SMALL_SETS.astype(bool), SMALL_SETS.astype(bool).tolist()):
        found = solved(y=given, loss="multilabel")
        np.testing.assert_array_equal(found, solved(y=SMALL_SETS, loss="multilabel"))


@pytest.mark.parametrize("kind", [tuple, set, frozenset, list, np.array])
def test_sets_of_labels_in_any_container(kind):
    sets = [(1, 5), (5,), (), (7, 1)] * 3
    found = solved(y=[kind(row) for row in sets], loss="multilabel")
    np.testing.assert_array_equal(found, solved(y=sets, loss="multilabel"))
    assert label_sets([(1, 1), (2,)]) == [(1,), (2,)]


BIG = 2**53


@pytest.mark.parametrize("kind", [np.array, list, tuple, lambda a: np.array(a, object)])
def test_labels_that_float64_would_merge(kind):
    """They stay different classes; ordered ones are refused, because their metrics are in float64."""
    assert bmrm.solve(X, kind([BIG, BIG + 1] * 6), lam=0.1).classes.tolist() == [BIG, BIG + 1]
    found = bmrm.solve(X, kind([BIG, BIG + 1, 5] * 4), "multiclass", lam=0.1)
    assert found.classes.tolist() == [5, BIG, BIG + 1]
    with pytest.raises(DataError, match="row 2 has 9007199254740993, expected an integer that float64"):
        solved(y=kind([BIG, BIG + 1, 5] * 4), loss="ordinal")
    far = kind([BIG, -2 * BIG, 2**62] * 4)
    for loss in ("multiclass", "ordinal"):
        assert bmrm.solve(X, far, loss, lam=0.1).classes.tolist() == [-2 * BIG, BIG, 2**62]


def test_a_list_of_floats_and_huge_integers():
    with pytest.raises(DataError, match="row 2 has 9007199254740993"):
        solved(y=[0.5, BIG + 1, BIG] * 4, loss="multiclass")


def test_huge_reals_are_rounded_to_nearest():
    found = solved(y=(np.arange(M) + BIG).tolist(), loss="absolute")
    np.testing.assert_array_equal(found, solved(y=(np.arange(M) + BIG).astype(float), loss="absolute"))


@pytest.mark.parametrize(
    ("groups", "numbers"),
    [
        ([BIG, BIG + 1, 0.5], [1, 2, 0]),
        ([2**63, 2**63 + 1, -1], [1, 2, 0]),
        (np.array([2**63, 2**63 + 1, 1], np.uint64), [1, 2, 0]),
        ([2**70, 2**70 + 1, 2**70], [0, 1, 0]),
        ([b"a", b"b", b"a"], [0, 1, 0]),
        (np.array(["b", "a", "b"], object), [1, 0, 1]),
        (["2020-01-02", "2020-01-01", "2020-01-02"], [1, 0, 1]),
        (np.array(["2020-01-02", "2020-01-01", "2020-01-02"], "datetime64[D]"), [1, 0, 1]),
        ([True, False, True], [1, 0, 1]),
        ([decimal.Decimal("0.1"), decimal.Decimal("0.10"), decimal.Decimal("0.2")], [0, 0, 1]),
        (np.fromiter([(1, 2), (1, 1), (1, 2)], object), [1, 0, 1]),
    ],
)
def test_different_groups_stay_different(groups, numbers):
    assert number_groups(groups, 3).tolist() == numbers
    assert number_groups(
        container(np.array(groups, object)) if isinstance(groups, list) else groups, 3
    ).tolist() == (numbers)


@pytest.mark.parametrize(
    "groups",
    [[1, "1", 2], ["a", None, "b"], ["a", float("nan"), "b"], np.array(["2020", "NaT", "2021"], "M8[Y]")],
)
def test_missing_groups_and_groups_of_two_types(groups):
    with pytest.raises(DataError, match="groups: "):
        number_groups(groups, 3)


NUMBERS = [
    ("lam", lambda a: bmrm.solve(X, Y, lam=a)),
    ("C", lambda a: bmrm.solve(X, Y, C=a)),
    ("tol", lambda a: solved(tol=a)),
    ("max_iter", lambda a: solved(max_iter=a)),
    ("max_time", lambda a: solved(max_time=a)),
    ("l1_ratio", lambda a: solved(reg="elastic_net", l1_ratio=a)),
    ("intercept_scaling", lambda a: solved(fit_intercept=True, penalize_intercept=True, intercept_scaling=a)),
    ("threads", lambda a: solved(threads=a)),
    ("max_cuts", lambda a: solved(max_cuts=a)),
    ("cuts_per_pass", lambda a: solved(cuts_per_pass=a)),
    ("tau", lambda a: solved(y=TARGETS, loss="quantile", tau=a)),
    ("folds", lambda a: bmrm.select(X, Y, [0.1], a)),
    ("seed", lambda a: bmrm.select(X, Y, [0.1], 3, seed=a)),
    ("loss", lambda a: bmrm.solve(X, Y, a)),
    ("reg", lambda a: bmrm.solve(X, Y, reg=a)),
    ("class_weight", lambda a: solved(class_weight=a)),
    ("fit_intercept", lambda a: solved(fit_intercept=a)),
    ("positive", lambda a: solved(positive=a)),
    ("refit", lambda a: bmrm.select(X, Y, [0.1], 3, refit=a)),
    ("k", lambda a: metrics.precision_recall_at(X[:, 0], Y > 0, a)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function"), NUMBERS, ids=[name for name, _ in NUMBERS])
def test_options_other_than_numbers_are_refused(name, function):
    odd = ["word", "1", [1.0, 2.0], np.ones(2), {1}, np.ma.masked, 1j, np.nan, object(), X, len]
    wrong = {repr(given)[:20]: refusal(function, given, name) for given in odd}
    assert {given: text for given, text in wrong.items() if text} == {}


def test_sequences_of_examples():
    for odd in ("ab", {1, 2}, (x for x in [1, 2]), 5, np.array(5), {1: 2, 3: 4}):
        with pytest.raises(DataError, match=r"examples: inputs: found .* expected a sequence"):
            Examples(odd, [1, 2], 3)
    with pytest.raises(ParameterError, match="paths: found a set, expected a sequence"):
        losses.tree_costs([{1, 2}, ["a"]])
    with pytest.raises(ParameterError, match="paths: found 3, expected a sequence"):
        losses.tree_costs([3, ["a"]])


def test_weights_of_a_model():
    def weights(w):
        return Model(w, 0.0, "squared", "regression", None, lam=0.1).w

    for kind in (list, tuple, container, np.ma.array):
        np.testing.assert_array_equal(weights(kind(X[0])), X[0])
    for form, convert in (REFUSED | REFUSED_NUMBERS).items():
        if not form.startswith("too "):
            assert refusal(weights, convert(X[0]), "model") is None, form
