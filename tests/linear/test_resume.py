"""Resumes: a bound is kept for the same problem and for no other, whatever is changed or damaged."""

import contextlib
import json
import struct

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm.errors import DataError, ParameterError
from bmrm.linear.backends.host.cuts import HostCuts
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.store import StoredCuts
from bmrm.linear.models import checkpoint, content
from bmrm.linear.models.checkpoint import Checkpoint, Problem
from bmrm.linear.models.model import Model
from bmrm.linear.objective.running_error import Blur
from bmrm.linear.warm_start import problem_of
from bmrm.losses import LOSSES, CallableLoss, Structured
from bmrm.matrix import _cpu
from bmrm.matrix.checksums import MODULUS, array_checksum, matrix_checksum
from bmrm.matrix.resident import PlacedMatrix

M, D = 120, 9


def problem(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.integers(-8, 9, (M, D)) * (rng.random((M, D)) < 0.6) / 4.0  # numbers of float32
    return X, np.where(X[:, 0] - X[:, 1] + rng.standard_normal(M) > 0, 1.0, -1.0)


def kept(result: bmrm.Result, path) -> Checkpoint:
    checkpoint.save(path, Model.from_result(result), problem_of(result), result.bundle.working())
    return Checkpoint.load(path)


# --- the checksum of a matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_matrix_has_one_checksum_however_it_is_kept(dtype, threads):
    rng = np.random.default_rng(1)
    X = problem()[0].astype(dtype)
    A = sp.csr_array(X)
    wanted = _cpu.Matrix.from_dense(X.astype(np.float64)).entries()
    stored = A.copy()
    stored.data[3] = 0.0
    X[stored.nonzero()] = stored.data[stored.data != 0]
    parts = A.indptr, A.indices, A.data, A.shape
    by_popularity = _cpu.Matrix(*parts, threads=threads, by_popularity=True)
    assert _cpu.Matrix(*parts, threads=threads).entries() == by_popularity.entries() == wanted
    assert _cpu.Matrix.from_dense(A.toarray(), threads=threads).entries() == wanted
    assert matrix_checksum(bmrm.io.Csr.from_scipy(A), np.dtype(dtype), threads) == wanted
    assert matrix_checksum(A.toarray(), np.dtype(np.float64), threads) == wanted
    # Rows and columns apart, in any number of parts.
    cut, columns = 37, rng.permutation(D)
    parts = [_cpu.Matrix.from_dense(A.toarray()[:cut, columns]), _cpu.Matrix.from_dense(A.toarray()[cut:])]
    assert (parts[0].entries(0, columns) + parts[1].entries(cut)) % MODULUS == wanted


def test_stored_zeros_and_ones_count_as_what_they_are():
    zeros = _cpu.Matrix([0, 2, 3], [0, 1, 1], [1.0, 0.0, 1.0], (2, 2))
    ones = _cpu.Matrix([0, 1, 2], [0, 1], None, (2, 2))
    assert zeros.entries() == ones.entries() == _cpu.Matrix.from_dense(np.eye(2)).entries()


def test_x_on_a_gpu_has_the_checksum_of_the_arrays_that_were_uploaded(monkeypatch):
    """It is computed from the arrays on the host, since entries are not read back from a GPU."""
    X, y = problem()
    X = X + 0.1
    for dtype in (np.float32, np.float64):
        matrix = _cpu.Matrix.from_dense(X.astype(dtype))
        there = PlacedMatrix(matrix, "cuda (none)", 0.0, D)
        monkeypatch.setattr(bmrm.matrix.dataset, "place_matrix", lambda X, there=there, **options: there)
        for given in (X, sp.csr_array(X)):
            assert bmrm.Dataset(given, y)._entries == matrix.entries()


class Landed:
    """Numbers on a device, as `bmrm.matrix._cuda.HeldArray` has them: a slice is a copy on the host."""

    def __init__(self, numbers):
        self.numbers, self.shape, self.dtype = numbers, numbers.shape, numbers.dtype

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, part):
        return self.numbers[part].copy()


def test_x_that_went_to_a_gpu_as_it_was_parsed(monkeypatch):
    """Its checksum is computed only on request, while the arrays are there."""
    X, y = problem()
    A = bmrm.io.Csr.from_scipy(sp.csr_array(X))
    landed = A._replace(indices=Landed(A.indices), data=Landed(A.data))
    matrix = _cpu.Matrix.from_dense(X)
    monkeypatch.setattr(
        bmrm.matrix.dataset, "place_matrix", lambda X, **options: PlacedMatrix(matrix, "cuda (none)", 0.0, D)
    )
    monkeypatch.setattr(bmrm.matrix.checksums, "MAX_PIECE_VALUES", 50)
    data = bmrm.Dataset(landed, y)
    assert data._entries is None
    data.take_checksum(landed)
    assert data.entries() == matrix.entries()


def test_different_matrices_have_different_checksums():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 40))
    seen = {
        _cpu.Matrix.from_dense(A).entries() for A in (X, X.T, X[::-1], X[:, ::-1], -X, 2.0 * X, np.eye(40))
    }
    for i, j in rng.integers(0, 40, (50, 2)):
        other = X.copy()
        other[[i, j]] = other[[j, i]]
        if i != j:
            seen.add(_cpu.Matrix.from_dense(other).entries())
        other = X.copy()
        other[i, j] = np.nextafter(other[i, j], 9.0)
        seen.add(_cpu.Matrix.from_dense(other).entries())
    ones = np.zeros((2, 2, 2))
    ones[0, [0, 1], [0, 1]] = ones[1, [0, 1], [1, 0]] = 1.0
    assert array_checksum(ones[0]) != array_checksum(ones[1])
    assert len(seen) > 100


# --- other problems


def test_other_data_with_the_same_objective(tmp_path):
    """At w = 0, the optimum of the first, J is the same for both."""
    y = np.tile([1.0, -1.0], 25)
    first, second = np.ones((50, 1)), y[:, None]
    start = kept(bmrm.solve(first, y, reg="l1", lam=0.05), tmp_path / "state")
    with pytest.raises(DataError, match="is for other data: found a different checksum of X; a warm start"):
        bmrm.solve(second, y, reg="l1", lam=0.05, warm_start=start)
    assert bmrm.solve(second, y, reg="l1", lam=0.05, warm_start=start.model).objective < 0.06


OPTIONS = {
    "labels": ({}, "y"),
    "weights": ({"sample_weight": np.ones(M)}, "sample_weight"),
    "groups": ({"loss": "pairwise_ranking", "groups": np.arange(M) // 10}, "groups"),
    "costs": ({"loss": "multiclass", "costs": np.array([[0.0, 1.0], [2.0, 0.0]])}, "costs"),
    "feature_lambda": ({"feature_lambda": np.ones(D)}, "feature_lambda"),
    "prior": ({"reg": "l1", "prior": np.zeros(D)}, "prior"),
}


@pytest.mark.parametrize("what", OPTIONS)
def test_each_part_of_the_problem_counts(tmp_path, what):
    options, name = OPTIONS[what]
    X, y = problem()
    if what == "groups":
        options = {**options, "loss": next(key for key in LOSSES if LOSSES[key].needs_groups)}
    both = {"y": y, **options}
    solved = bmrm.solve(X, lam=0.1, **both)
    start = kept(solved, tmp_path / "state")
    again = bmrm.solve(X, lam=0.1, warm_start=start, **both)
    assert again.lower_bound == solved.lower_bound
    other = np.array(both[name], np.float64)
    if what == "costs":
        other[0, 1] = 3.0
    elif what == "labels":
        other[[0, np.flatnonzero(y != y[0])[0]]] *= -1.0
    else:
        other[-1] += 0.5
    with pytest.raises(DataError, match=f"is for other data: found a different checksum of {what}; "):
        bmrm.solve(X, lam=0.1, warm_start=start, **{**both, name: other})


def test_the_same_data_kept_in_another_way(tmp_path):
    X, y = problem()
    solved = bmrm.solve(X, y, lam=0.01, tol=1e-6)
    start = kept(solved, tmp_path / "state")
    kinds = [sp.csr_array(X), X.astype(np.float32), sp.csc_array(X.astype(np.float32))]
    for other in kinds:
        for threads in (1, 3):
            again = bmrm.solve(other, y, lam=0.01, tol=1e-6, threads=threads, warm_start=start)
            assert (again.n_iter, again.lower_bound) == (solved.n_iter, solved.lower_bound)
            assert again.objective == pytest.approx(solved.objective, rel=1e-14)


def test_what_float32_changes_are_other_data(tmp_path):
    X, y = problem()
    X = X + 0.1
    start = kept(bmrm.solve(X, y, lam=0.01, dtype=np.float32), tmp_path / "state")
    assert bmrm.solve(X, y, lam=0.01, dtype=np.float32, warm_start=start).status == "converged"
    with pytest.raises(DataError, match=r"checksum of X \(X stored as float32 there, as float64 here\)"):
        bmrm.solve(X, y, lam=0.01, warm_start=start)


def test_a_loss_in_python_gives_its_weights_alone(tmp_path, caplog):
    X, y = problem()
    loss = CallableLoss(lambda u, y: (np.abs(u - y), np.sign(u - y)), minimum=0.0)
    solved = bmrm.solve(X, y, loss, lam=0.1)
    start = kept(solved, tmp_path / "state")
    small = CallableLoss(lambda u, y: (0.1 * np.abs(u - y), 0.1 * np.sign(u - y)), minimum=0.0)
    again = bmrm.solve(X, y, small, lam=0.1, warm_start=start)
    assert again.lower_bound <= again.objective < solved.lower_bound
    assert "goes on from its weights alone: a loss in Python has no checksum" in caplog.text


def test_labels_that_a_data_set_received_later():
    X, y = problem()
    data = bmrm.Dataset(X, y)
    solved = bmrm.solve(data, lam=0.1)
    data.y = -y
    with pytest.raises(ParameterError, match="of the data set have changed since"):
        problem_of(solved)


# --- damage


def parts_of_file(path) -> tuple[dict, bytes]:
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def written(path, header: dict, body: bytes) -> None:
    text = json.dumps(header, separators=(",", ":")).encode()
    text = text.ljust((len(text) + 7) // 8 * 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


@pytest.mark.parametrize("cuts", [True, False])
def test_a_changed_byte_is_noticed(tmp_path, cuts):
    """Except in the name of the checksum: without it the file is one of an earlier version."""
    X, y = problem()
    solved = bmrm.solve(X, y, lam=0.1, tol=1e-2)
    path = tmp_path / "file"
    if cuts:
        kept(solved, path)
    else:
        solved.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    place = whole.index(content.KEY.encode() + b'\\": \\"')
    unmarked = 0
    for at in {*rng.integers(0, len(whole), 150), *range(place - 8, place + 36, 3)}:
        changed = bytearray(whole)
        changed[at] ^= 1 << rng.integers(0, 8)
        path.write_bytes(changed)
        found = None
        with contextlib.suppress(DataError):
            found = Checkpoint.load(path) if cuts else Model.load(path)
        if found is None:
            continue
        unmarked += 1
        assert place - 4 <= at < place + 31
        assert not cuts or found.checksum is None
    assert unmarked < 20


def test_a_file_that_changes_after_it_was_loaded(tmp_path):
    X, y = problem()
    start = kept(bmrm.solve(X, y, lam=0.1, tol=1e-2), tmp_path / "state")
    kept(bmrm.solve(X, -y, lam=0.1, tol=1e-2), tmp_path / "state")
    with pytest.raises(DataError, match="has changed since it was loaded"):
        bmrm.solve(X, y, lam=0.1, warm_start=start)


@pytest.mark.parametrize("without", ["checksum of the file", "checksums of the data"])
def test_a_file_without_checksums_gives_its_weights_alone(tmp_path, caplog, without):
    X, y = problem()
    solved = bmrm.solve(X, y, lam=0.1, tol=1e-2)
    path = tmp_path / "state"
    start = kept(solved, path)
    if without == "checksum of the file":
        header, body = parts_of_file(path)
        about = json.loads(header["__metadata__"]["bmrm"])
        del about[content.KEY]
        header["__metadata__"]["bmrm"] = json.dumps(about)
        numbers = np.frombuffer(body, np.uint8).copy()
        first, last = header["cuts.offsets"]["data_offsets"]
        numbers[first:last].view(np.float64)[:] += 1.0  # no bound of this problem
        written(path, header, numbers.tobytes())
    else:
        about = start.problem
        wrong = solved.bundle.working()
        wrong = wrong._replace(offsets=wrong.offsets + 1.0)
        sizes = Problem(
            about.n_samples, about.nnz, about.blocks, about.free_intercept, about.intercept_scaling
        )
        checkpoint.save(path, Model.from_result(solved), sizes, wrong)
    start = Checkpoint.load(path)
    np.testing.assert_array_equal(start.model.w, solved.w)
    again = bmrm.solve(X, y, lam=0.1, tol=1e-6, warm_start=start)
    assert again.status == "converged"
    assert again.objective == pytest.approx(bmrm.solve(X, y, lam=0.1, tol=1e-6).objective, rel=2e-6)
    assert caplog.text.count("goes on from its weights alone: it has no checksums") == 1


# --- the bound is kept

PROBLEMS = {
    "l2": {},
    "bmrm": {"solver": "bmrm"},
    "several cuts": {"cuts_per_pass": 4},
    "logistic": {"loss": "logistic"},
    "free intercept": {"fit_intercept": True},
    "free intercept, logistic": {"fit_intercept": True, "loss": "logistic"},
    "absolute, free intercept": {"fit_intercept": True, "loss": "absolute"},
    "penalised intercept": {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 2.0},
    "l1": {"reg": "l1"},
    "l1, free intercept": {"reg": "l1", "fit_intercept": True},
    "elastic net": {"reg": "elastic_net"},
    "positive": {"positive": True},
    "l1, positive": {"reg": "l1", "positive": True},
    "factors": {"feature_lambda": np.linspace(0.5, 2.0, D)},
    "no penalty on some": {"feature_lambda": np.arange(D) % 3 * 1.0, "loss": "huber"},
    "prior": {"prior": np.full(D, 0.1)},
    "classes": {"loss": "multiclass"},
    "novelty": {"loss": "novelty", "nu": 0.3},
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_nothing_left_to_do(tmp_path, name):
    """The same certificate comes back, without a pass, from a file and from a result."""
    X, y = problem()
    data = bmrm.Dataset(X + (1.0 if name == "novelty" else 0.25), y)
    keywords = {"lam": 0.02, "tol": 1e-3, **PROBLEMS[name]}
    solved = bmrm.solve(data, **keywords)
    assert solved.status == "converged"
    for start in (kept(solved, tmp_path / "state"), solved):
        again = bmrm.solve(data, warm_start=start, **keywords)
        assert again.status == "converged"
        assert again.n_iter == (0 if start is solved else solved.n_iter)
        assert again.objective <= solved.objective + 1e-15 * abs(solved.objective)
        assert again.intercept == pytest.approx(solved.intercept, rel=1e-15)
        assert again.lower_bound == solved.lower_bound
        np.testing.assert_allclose(again.w, solved.w, rtol=1e-15)
        assert "loss" not in again.timings  # no cut, no search
        assert len(again.history) == 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_resume_is_never_worse(tmp_path, name):
    X, y = problem()
    data = bmrm.Dataset(X + (1.0 if name == "novelty" else 0.25), y)
    keywords = {"lam": 0.02, "tol": 1e-6, **PROBLEMS[name]}
    last = bmrm.solve(data, max_iter=3, **keywords)
    opt = bmrm.solve(data, **keywords).objective
    for passes in (3, 4, 5, 7, 12, 40):
        start = kept(last, tmp_path / "state")
        for begin in (start, last):
            more = passes if begin is start else max(1, passes - last.n_iter)
            found = bmrm.solve(data, max_iter=more, warm_start=begin, **keywords)
            assert found.objective <= last.objective + 1e-15 * abs(last.objective)
            assert last.lower_bound <= found.lower_bound <= opt
            if begin is start:
                resumed = found
        last = resumed
    assert last.n_iter <= 40


def test_a_solve_continues_from_a_running_state(tmp_path):
    X, y = problem()
    path = tmp_path / "state"
    seen = {}

    def keep(state):
        w, b = state.best()
        about = Model(
            w, b, "hinge", "binary", (-1.0, 1.0), lam=0.01,
            certificate=bmrm.linear.models.certificate.Certificate(
                state.objective, state.lower_bound, "running", state.iteration, 1e-6, "rel"
            ),
        )  # fmt: skip
        checkpoint.save(path, about, problem_of(state), state.bundle.working())
        seen.update(bound=state.lower_bound, objective=state.objective)
        return state.iteration == 6

    bmrm.solve(X, y, lam=0.01, tol=1e-6, callback=keep)
    again = bmrm.solve(X, y, lam=0.01, tol=1e-6, max_iter=6, warm_start=Checkpoint.load(path))
    assert again.n_iter == 6
    assert again.lower_bound >= seen["bound"]
    assert again.objective <= seen["objective"] * (1 + 1e-14)


@pytest.mark.parametrize("shift", [0.0, 1.7e9])
def test_a_solve_continues_from_an_objective_that_is_all_rounding(tmp_path, shift):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((30, 40))
    y = shift + X @ rng.standard_normal(40)
    data = bmrm.Dataset(X, y)
    keywords = {"loss": "absolute", "lam": 1e-12, "fit_intercept": bool(shift), "tol": 1e-3}
    solved = bmrm.solve(data, max_iter=20, **keywords)
    for start in (kept(solved, tmp_path / "state"), solved):
        again = bmrm.solve(data, max_iter=25, warm_start=start, **keywords)
        assert again.lower_bound >= solved.lower_bound


def test_a_solve_continues_from_a_state_far_worse_than_zero(tmp_path):
    # Its objective says that the data are the same, though the run then begins at weights of 0.
    X = 1e9 * np.random.default_rng(7).standard_normal((8, 24))
    X[1::2] = X[::2]
    y = np.tile([1.0, -1.0], 4)
    data = bmrm.Dataset(X, y)
    keywords = {"loss": "roc_area", "lam": 5e-6, "tol": 1e-9}
    w = 1e-5 * np.ones(24)
    stopped = bmrm.solve(data, max_iter=1, warm_start=w, **keywords)
    state = kept(stopped, tmp_path / "state")
    again = bmrm.solve(data, warm_start=state, **keywords)
    assert again.objective <= stopped.objective
    assert again.lower_bound >= stopped.lower_bound


def test_a_bundle_continues_with_as_many_cuts_as_it_may_have():
    rng = np.random.default_rng(11)
    blur = Blur(*np.zeros((4, 6)))
    cuts = StoredCuts(
        rng.standard_normal((6, 3)), rng.random(6), np.zeros(6, np.int32), np.full(6, 1 / 6), blur
    )
    bundle = Bundle(HostCuts(3, 1), max_cuts=6)
    bundle.restore(cuts)
    bundle.make_room()
    assert len(bundle) == 5  # two have become one
    with pytest.raises(ParameterError, match="max_cuts: found 5, expected at least 6 for the old cuts"):
        Bundle(HostCuts(3, 1), max_cuts=5).restore(cuts)


def test_x_that_has_changed_under_a_result_is_noticed():
    X, y = problem()
    data = bmrm.Dataset(X, y)
    solved = bmrm.solve(data, lam=0.1)
    X *= 2.0
    with pytest.raises(DataError, match=r"warm_start: has the objective .* of other data"):
        bmrm.solve(data, lam=0.1, warm_start=solved)


def test_a_result_of_another_problem_has_no_bound_here():
    """Its cuts serve other lam and penalties, its bound does not."""
    X, y = problem()
    data = bmrm.Dataset(X, y)
    for first, second in (
        ({"lam": 0.1}, {"lam": 0.01}),
        ({"lam": 0.1, "prior": np.full(D, 0.5)}, {"lam": 0.1, "prior": np.full(D, 0.1)}),
        ({"lam": 0.1, "feature_lambda": np.full(D, 2.0)}, {"lam": 0.1, "feature_lambda": np.full(D, 1.0)}),
        ({"lam": 0.1, "positive": True}, {"lam": 0.1}),
    ):
        solved = bmrm.solve(data, **first)
        found = bmrm.solve(data, warm_start=solved, **second)
        opt = bmrm.solve(data, tol=1e-9, **second).objective
        assert found.lower_bound <= opt <= found.objective < solved.objective
        assert found.status == "converged"


# --- what is handed out


@pytest.mark.parametrize("loss", ["logistic", "hinge", "absolute"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_callback_that_writes(loss, fit_intercept):
    X, y = problem()
    keywords = {"loss": loss, "fit_intercept": fit_intercept, "lam": 1e-3, "tol": 1e-5}

    def write(state):
        state.best()[0][:] = 3.0
        for name in ("alpha", "offsets", "gradients", "blocks", "serials"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(state.bundle, name)[...] = 0

    plain, spoiled = bmrm.solve(X, y, **keywords), bmrm.solve(X, y, callback=write, **keywords)
    assert (plain.objective, plain.lower_bound) == (spoiled.objective, spoiled.lower_bound)


def test_arrays_of_results_and_models_are_read_only(tmp_path):
    X, y = problem()
    found = bmrm.solve(X, y, "multiclass", lam=0.1, fit_intercept=True, penalize_intercept=True)
    found.save(tmp_path / "model")
    model = Model.load(tmp_path / "model")
    for array in (found.w, found.intercept, found.classes, model.w, model.intercept, found.bundle.alpha):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_labels_and_weights_are_copied():
    X, y = problem()
    labels, weights = y.copy(), np.ones(M)
    data = bmrm.Dataset(X, labels, sample_weight=weights, groups=np.zeros(M, int))
    first = bmrm.solve(data, lam=0.1, tol=1e-6)
    labels *= -1.0
    weights[: M // 2] = 0.0
    again = bmrm.solve(data, lam=0.1, tol=1e-7, warm_start=first)
    assert again.lower_bound <= first.objective
    assert again.objective >= first.lower_bound
    for array in (data.y, data.weights, data.groups):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_cuts_do_not_serve_labels_that_a_data_set_received_later():
    X, y = problem()
    data = bmrm.Dataset(X, y)
    first = bmrm.solve(data, lam=0.1, tol=1e-6)
    data.y = np.where(X[:, 3] > 0, 1.0, -1.0)
    again = bmrm.solve(data, lam=0.1, tol=1e-6, warm_start=first)
    wanted = bmrm.solve(X, data.y, lam=0.1, tol=1e-6)
    assert again.lower_bound <= wanted.objective
    assert again.objective == pytest.approx(wanted.objective, rel=2e-6)


def test_a_loss_in_python_cannot_write_to_labels():
    X, y = problem()

    def function(u, labels):
        labels[:] = 0.0
        return np.abs(u - labels), np.sign(u - labels)

    with pytest.raises(ValueError, match="read-only"):
        bmrm.solve(X, y, CallableLoss(function, minimum=0.0), lam=0.1)


def test_an_oracle_cannot_write_to_the_weights():
    class Oracle:
        n_features = 2

        def most_violated(self, w, x, y):
            w[:] = 0.0
            return 0.0, np.zeros(2)

    with pytest.raises(ValueError, match="read-only"):
        bmrm.solve([1, 2], [1, 2], Structured(Oracle()), lam=0.1)
