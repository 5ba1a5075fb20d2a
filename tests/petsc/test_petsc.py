"""The PETSc matrix on the resident X: products, solves through KSP, and vectors returned on failure."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

if not os.environ.get("BMRM_REQUIRE_PETSC"):
    pytest.importorskip("petsc4py", reason="petsc4py is not installed; `make test` installs it")

import mpi
from devices import cuda, gpu
from petsc4py import PETSc

import bmrm
import bmrm.petsc.bridge
import bmrm.petsc.placed
from bmrm.errors import BmrmError, ParameterError
from bmrm.io.csr import Csr
from bmrm.matrix import _cpu
from bmrm.matrix.resident import PlacedMatrix
from bmrm.petsc import normal_mat, options, resident_mat, solve, weights

M, D = 60, 23


def sparse(dtype: type = np.float64) -> sp.csr_array:
    X = sp.random_array((M, D), density=0.2, format="csr", dtype=np.float64, rng=np.random.default_rng(7))
    return X.astype(dtype)


def vec(values: np.ndarray) -> "PETSc.Vec":
    v = PETSc.Vec().createSeq(values.size)
    v.setArray(values)
    return v


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def check_products(A, X, rng, error):
    """Compare both products of a PETSc matrix with those of X."""
    w, r = rng.standard_normal(D), rng.standard_normal(M)
    gradient, margins = A.createVecs()
    A.mult(vec(w), margins)
    A.multTranspose(vec(r), gradient)
    np.testing.assert_allclose(margins.getArray(), X @ w, rtol=error, atol=error)
    np.testing.assert_allclose(gradient.getArray(), X.T @ r, rtol=error, atol=error)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "form", [lambda X: X, Csr.from_scipy, lambda X: X.toarray()], ids=["scipy", "csr", "dense"]
)
def test_products_agree_with_scipy(rng, form, dtype):
    X = sparse(dtype)
    exact = X.astype(np.float64)
    check_products(resident_mat(form(X)), exact, rng, 1e-13)


def test_sums_of_products_agree_with_scipy(rng):
    X = sparse()
    A = resident_mat(X)
    w, r, v, u = (rng.standard_normal(n) for n in (D, M, M, D))
    gradient, margins = A.createVecs()
    A.multAdd(vec(w), vec(v), margins)
    A.multTransposeAdd(vec(r), vec(u), gradient)
    np.testing.assert_allclose(margins.getArray(), X @ w + v, rtol=1e-13)
    np.testing.assert_allclose(gradient.getArray(), X.T @ r + u, rtol=1e-13)


def test_implicit_ones(rng):
    X = sparse()
    X.data[:] = 1.0
    csr = Csr.from_scipy(X)._replace(data=None)
    A = resident_mat(csr)
    w = rng.standard_normal(D)
    _, margins = A.createVecs()
    A.mult(vec(w), margins)
    np.testing.assert_allclose(margins.getArray(), X @ w, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_a_small_matrix_is_on_the_cpu(rng, device):
    X = sparse()
    A = resident_mat(X, device=device, threads=1)
    assert isinstance(A.getPythonContext().placed.matrix, _cpu.Matrix)
    w = rng.standard_normal(D)
    _, margins = A.createVecs()
    A.mult(vec(w), margins)
    np.testing.assert_allclose(margins.getArray(), X @ w, rtol=1e-13, atol=1e-13)


def test_an_unknown_device():
    with pytest.raises(
        ParameterError, match="device: found 'abacus', expected one of auto, cpu, cuda, cuda:N"
    ):
        resident_mat(sparse(), device="abacus")


def test_a_gpu_that_is_not_there():
    code = """
import numpy as np
from bmrm.errors import BmrmError
from bmrm.petsc import normal_mat, options, resident_mat, solve, weights
try:
    resident_mat(np.eye(3), device="cuda")
except BmrmError as error:
    print(error)
"""
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True, env=environ
    )
    assert "use device='cpu'" in done.stdout
    assert done.stdout.count("\n") == 1


@gpu
def test_products_on_a_gpu_agree_with_scipy(rng):
    X = sparse()
    A = resident_mat(X, device="cuda", tune="predict")
    assert isinstance(A.getPythonContext().placed.matrix, cuda.Matrix)
    check_products(A, X, rng, 1e-12)


def lsqr(A: "PETSc.Mat", b: "PETSc.Vec", x: "PETSc.Vec") -> None:
    ksp = PETSc.KSP().create(A.getComm())
    ksp.setType("lsqr")
    ksp.setOperators(A)
    ksp.getPC().setType("none")
    ksp.setTolerances(rtol=1e-14, atol=0.0, max_it=500)
    ksp.solve(b, x)
    assert ksp.getConvergedReason() > 0


def test_least_squares_by_ksp_lsqr(rng):
    X, y = sparse(), rng.standard_normal(M)
    A = resident_mat(X)
    w, _ = A.createVecs()
    lsqr(A, vec(y), w)
    expected = np.linalg.lstsq(X.toarray(), y, rcond=None)[0]
    np.testing.assert_allclose(w.getArray(), expected, rtol=1e-8, atol=1e-10)


def test_ridge_regression_by_ksp_lsqr(rng):
    """PETSc's nested matrix puts the rows sqrt(lam) I below X."""
    X, y, lam = sparse(), rng.standard_normal(M), 0.3
    A = resident_mat(X)
    eye = PETSc.Mat().createConstantDiagonal((D, D), np.sqrt(lam), comm=PETSc.COMM_SELF)
    stacked = PETSc.Mat().createNest([[A], [eye]], comm=PETSc.COMM_SELF)
    w, _ = stacked.createVecs()
    lsqr(stacked, vec(np.concatenate([y, np.zeros(D)])), w)
    expected = np.linalg.solve((X.T @ X).toarray() + lam * np.eye(D), X.T @ y)
    np.testing.assert_allclose(w.getArray(), expected, rtol=1e-8)


def mat_on(matrix, monkeypatch) -> "PETSc.Mat":
    """A PETSc matrix on a stand-in for a resident matrix."""
    monkeypatch.setattr(
        bmrm.petsc.placed, "place_matrix", lambda X, **options: PlacedMatrix(matrix, "cpu", 0.0, 1)
    )
    return resident_mat(sparse())


def first_cause(error: BaseException) -> BaseException:
    return error if error.__cause__ is None else first_cause(error.__cause__)


@pytest.mark.parametrize("product", ["mult", "multTranspose", "multAdd", "normal"])
def test_a_failing_product_gives_the_vectors_back(monkeypatch, product):
    class Failing:
        shape = (M, D)
        mean_squares = np.ones(D)

        def rmatvec(self, vector, out):
            self.lent = vector, out
            raise FloatingPointError("a product failed")

        def matvec(self, vector, out):
            if product != "normal":
                self.rmatvec(vector, out)

    failing = Failing()
    A = mat_on(failing, monkeypatch)
    right, left = A.createVecs()
    x, y = (left, right) if product == "multTranspose" else (right, left)
    if product == "normal":  # the first of its products succeeds
        A, y = normal_mat(A), right.duplicate()
    operands = (x, y, y.duplicate()) if product == "multAdd" else (x, y)
    out = operands[-1]
    before = out.stateGet()
    with pytest.raises(PETSc.Error) as raised:
        getattr(A, "mult" if product == "normal" else product)(*operands)
    assert isinstance(first_cause(raised.value), FloatingPointError)
    # PETSc counts a change when an array is finally returned, and refuses to change a locked vector.
    # The views in `host_arrays` and the frames of the exception are still alive.
    assert len(failing.lent) == 2
    assert out.stateGet() > before
    x.set(1.0)
    out.set(2.0)
    assert (x.sum(), out.sum()) == (x.getSize(), 2.0 * out.getSize())


def test_vectors_are_lent_not_copied(monkeypatch):
    seen = {}

    class Recording:
        shape = (M, D)
        mean_squares = np.ones(D)

        def matvec(self, vector, out):
            seen["x"], seen["y"] = vector.ctypes.data, out.ctypes.data
            assert not vector.flags.writeable

    A = mat_on(Recording(), monkeypatch)
    x, y = A.createVecs()
    with x.buffer_r as lent:
        address_x = lent.ctypes.data
    with y.buffer_r as lent:
        address_y = lent.ctypes.data
    A.mult(x, y)
    assert seen == {"x": address_x, "y": address_y}


def test_other_scalars_are_refused(monkeypatch):
    monkeypatch.setattr(PETSc, "ScalarType", np.complex128)
    with pytest.raises(BmrmError, match="scalars of type complex128"):
        resident_mat(sparse())


@pytest.mark.parametrize("form", [lambda X: X, lambda X: X.toarray()], ids=["sparse", "dense"])
@pytest.mark.parametrize("kind", ["NORM_1", "NORM_FROBENIUS", "NORM_INFINITY"])
def test_norms_agree_with_petsc(form, kind):
    X = sparse()
    stored = PETSc.Mat().createAIJ(X.shape, csr=(X.indptr, X.indices, X.data), comm=PETSc.COMM_SELF)
    which = getattr(PETSc.NormType, kind)
    assert resident_mat(form(X)).norm(which) == pytest.approx(stored.norm(which), rel=1e-14)


def test_another_norm_is_refused():
    with pytest.raises(PETSc.Error) as raised:
        resident_mat(sparse()).norm(PETSc.NormType.NORM_2)
    assert isinstance(first_cause(raised.value), ParameterError)


def test_a_duplicate_shares_the_resident_matrix(rng):
    X = sparse()
    A = resident_mat(X)
    twin = A.duplicate(copy=True)
    assert twin.getPythonContext().placed.matrix is A.getPythonContext().placed.matrix
    A.destroy()
    w = rng.standard_normal(D)
    _, margins = twin.createVecs()
    twin.mult(vec(w), margins)
    np.testing.assert_allclose(margins.getArray(), X @ w, rtol=1e-13, atol=1e-13)


def test_the_view_says_where_the_matrix_is(capfd):
    A = resident_mat(sparse())
    A.view()
    normal_mat(A, shift=2.0).view()
    PETSc.Viewer.STDOUT(PETSc.COMM_SELF).flush()
    shown = capfd.readouterr().out
    assert f"resident on cpu: {A.getPythonContext().placed.matrix.nnz} values" in shown
    assert "X'X + 2 I of X resident on cpu" in shown


def test_normal_matrix_and_its_diagonal(rng):
    X, u = sparse(), rng.standard_normal(D)
    N = normal_mat(resident_mat(X), shift=0.5)
    y = N.createVecLeft()
    expected = (X.T @ X).toarray() + 0.5 * np.eye(D)
    for product in (N.mult, N.multTranspose, N.duplicate().mult):
        product(vec(u), y)
        np.testing.assert_allclose(y.getArray(), expected @ u, rtol=1e-12)
    np.testing.assert_allclose(N.getDiagonal().getArray(), expected.diagonal(), rtol=1e-13)


def test_petscs_own_normal_matrix_works_too(rng):
    X, u = sparse(), rng.standard_normal(D)
    N = PETSc.Mat().createNormal(resident_mat(X))
    y = N.createVecLeft()
    N.mult(vec(u), y)
    np.testing.assert_allclose(y.getArray(), X.T @ (X @ u), rtol=1e-12, atol=1e-12)


def test_the_normal_matrix_is_of_a_resident_one():
    A = PETSc.Mat().createConstantDiagonal((3, 3), 1.0, comm=PETSc.COMM_SELF)
    with pytest.raises(ParameterError, match="expected one of resident_mat"):
        normal_mat(A)


@pytest.mark.parametrize("method", ["cg", "cgls", "lsqr"])
def test_krylov_methods_with_the_diagonal_as_preconditioner(rng, method):
    X, y, lam = sparse(), rng.standard_normal(M), 0.3
    A = resident_mat(X)
    N = normal_mat(A, shift=lam if method == "cg" else 0.0)
    ksp = PETSc.KSP().create(PETSc.COMM_SELF)
    ksp.setType(method)
    ksp.setOperators(N if method == "cg" else A, N)
    ksp.getPC().setType("none" if method == "cgls" else "jacobi")
    ksp.setTolerances(rtol=1e-12, max_it=500)
    w, rhs = A.createVecRight(), A.createVecRight()
    A.multTranspose(vec(y), rhs)
    ksp.solve(rhs if method == "cg" else vec(y), w)
    assert ksp.getConvergedReason() > 0
    if method == "cg":
        expected = np.linalg.solve((X.T @ X).toarray() + lam * np.eye(D), X.T @ y)
    else:
        expected = np.linalg.lstsq(X.toarray(), y, rcond=None)[0]
    np.testing.assert_allclose(w.getArray(), expected, rtol=1e-6, atol=1e-9)


class SinglePrecision:
    """The part of a single-precision PETSc vector that the bridge uses."""

    handle = 0

    def __init__(self, values):
        self.values, self.lent = np.asarray(values, np.float32), 0

    @property
    def buffer_r(self):
        return self

    buffer_w = buffer_r

    def __enter__(self):
        self.lent += 1
        return self.values

    def __exit__(self, *_):
        self.lent -= 1


def test_single_precision_vectors_are_converted_once_each_way():
    x, y = SinglePrecision([1.0, 2.0]), SinglePrecision([0.0, 0.0, 0.0])
    with bmrm.petsc.bridge.host_arrays(x, y) as (source, target):
        assert (source.dtype, target.dtype) == (np.float64, np.float64)
        assert (x.lent, y.lent) == (1, 1)
        target[:] = [source.sum(), 4.0, 5.0]
    np.testing.assert_array_equal(y.values, np.float32([3.0, 4.0, 5.0]))
    assert (x.lent, y.lent) == (0, 0)


def test_a_failure_in_single_precision_leaves_the_output_as_it_was():
    x, y = SinglePrecision([1.0]), SinglePrecision([7.0])

    def failing_product():
        with bmrm.petsc.bridge.host_arrays(x, y) as (_, target):
            target[:] = 1.0
            raise FloatingPointError

    with pytest.raises(FloatingPointError):
        failing_product()
    assert (y.values.tolist(), x.lent, y.lent) == ([7.0], 0, 0)


def labelled() -> tuple[sp.csr_array, np.ndarray]:
    X = sparse()
    return X, np.where(np.arange(M) % 2, 1.0, -1.0)


def as_aij(X: sp.csr_array) -> "PETSc.Mat":
    return PETSc.Mat().createAIJ(X.shape, csr=(X.indptr, X.indices, X.data), comm=PETSc.COMM_SELF)


def as_dense(X: sp.csr_array) -> "PETSc.Mat":
    return PETSc.Mat().createDense(X.shape, array=X.toarray(order="F"), comm=PETSc.COMM_SELF)


@pytest.mark.parametrize("made", [as_aij, as_dense])
def test_solve_takes_petsc_matrices_and_vectors(made):
    X, y = labelled()
    expected = bmrm.solve(X, y, lam=0.1)
    result = bmrm.solve(made(X), vec(y), lam=0.1)
    np.testing.assert_allclose(result.w, expected.w, rtol=1e-12)
    w, result = solve(made(X), vec(y), lam=0.1)
    np.testing.assert_array_equal(w.getArray(), result.w)
    assert (result.n_samples, result.n_features) == X.shape


def test_a_dense_matrix_is_not_left_locked():
    X, y = labelled()
    A = as_dense(X)
    bmrm.solve(A, vec(y), lam=0.1)
    A.zeroEntries()
    assert A.norm() == 0.0


def test_other_petsc_matrices_are_refused():
    A = PETSc.Mat().createConstantDiagonal((3, 3), 1.0, comm=PETSc.COMM_SELF)
    with pytest.raises(ParameterError, match="type constantdiagonal, expected AIJ or dense"):
        bmrm.solve(A, vec(np.ones(3)))


def test_labels_that_are_not_spread_as_the_rows():
    X, y = labelled()
    with pytest.raises(
        ParameterError, match="found 59 labels on a rank, expected one for each of its 60 rows"
    ):
        bmrm.solve(as_aij(X), vec(y[1:]))


def test_weights_of_several_classes_are_no_vector():
    mat = PETSc.Mat().createDense((2, 2), array=np.eye(2), comm=PETSc.COMM_SELF)
    with pytest.raises(ParameterError, match="loss softmax: its weights are a matrix"):
        bmrm.petsc.solve(mat, loss="softmax")


def test_weights_owned_by_one_rank():
    X, y = labelled()
    # Newton steps, which need all columns on one rank, would find a different solution within the gap.
    given = {"lam": 0.1, "solver": "bmrm"}
    expected = solve(as_aij(X), vec(y), **given).w
    found = solve(as_aij(X), vec(y), weights="owned", **given).w
    np.testing.assert_allclose(found.getArray(), expected.getArray(), rtol=1e-12)
    with pytest.raises(ParameterError, match="weights owned: reg l1 is solved on whole cuts"):
        solve(as_aij(X), vec(y), reg="l1", weights="owned")


def test_weights_for_another_matrix():
    with pytest.raises(ParameterError, match="found 23 columns, expected 5"):
        weights(np.ones(5), as_aij(sparse()))


@pytest.fixture
def database():
    """PETSc's options database, restored afterwards."""
    found = PETSc.Options()
    before = dict(found.getAll())
    yield found
    for name in set(found.getAll()) - set(before):
        found.delValue(name)


def test_options_of_the_database_win_over_keywords(database):
    for name, value in {
        "loss": "quantile",
        "tau": 0.9,
        "lambda": 0.01,
        "intercept": None,
        "cuts_per_pass": "auto",
        "max_iter": 7,
    }.items():
        database[f"bmrm_{name}"] = value
    assert options() == {
        "loss": "quantile",
        "tau": 0.9,
        "lam": 0.01,
        "fit_intercept": True,
        "cuts_per_pass": "auto",
        "max_iter": 7,
    }
    X, y = labelled()
    result = solve(as_aij(X), vec(y), loss="hinge", lam=5.0).result
    assert (result.loss.name, result.loss.params, result.lam) == ("quantile", {"tau": 0.9}, 0.01)


def test_the_penalty_from_the_database(database):
    for name, value in {"reg": "elastic_net", "l1_ratio": 0.25, "positive": None}.items():
        database[f"bmrm_{name}"] = value
    X, y = labelled()
    result = solve(as_aij(X), vec(y), lam=0.01).result
    assert (result.reg, result.reg_params) == ("elastic_net", {"l1_ratio": 0.25, "positive": True})
    assert (result.w >= 0.0).all()


def test_an_unknown_option(database):
    database["other_lamda"] = 1.0
    with pytest.raises(ParameterError, match="-other_lamda: found no such option"):
        options("other_")


def test_an_option_that_is_no_number(database):
    database["other_lambda"] = "much"
    with pytest.raises(ParameterError, match="-other_lambda: found 'much', expected a number"):
        options("other_")


SEVERAL_RANKS = """
import numpy as np
import scipy.sparse as sp
from petsc4py import PETSc
import bmrm
from bmrm.errors import DataError, ParameterError
from bmrm.petsc import normal_mat, resident_mat, solve

world = PETSc.COMM_WORLD
rank, size = world.getRank(), world.getSize()
rng = np.random.default_rng(5)
m, d = 40, 17
X = sp.random_array((m, d), density=0.3, format="csr", rng=rng)
y = np.where(np.arange(m) % 3, 1.0, -1.0)
w, r = rng.standard_normal(d), rng.standard_normal(m)
first, last = (m * k // size for k in (rank, rank + 1))

A = resident_mat(X[first:last], comm=world)
right, left = A.createVecs()
out_right, out_left = A.createVecs()
(low, high), (top, bottom) = right.getOwnershipRange(), left.getOwnershipRange()
assert (top, bottom) == (first, last)
right.setArray(w[low:high])
left.setArray(r[first:last])
A.mult(right, out_left)
np.testing.assert_allclose(out_left.getArray(), (X @ w)[first:last], rtol=1e-12, atol=1e-12)
A.multTranspose(left, out_right)
np.testing.assert_allclose(out_right.getArray(), (X.T @ r)[low:high], rtol=1e-12, atol=1e-12)
A.multTransposeAdd(left, right, out_right)
np.testing.assert_allclose(out_right.getArray(), (X.T @ r + w)[low:high], rtol=1e-12, atol=1e-12)
N = normal_mat(A, shift=0.25)
N.mult(right, out_right)
np.testing.assert_allclose(out_right.getArray(), (X.T @ (X @ w) + 0.25 * w)[low:high], rtol=1e-12)
np.testing.assert_allclose(
    N.getDiagonal().getArray(), ((X * X).sum(axis=0) + 0.25)[low:high], rtol=1e-12
)

rows = X[first:last]
stored = PETSc.Mat().createAIJ(
    ((last - first, m), (high - low, d)), csr=(rows.indptr, rows.indices, rows.data), comm=world
)
for kind in (PETSc.NormType.NORM_1, PETSc.NormType.NORM_FROBENIUS, PETSc.NormType.NORM_INFINITY):
    np.testing.assert_allclose(A.norm(kind), stored.norm(kind), rtol=1e-13)
labels = stored.createVecLeft()
labels.setArray(y[first:last])
weights, result = solve(stored, labels, lam=0.05, tol=1e-8)
alone = bmrm.solve(X, y, lam=0.05, tol=1e-8)
assert abs(result.objective - alone.objective) <= result.gap + alone.gap
np.testing.assert_allclose(weights.getArray(), result.w[low:high])

# No rank ever has all weights, even if the matrix has another column layout.
uneven = d - 2 * (size - 1) if rank == 0 else 2
odd = PETSc.Mat().createAIJ(
    ((last - first, m), (uneven, d)), csr=(rows.indptr, rows.indices, rows.data), comm=world
)
for mat in (stored, odd):
    weights, result = solve(mat, labels, lam=0.05, tol=1e-8, weights="owned")
    assert abs(result.objective - alone.objective) <= result.gap + alone.gap
    assert weights.getSizes() == mat.getSizes()[1]
    start, end = weights.getOwnershipRange()
    np.testing.assert_allclose(weights.getArray(), alone.w[start:end], atol=1e-3)
    assert len(result.w) == high - low
    risk = np.maximum(0.0, 1.0 - y * (X @ np.concatenate(world.tompi4py().allgather(result.w)))).mean()
    assert abs(risk + 0.025 * weights.norm() ** 2 - result.objective) <= 1e-12
PETSc.Options()["bmrm_weights"] = "owned"
weights, result = solve(stored, labels, lam=0.05, sample_weight=np.ones(last - first), prior=0.1 * w)
assert len(result.w) == high - low
expected = bmrm.solve(X, y, lam=0.05, prior=0.1 * w)
assert abs(result.objective - expected.objective) <= result.gap + expected.gap
whole = bmrm.solve(stored, labels, lam=0.05, weights="owned")  # as an array, so all of them on every rank
assert whole.w.shape == (d,)

# A resident matrix accepts the vectors of the stored one, for any column layout.
kept = resident_mat(odd)
assert kept.getSizes() == odd.getSizes()
(into, back), (stored_out, kept_out) = odd.createVecs(), (odd.createVecLeft(), odd.createVecLeft())
into.setArray(w[slice(*into.getOwnershipRange())])
odd.mult(into, stored_out)
kept.mult(into, kept_out)
np.testing.assert_allclose(kept_out.getArray(), stored_out.getArray(), rtol=1e-12, atol=1e-12)

# A matrix of this rank only, in one problem with those of other ranks: the rank gets all weights.
mine = PETSc.Mat().createAIJ(rows.shape, csr=(rows.indptr, rows.indices, rows.data), comm=PETSc.COMM_SELF)
own_labels = PETSc.Vec().createWithArray(y[first:last].copy(), comm=PETSc.COMM_SELF)
PETSc.Options().delValue("bmrm_weights")
for form in ("replicated", "owned"):
    weights, result = solve(mine, own_labels, lam=0.05, tol=1e-8, comm=world, weights=form)
    np.testing.assert_allclose(weights.getArray(), alone.w, atol=1e-3)


def fails_everywhere(error, call, *arguments, **options):
    # An error on one rank is an error on all, and no rank waits for another.
    try:
        call(*arguments, **options)
    except error:
        return
    raise SystemExit(f"rank {rank}: no {error.__name__}")


spread = PETSc.Vec().createMPI((last - first + (rank == 1) - (rank == 2), m), comm=world)
fails_everywhere(ParameterError, solve, stored, spread, lam=0.05)
fails_everywhere(ParameterError, solve, stored, labels, lam=0.05 * (1 + rank))
unbounded = stored.duplicate(copy=True)
unbounded.setValue(0, X.indices[0], np.inf)  # of one rank
unbounded.assemble()
fails_everywhere(DataError, solve, unbounded, labels, lam=0.05)
fails_everywhere(DataError, resident_mat, unbounded)
PETSc.Options()["bmrm_tol"] = "0.1" if rank else "0.01"
try:
    solve(stored, labels, lam=0.05)
except ParameterError as error:
    assert str(error) == "tol: found 0.01 on one rank and 0.1 on another", error
else:
    raise SystemExit("options of PETSc that differ were taken")
PETSc.Options()["bmrm_tol"] = "few" if rank else "0.01"  # read on one rank only
fails_everywhere(ParameterError, solve, stored, labels, lam=0.05)
PETSc.Options().delValue("bmrm_tol")
fails_everywhere(DataError, resident_mat, np.full((2, 3), np.nan if rank == 1 else 1.0), comm=world)
fails_everywhere(DataError, resident_mat, np.ones((0 if rank == 2 else 2, 3)), comm=world)

try:
    resident_mat(np.ones((2, 3 + rank)), comm=world)
except ParameterError as error:
    assert f"found 3 columns on one rank and {2 + size} on another" in str(error), error
else:
    raise SystemExit("matrices of different widths were put together")
PETSc.Sys.Print("ranks agree")
"""


@pytest.mark.parametrize("ranks", [3])
def test_matrices_on_several_ranks(tmp_path, ranks):
    done = mpi.run(ranks, mpi.script(tmp_path, SEVERAL_RANKS), own_job=True)
    assert (done.returncode, done.stdout.strip()) == (0, "ranks agree"), done.stderr
