"""Results that travel: pickled and copied deeply, they predict, report and are saved as before."""

import copy
import pickle

import numpy as np
import pytest

import bmrm
from bmrm.errors import BmrmError
from bmrm.losses import NAMES

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 4))
VALUE = X @ [1.0, -2.0, 0.5, 0.0] + 0.5 * rng.standard_normal(120)
LABELS = {
    "binary": np.where(VALUE > 0.0, 1, -1),
    "regression": VALUE,
    "count": np.arange(120) % 4,
    "novelty": None,
    "multiclass": np.digitize(VALUE, [-1.0, 1.0]),
    "multilabel": np.column_stack([VALUE > 0.0, X[:, 0] > 0.0]).astype(int),
    "label_ranking": np.column_stack([VALUE > 0.0, X[:, 0] > 0.0]).astype(int),
    "ranking": np.digitize(VALUE, [-1.0, 1.0]),
    "ordinal": np.digitize(VALUE, [-1.0, 1.0]),
}

COPIES = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "oldest pickle": lambda x: pickle.loads(pickle.dumps(x, 2)),
    "deepcopy": copy.deepcopy,
}
both = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


def solved(name):
    loss = bmrm.losses.get(name)
    groups = np.arange(120) // 10 if loss.needs_groups else None
    params = {"k": 60} if name == "recall_at_k" else {}
    return bmrm.solve(X, LABELS[loss.task], loss=name, groups=groups, lam=0.1, max_iter=3, **params)


@both
@pytest.mark.parametrize("name", NAMES)
def test_a_result_of_any_loss(name, copied, tmp_path):
    result = solved(name)
    twin = copied(result)
    assert repr(twin) == repr(result)
    assert twin.origin is None
    assert not twin.w.flags.writeable
    assert not copied(bmrm.Model.from_result(result)).w.flags.writeable
    for a, b in ((twin.w, result.w), (twin.decision_function(X), result.decision_function(X))):
        np.testing.assert_array_equal(a, b)
    assert list(twin.predict(X)) == list(result.predict(X))
    assert (twin.history, twin.timings) == (result.history, result.timings)
    assert (twin.loss.name, twin.loss.params) == (result.loss.name, result.loss.params)
    result.save(tmp_path / "first")
    twin.save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@both
def test_a_solve_continues_from_the_weights_of_a_copy(copied):
    data = bmrm.Dataset(X, LABELS["binary"])
    result = bmrm.solve(data, lam=0.1, tol=1e-6)
    twin = copied(result)
    assert (len(twin.bundle), twin.bundle.n_features) == (0, 4)
    again = bmrm.solve(data, lam=0.1, tol=1e-6, warm_start=twin)
    assert again.status == "converged"
    assert again.history[0]["objective"] <= result.objective * (1.0 + 1e-12)
    assert len(again.bundle) > 0


def test_a_copy_in_this_process_keeps_the_cuts():
    result = solved("hinge")
    assert copy.copy(result).bundle is result.bundle


@both
def test_a_path(copied):
    path = bmrm.path(X, LABELS["binary"], [0.1, 1.0])
    twin = copied(path)
    assert (str(twin), repr(twin)) == (str(path), repr(path))
    np.testing.assert_array_equal(twin[1].predict(X), path[1].predict(X))


@both
@pytest.mark.parametrize("refit", [False, True])
def test_a_selection(copied, refit):
    found = bmrm.select(X, LABELS["binary"], [0.1, 1.0], 3, refit=refit)
    twin = copied(found)
    assert (str(twin), twin.lam, twin.statuses) == (str(found), found.lam, found.statuses)
    assert twin.calibrate() == found.calibrate()
    assert twin.validations[0].metrics == found.validations[0].metrics
    assert refit == (twin.result is not None)


@both
@pytest.mark.parametrize("form", ["Dataset", "matrix"])
def test_resident_data_say_what_to_do(copied, form):
    data = bmrm.Dataset(X, LABELS["binary"])
    wanted = "Dataset: .*; send X and y and build another" if form == "Dataset" else "Matrix: is resident"
    with pytest.raises(BmrmError, match=f"^{wanted}") as error:
        copied(data if form == "Dataset" else data.matrix)
    assert "\n" not in str(error.value)
    assert copy.copy(data).matrix is data.matrix
