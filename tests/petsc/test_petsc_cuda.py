"""PETSc's vectors and the resident matrix on a GPU: nothing crosses the bus, and everything is returned."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

if not os.environ.get("BMRM_REQUIRE_PETSC"):
    pytest.importorskip("petsc4py", reason="petsc4py is not installed; `make test` installs it")

import mpi
from petsc4py import PETSc

from bmrm.petsc import bridge, normal_mat, resident_mat

cuda = pytest.importorskip("bmrm.matrix._cuda", reason="the package was built without CUDA")

pytestmark = [
    pytest.mark.skipif(not cuda.device_count(), reason="there is no CUDA device"),
    pytest.mark.skipif(not PETSc.Sys.hasExternalPackage("cuda"), reason="this PETSc was built without CUDA"),
]

M, D = 300, 71


@pytest.fixture(name="X", params=[np.float32, np.float64])
def matrix(request) -> sp.csr_array:
    rng = np.random.default_rng(7)
    return sp.random_array((M, D), density=0.2, format="csr", dtype=np.float64, rng=rng).astype(request.param)


def tolerance(X) -> float:
    return 1e-5 if X.dtype == np.float32 else 1e-12


def filled(vec, values):
    vec.setArray(values)
    return vec


def test_vectors_are_made_on_the_gpu(X):
    for vec in resident_mat(X, device="cuda").createVecs():
        assert vec.getType() == "seqcuda"


def test_products_of_vectors_on_the_gpu(X, monkeypatch):
    monkeypatch.setattr(bridge, "host_arrays", None)  # the path through the host
    exact, A = X.astype(np.float64), resident_mat(X, device="cuda")
    rng = np.random.default_rng(1)
    w, r = rng.standard_normal(D), rng.standard_normal(M)
    right, left = A.createVecs()
    gradient, margins = A.createVecs()
    A.mult(filled(right, w), margins)
    A.multTranspose(filled(left, r), gradient)
    np.testing.assert_allclose(margins.getArray(), exact @ w, rtol=tolerance(X), atol=tolerance(X))
    np.testing.assert_allclose(gradient.getArray(), exact.T @ r, rtol=tolerance(X), atol=tolerance(X))
    A.multAdd(right, left, margins)
    np.testing.assert_allclose(margins.getArray(), exact @ w + r, rtol=tolerance(X), atol=tolerance(X))


def test_products_of_vectors_on_the_host(X):
    exact, A = X.astype(np.float64), resident_mat(X, device="cuda")
    w = np.random.default_rng(2).standard_normal(D)
    x, y = PETSc.Vec().createSeq(D), PETSc.Vec().createSeq(M)
    A.mult(filled(x, w), y)
    np.testing.assert_allclose(y.getArray(), exact @ w, rtol=tolerance(X), atol=tolerance(X))


def test_a_product_follows_what_petsc_has_queued(X):
    """There is no synchronisation in between: both use one stream."""
    exact, A = X.astype(np.float64), resident_mat(X, device="cuda")
    x, y = A.createVecs()
    for step in range(1, 50):
        x.set(float(step))
        A.mult(x, y)
        y.scale(2.0)
    np.testing.assert_allclose(y.getArray(), 98.0 * exact.sum(axis=1), rtol=1e-4, atol=1e-4)


def test_a_failing_product_gives_device_memory_back(X, monkeypatch):
    A = resident_mat(X, device="cuda")
    x, y = A.createVecs()

    class Failing:
        vector_dtype = np.dtype(np.float64)

        def apply(self, op, source, target):
            raise FloatingPointError("a product failed")

        apply_wide = apply

    context = A.getPythonContext()
    monkeypatch.setattr(context, "_placed", context.placed._replace(matrix=Failing()))
    with pytest.raises(PETSc.Error):
        A.mult(x, y)
    x.set(1.0)
    y.set(2.0)
    assert (x.sum(), y.sum()) == (D, 2.0 * M)


def test_ridge_regression_on_the_gpu():
    rng = np.random.default_rng(3)
    X = sp.random_array((M, D), density=0.2, format="csr", rng=rng)
    target, lam = rng.standard_normal(M), 0.3
    A = resident_mat(X, device="cuda")
    w, y = A.createVecs()
    rhs = w.duplicate()
    A.multTranspose(filled(y, target), rhs)
    ksp = PETSc.KSP().create(PETSc.COMM_SELF)
    ksp.setType("cg")
    ksp.setOperators(normal_mat(A, shift=lam))
    ksp.getPC().setType("jacobi")
    ksp.setTolerances(rtol=1e-12)
    ksp.solve(rhs, w)
    expected = np.linalg.solve((X.T @ X).toarray() + lam * np.eye(D), X.T @ target)
    np.testing.assert_allclose(w.getArray(), expected, rtol=1e-8)
    assert w.getType() == "seqcuda"


ON_TWO_RANKS = """
import petsc4py
petsc4py.init(["program", "-use_gpu_aware_mpi", "0"])
import numpy as np
import scipy.sparse as sp
from petsc4py import PETSc
from bmrm.petsc import resident_mat

world = PETSc.COMM_WORLD
rank, size = world.getRank(), world.getSize()
m, d = 40, 90
X = sp.random_array((m, d), density=0.02, format="csr", rng=np.random.default_rng(5))
w, r = np.linspace(-1.0, 1.0, d), np.linspace(1.0, 2.0, m)
first, last = (m * k // size for k in (rank, rank + 1))
A = resident_mat(X[first:last], device="cuda", comm=world)
right, left = A.createVecs()
gradient, margins = A.createVecs()
assert right.getType() == "mpicuda"
right.setArray(w[slice(*right.getOwnershipRange())])
left.setArray(r[first:last])
A.mult(right, margins)
A.multTranspose(left, gradient)
assert A.getPythonContext().placed.columns.local(right).getType() == "seqcuda"
np.testing.assert_allclose(margins.getArray(), (X @ w)[first:last], rtol=1e-12, atol=1e-13)
np.testing.assert_allclose(
    gradient.getArray(), (X.T @ r)[slice(*gradient.getOwnershipRange())], rtol=1e-12, atol=1e-13
)
"""


def test_columns_are_fetched_from_gpu_to_gpu(tmp_path):
    mpi.succeed(2, mpi.script(tmp_path, ON_TWO_RANKS), forked=False)
