"""The PETSc matrix on the resident X: products, solves through KSP, and vectors given back on failure."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

if not os.environ.get("BMRM_REQUIRE_PETSC"):
    pytest.importorskip("petsc4py", reason="petsc4py is not installed; `make test` installs it")

from petsc4py import PETSc

import bmrm.petsc
from bmrm import _cpu
from bmrm.errors import BmrmError, ParameterError
from bmrm.io.csr import Csr
from bmrm.petsc import resident_mat
from bmrm.resident import Resident

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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "form", [lambda X: X, Csr.from_scipy, lambda X: X.toarray()], ids=["scipy", "csr", "dense"]
)
def test_products_agree_with_scipy(rng, form, dtype):
    X = sparse(dtype)
    exact = X.astype(np.float64)
    A = resident_mat(form(X))
    w, r = rng.standard_normal(D), rng.standard_normal(M)
    gradient, margins = A.createVecs()
    A.mult(vec(w), margins)
    A.multTranspose(vec(r), gradient)
    np.testing.assert_allclose(margins.getArray(), exact @ w, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(gradient.getArray(), exact.T @ r, rtol=1e-13, atol=1e-13)


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
    assert isinstance(A.getPythonContext().matrix, _cpu.Matrix)
    w = rng.standard_normal(D)
    _, margins = A.createVecs()
    A.mult(vec(w), margins)
    np.testing.assert_allclose(margins.getArray(), X @ w, rtol=1e-13, atol=1e-13)


def test_an_unknown_device():
    with pytest.raises(ParameterError, match="device: found 'abacus', expected one of auto, cpu, cuda"):
        resident_mat(sparse(), device="abacus")


def test_a_gpu_that_is_not_there():
    code = """
import numpy as np
from bmrm.errors import BmrmError
from bmrm.petsc import resident_mat
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


def test_products_on_a_gpu_agree_with_scipy(rng):
    cuda = pytest.importorskip("bmrm._cuda", reason="the package was built without CUDA")
    if not cuda.device_count():
        pytest.skip("there is no CUDA device")
    X = sparse()
    A = resident_mat(X, device="cuda")
    assert isinstance(A.getPythonContext().matrix, cuda.Matrix)
    w, r = rng.standard_normal(D), rng.standard_normal(M)
    gradient, margins = A.createVecs()
    A.mult(vec(w), margins)
    A.multTranspose(vec(r), gradient)
    np.testing.assert_allclose(margins.getArray(), X @ w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient.getArray(), X.T @ r, rtol=1e-12, atol=1e-12)


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
    """The rows sqrt(lam) I below X, put there by PETSc's own nested matrix."""
    X, y, lam = sparse(), rng.standard_normal(M), 0.3
    A = resident_mat(X)
    eye = PETSc.Mat().createConstantDiagonal((D, D), np.sqrt(lam), comm=PETSc.COMM_SELF)
    stacked = PETSc.Mat().createNest([[A], [eye]], comm=PETSc.COMM_SELF)
    w, _ = stacked.createVecs()
    lsqr(stacked, vec(np.concatenate([y, np.zeros(D)])), w)
    expected = np.linalg.solve((X.T @ X).toarray() + lam * np.eye(D), X.T @ y)
    np.testing.assert_allclose(w.getArray(), expected, rtol=1e-8)


def mat_on(matrix, monkeypatch) -> "PETSc.Mat":
    """A PETSc matrix on a resident matrix that is none."""
    monkeypatch.setattr(bmrm.petsc, "resident", lambda X, **options: Resident(matrix, "cpu", 0.0))
    return resident_mat(sparse())


def first_cause(error: BaseException) -> BaseException:
    return error if error.__cause__ is None else first_cause(error.__cause__)


@pytest.mark.parametrize("product", ["mult", "multTranspose", "multAdd"])
def test_a_failing_product_gives_the_vectors_back(monkeypatch, product):
    class Failing:
        shape = (M, D)

        def matvec(self, vector, out):
            self.lent = vector, out
            raise FloatingPointError("a product failed")

        rmatvec = matvec

    failing = Failing()
    A = mat_on(failing, monkeypatch)
    right, left = A.createVecs()
    x, y = (left, right) if product == "multTranspose" else (right, left)
    operands = (x, y, y.duplicate()) if product == "multAdd" else (x, y)
    out = operands[-1]
    before = out.stateGet()
    with pytest.raises(PETSc.Error) as raised:
        getattr(A, product)(*operands)
    assert isinstance(first_cause(raised.value), FloatingPointError)
    # PETSc counts a change when an array is given back for good, and refuses to change a locked vector.
    # The views in `lent` and the frames of the exception are alive all the same.
    assert len(failing.lent) == 2
    assert out.stateGet() > before
    x.set(1.0)
    out.set(2.0)
    assert (x.sum(), out.sum()) == (x.getSize(), 2.0 * out.getSize())


def test_vectors_are_lent_not_copied(monkeypatch):
    seen = {}

    class Recording:
        shape = (M, D)

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


TWO_RANKS = """
import sys
import numpy as np
from petsc4py import PETSc
from bmrm.errors import ParameterError
from bmrm.petsc import resident_mat

rank = PETSc.COMM_WORLD.getRank()
try:
    resident_mat(np.eye(3), comm=PETSc.COMM_WORLD)
except ParameterError as error:
    assert "found 2 ranks" in str(error), error
else:
    sys.exit("a communicator of two ranks was taken")
A = resident_mat(np.full((2, 3), rank + 1.0))
w, margins = A.createVecs()
w.set(1.0)
A.mult(w, margins)
total = PETSc.Vec().createMPI((1, PETSc.DECIDE))
total.set(margins.sum())
assert total.sum() == 18.0, total.sum()
PETSc.Sys.Print("ranks agree")
"""


def test_each_rank_of_a_parallel_run_has_its_own_matrix(tmp_path):
    mpiexec = Path(sys.executable).with_name("mpiexec")
    program = tmp_path / "two_ranks.py"
    program.write_text(TWO_RANKS)
    done = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "ranks agree"), done.stderr
