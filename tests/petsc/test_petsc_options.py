"""A PETSc matrix made by options alone: all ways in which programs set values, and what solvers ask of it."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

if not os.environ.get("BMRM_REQUIRE_PETSC"):
    pytest.importorskip("petsc4py", reason="petsc4py is not installed; `make test` installs it")

import mpi
from devices import gpu, with_device
from petsc4py import PETSc

from bmrm.errors import BmrmError, ParameterError
from bmrm.petsc import Resident, normal_mat, resident_mat

M, D = 30, 20
X = sp.random_array((M, D), density=0.2, format="csr", rng=np.random.default_rng(3))
W = np.random.default_rng(4).standard_normal(D)


@pytest.fixture(name="database")
def options_of_a_resident_matrix():
    """PETSc's options database with those of a resident matrix, restored afterwards."""
    found = PETSc.Options()
    before = dict(found.getAll())
    found["mat_type"], found["mat_python_type"] = "python", "bmrm.petsc.Resident"
    yield found
    for name in set(found.getAll()) - set(before):
        found.delValue(name)


def empty(shape=(M, D)) -> "PETSc.Mat":
    """A matrix as a program makes it that knows nothing of this package."""
    A = PETSc.Mat().create(PETSc.COMM_SELF)
    A.setSizes(shape)
    A.setFromOptions()
    return A


def product(A: "PETSc.Mat", w: np.ndarray = W) -> np.ndarray:
    x, y = A.createVecs()
    x.setArray(w)
    A.mult(x, y)
    return y.getArray()


def set_rows(A: "PETSc.Mat") -> None:
    for row in range(M):
        mine = slice(X.indptr[row], X.indptr[row + 1])
        A.setValues([row], X.indices[mine], X.data[mine])
    A.assemble()


def by_rows() -> "PETSc.Mat":
    A = empty()
    set_rows(A)
    return A


def by_rows_preallocated() -> "PETSc.Mat":
    A = empty()
    A.setOption(PETSc.Mat.Option.NEW_NONZERO_ALLOCATION_ERR, True)
    A.setPreallocationNNZ(np.diff(X.indptr))
    set_rows(A)
    return A


def by_additions_in_stages() -> "PETSc.Mat":
    A = empty()
    for share in (0.25, 0.75):
        for row, column, value in zip(*sp.coo_array(X).coords, X.data, strict=True):
            A.setValue(row, column, share * value, addv=True)
        A.assemble(share == 0.25)  # a flush first
    return A


def by_coordinates() -> "PETSc.Mat":
    A = empty()
    A.setPreallocationCOO(*sp.coo_array(X).coords)
    A.setValuesCOO(X.data)
    return A


def by_values_of_compressed_rows() -> "PETSc.Mat":
    A = empty()
    A.setUp()
    A.setValuesCSR(X.indptr, X.indices, X.data)
    A.assemble()
    return A


def by_compressed_rows() -> "PETSc.Mat":
    A = empty()
    A.setPreallocationCSR((X.indptr, X.indices, X.data))  # which assembles
    return A


def stored() -> "PETSc.Mat":
    return PETSc.Mat().createAIJ(X.shape, csr=(X.indptr, X.indices, X.data), comm=PETSc.COMM_SELF)


def from_a_file() -> "PETSc.Mat":
    for mode in "wr":
        viewer = PETSc.Viewer().createBinary("X.petsc", mode, comm=PETSc.COMM_SELF)
        if mode == "w":
            stored().view(viewer)
        else:
            A = PETSc.Mat().create(PETSc.COMM_SELF)
            A.setFromOptions()
            A.load(viewer)
        viewer.destroy()
    return A


def converted() -> "PETSc.Mat":
    return stored().convert("python", PETSc.Mat())


def converted_in_place() -> "PETSc.Mat":
    return stored().convert("python")


def converted_by_one_call() -> "PETSc.Mat":
    return resident_mat(stored())


@pytest.mark.parametrize(
    "make",
    [
        by_rows, by_rows_preallocated, by_additions_in_stages, by_coordinates,
        by_values_of_compressed_rows, by_compressed_rows, from_a_file, converted, converted_in_place,
        converted_by_one_call,
    ],
)  # fmt: skip
def test_values_come_in_as_in_any_matrix(database, make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    A = make()
    assert (A.getType(), A.getSize()) == ("python", (M, D))
    assert isinstance(A.getPythonContext(), Resident)
    np.testing.assert_allclose(product(A), X @ W, rtol=1e-13)
    r, gradient = A.createVecLeft(), A.createVecRight()
    r.set(1.0)
    A.multTranspose(r, gradient)
    np.testing.assert_allclose(gradient.getArray(), X.sum(axis=0), rtol=1e-13, atol=1e-15)
    assert A.norm() == pytest.approx(np.linalg.norm(X.data), rel=1e-14)
    with pytest.raises(PETSc.Error):  # which would be another matrix
        A.getDiagonal()


def test_values_are_set_again_from_zero(database):
    A = by_rows()
    twin = A.duplicate(copy=True)
    A.zeroEntries()
    A.setValue(1, 2, 5.0)
    A.assemble()
    np.testing.assert_array_equal(product(A), np.eye(M)[1] * 5.0 * W[2])
    np.testing.assert_allclose(product(twin), X @ W, rtol=1e-13)
    assert normal_mat(A).getDiagonal().getArray()[2] == 25.0
    small = resident_mat(stored(), dtype="float32")
    small.zeroEntries()
    set_rows(small)
    assert small.getPythonContext().placed.matrix.dtype == np.float32


def test_placed_values_do_not_change(database):
    A = by_rows()
    with pytest.raises(PETSc.Error, match="No method setvalues for Mat of type python"):
        A.setValue(0, 0, 1.0)
    A.assemble()
    for change in (lambda: A.scale(2.0), lambda: A.shift(1.0), lambda: A.axpy(1.0, stored())):
        with pytest.raises(PETSc.Error):
            change()
    np.testing.assert_allclose(product(A), X @ W, rtol=1e-13)


def test_a_matrix_without_values_has_no_products(database):
    A = empty()
    A.setUp()
    x, y = A.createVecs()
    with pytest.raises(PETSc.Error) as raised:
        A.mult(x, y)
    assert isinstance(raised.value.__cause__, BmrmError)
    assert str(raised.value.__cause__) == "A: found no values, expected an assembled matrix"
    A.view()  # says so, or nothing


def test_options_of_a_prefix_say_how_x_is_stored(database):
    database["small_mat_type"], database["small_mat_python_type"] = "python", "bmrm.petsc.Resident"
    for name, value in {"dtype": "float32", "threads": 1, "device": "cpu"}.items():
        database[f"small_mat_python_{name}"] = value
    A = PETSc.Mat().create(PETSc.COMM_SELF)
    A.setOptionsPrefix("small_")
    A.setSizes(X.shape)
    A.setFromOptions()
    set_rows(A)
    matrix = A.getPythonContext().placed.matrix
    assert (matrix.dtype, matrix.threads) == (np.dtype(np.float32), 1)
    assert by_rows().getPythonContext().placed.matrix.dtype == np.float64
    np.testing.assert_allclose(product(A), X.astype(np.float32).astype(float) @ W, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("devise", "cpu", "-mat_python_devise: found no such option; did you mean -mat_python_device?"),
        ("threads", "few", "-mat_python_threads: found 'few', expected a number"),
        ("device", "abacus", "device: found 'abacus', expected one of auto, cpu, cuda, cuda:N"),
        ("dtype", "int8", "dtype: found 'int8', expected"),
        ("tune", "well", "tune: found 'well', expected one of best, predict, all, cold"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_one_clear_line(database, name, value, message):
    database[f"mat_python_{name}"] = value
    with pytest.raises(PETSc.Error) as raised:
        by_rows()
    cause = raised.value.__cause__
    assert isinstance(cause, ParameterError)
    assert message in str(cause)
    assert "\n" not in str(cause)


def test_the_diagonal_of_a_square_matrix(database):
    A = empty((D, D))
    square = X[:D].toarray()
    A.setValues(range(D), range(D), square)
    A.assemble()
    np.testing.assert_array_equal(A.getDiagonal().getArray(), square.diagonal())


@gpu
def test_a_matrix_on_a_gpu(database):
    database["mat_python_device"], database["mat_python_tune"] = "cuda", "predict"
    A = by_rows()
    placed = A.getPythonContext().placed
    assert placed.device.startswith("cuda")
    assert placed.matrix.vector_dtype == np.float64
    np.testing.assert_allclose(product(A), X @ W, rtol=1e-12)


@pytest.mark.parametrize("method", ["lsqr", "cgne", "cg"])
def test_krylov_methods_run_as_on_a_stored_matrix(database, method):
    rhs = vec(np.random.default_rng(5).standard_normal(D))
    dense = np.diag(np.full(D, 4.0)) + np.diag(np.ones(D - 1), 1) + np.diag(np.ones(D - 1), -1)
    found = []
    for kind in ("python", "aij"):
        database["mat_type"] = kind
        A = empty((D, D))
        A.setUp()
        A.setValues(range(D), range(D), dense)
        A.assemble()
        ksp = PETSc.KSP().create(PETSc.COMM_SELF)
        ksp.setOperators(A)
        ksp.setType(method)
        ksp.getPC().setType("none" if method == "lsqr" else "jacobi")
        ksp.setTolerances(rtol=1e-12)
        w = A.createVecRight()
        ksp.solve(rhs, w)
        assert ksp.getConvergedReason() > 0
        found.append((ksp.getIterationNumber(), w.getArray()))
    (ours, w), (petscs, expected) = found
    assert ours == petscs
    np.testing.assert_allclose(w, expected, rtol=1e-10)


def vec(values: np.ndarray) -> "PETSc.Vec":
    v = PETSc.Vec().createSeq(values.size)
    v.setArray(values)
    return v


def test_gauss_newton_of_tao(database):
    """TAO multiplies by the Jacobian and its transpose."""
    A, y = by_rows(), np.random.default_rng(6).standard_normal(M)
    w, residual = A.createVecs()
    tao = PETSc.TAO().create(PETSc.COMM_SELF)
    tao.setType("brgn")

    def evaluate(tao, w, out):
        A.mult(w, out)
        out.axpy(-1.0, vec(y))

    tao.setResidual(evaluate, residual)
    tao.setJacobianResidual(lambda *_: None, A, A)
    tao.setTolerances(gatol=1e-12, grtol=1e-12)
    tao.solve(w)
    np.testing.assert_allclose(w.getArray(), np.linalg.lstsq(X.toarray(), y)[0], rtol=1e-4, atol=1e-5)


SEVERAL_RANKS = """
import numpy as np
import scipy.sparse as sp
from petsc4py import PETSc
from bmrm.errors import DataError
from bmrm.petsc import Resident, normal_mat

world = PETSc.COMM_WORLD
rank, size = world.getRank(), world.getSize()
d = 19
rng = np.random.default_rng(5)
X = np.diag(np.arange(1.0, d + 1)) + np.diag(np.full(d - 1, -0.5), 1) + np.diag(np.full(d - 1, -0.5), -1)
X[d - 1, 0] = 0.25
X = sp.csr_array(X)
w = rng.standard_normal(d)


def made(kind, other=None):
    database = PETSc.Options()
    database["mat_type"], database["mat_python_type"] = kind, "bmrm.petsc.Resident"
    A = PETSc.Mat().create(world)
    A.setSizes((d, d))
    A.setFromOptions()
    A.setUp()
    # Each rank sets rows of another one.
    for row in range(d):
        if row % size == rank:
            mine = slice(X.indptr[row], X.indptr[row + 1])
            A.setValues([row], X.indices[mine], X.data[mine] if other is None else other[mine])
    A.assemble()
    return A


A, stored = made("python"), made("aij")
first, last = A.getOwnershipRange()
assert A.getSizes() == stored.getSizes()
x, y = stored.createVecs()
x.setArray(w[first:last])
for name, expected in (("mult", X @ w), ("multTranspose", X.T @ w)):
    getattr(A, name)(x, y)
    np.testing.assert_allclose(y.getArray(), expected[first:last], rtol=1e-13, atol=1e-14)
np.testing.assert_array_equal(A.getDiagonal().getArray(), stored.getDiagonal().getArray())
for kind in (PETSc.NormType.NORM_1, PETSc.NormType.NORM_FROBENIUS, PETSc.NormType.NORM_INFINITY):
    np.testing.assert_allclose(A.norm(kind), stored.norm(kind), rtol=1e-14)
np.testing.assert_allclose(
    normal_mat(A).getDiagonal().getArray(), (X * X).sum(axis=0)[first:last], rtol=1e-14
)

# A rank has the columns that its rows touch, and no others; so does what it fetches.
placed = A.getPythonContext().placed
touched = len(np.unique(X[first:last].indices))
assert touched < d
assert placed.matrix.shape == (last - first, touched)
assert placed.columns.fetch(x).getSize() == touched
np.testing.assert_array_equal(placed.columns.fetch(x).getArray(), w[np.unique(X[first:last].indices)])

# Blocks of rows are not divided, and options may come first.
options = PETSc.Options()
options["mat_type"] = "python"
blocks = PETSc.Mat().create(world)
blocks.setSizes((20, 20))
blocks.setBlockSize(5)
blocks.setFromOptions()
blocks.setOption(PETSc.Mat.Option.IGNORE_OFF_PROC_ENTRIES, True)
top, bottom = ((0, 10), (10, 15), (15, 20))[rank]
blocks.setValuesBlocked(range(top // 5, bottom // 5), [0], np.ones((bottom - top, 5)))
blocks.assemble()
assert blocks.getOwnershipRange() == (top, bottom)
assert blocks.norm(PETSc.NormType.NORM_1) == 20.0

# If all ranks touch all columns, it is an all-gather.
from bmrm.petsc import resident_mat
full = rng.standard_normal((4, d))
dense = resident_mat(full, comm=world)
right, left = dense.createVecs()
right.setArray(w[slice(*right.getOwnershipRange())])
dense.mult(right, left)
np.testing.assert_allclose(left.getArray(), full @ w, rtol=1e-12, atol=1e-13)

# Each rank has a GPU, and its columns go there through the host if PETSc has no CUDA.
options["mat_python_device"], options["mat_python_tune"] = "cuda", "predict"
on_gpus = made("python")
assert on_gpus.getPythonContext().placed.device.startswith("cuda")
on_gpus.multTranspose(x, y)
np.testing.assert_allclose(y.getArray(), (X.T @ w)[first:last], rtol=1e-12, atol=1e-13)
options.delValue("mat_python_device")

solutions = []
for operator in (A, stored):
    ksp = PETSc.KSP().create(world)
    ksp.setType("cgne")
    ksp.getPC().setType("jacobi")
    ksp.setOperators(operator)
    ksp.setTolerances(rtol=1e-12)
    solution = x.duplicate()
    ksp.solve(x, solution)
    solutions.append((ksp.getIterationNumber(), solution.norm()))
np.testing.assert_allclose(*solutions, rtol=1e-10)

bad = X.data.copy()
bad[-1] = np.inf  # set by one rank, placed by another
try:
    made("python", bad)
except PETSc.Error as error:
    assert isinstance(error.__cause__, DataError), error.__cause__
else:
    raise SystemExit("a value that is not finite was taken")
PETSc.Sys.Print("ranks agree")
"""


@gpu
def test_a_matrix_on_several_ranks(tmp_path):
    program = mpi.script(tmp_path, with_device(SEVERAL_RANKS, devices=2))
    done = mpi.run(3, program, own_job=True)
    assert (done.returncode, done.stdout.strip()) == (0, "ranks agree"), done.stderr
