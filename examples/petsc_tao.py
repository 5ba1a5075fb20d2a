"""Logistic regression by PETSc's TAO on a resident matrix, compared with bmrm's certified result.

    mpiexec -n 2 python examples/petsc_tao.py [-bmrm_tol 1e-6 -tao_monitor …]

TAO's own method `bmrm` gets the mean loss and adds lam/2 |w|^2 itself; its `blmvm` (limited memory) gets the
whole objective; its `owlqn` adds lam |w|_1, the penalty of the lasso. Loss and gradient take two products
with the resident matrix. `bmrm.petsc.solve`, with options from the same database, solves the first problem
too, and its lower bound shows how far from the optimum each result can be.
"""

import sys

import petsc4py

petsc4py.init(sys.argv)

import numpy as np  # noqa: E402
from petsc4py import PETSc  # noqa: E402

import bmrm.petsc  # noqa: E402

ROWS = 3000
FEATURES = 60
LAM = 1e-2
world = PETSc.COMM_WORLD


def matrix_and_labels() -> tuple[PETSc.Mat, PETSc.Vec]:
    """Return an AIJ matrix whose rows are distributed over the ranks, and labels -1 and +1."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES)) * (rng.random((ROWS, FEATURES)) < 0.2)
    labels = np.where(X @ rng.standard_normal(FEATURES) + rng.standard_normal(ROWS) > 0, 1.0, -1.0)
    A = PETSc.Mat().createDense((ROWS, FEATURES), comm=world)
    first, last = A.getOwnershipRange()
    A.getDenseArray()[:] = X[first:last]
    A.assemble()
    A.convert(PETSc.Mat.Type.AIJ)
    y = A.createVecLeft()
    y.setArray(labels[first:last])
    return A, y


class MeanLoss:
    """Value and gradient of ``sum_i log(1 + exp(-y_i x_i . w)) / m``, plus ``ridge/2 |w|^2``."""

    def __init__(self, X: PETSc.Mat, y: PETSc.Vec, ridge: float) -> None:
        self.X, self.y, self.ridge = X, y, ridge
        self.margins, self.values = X.createVecLeft(), X.createVecLeft()

    def __call__(self, tao: PETSc.TAO, w: PETSc.Vec, gradient: PETSc.Vec) -> float:
        self.X.mult(w, self.margins)
        u = self.y.getArray(readonly=True) * self.margins.getArray(readonly=True)
        self.values.setArray(np.logaddexp(0.0, -u))
        self.margins.setArray(-self.y.getArray(readonly=True) / (1.0 + np.exp(u)) / ROWS)
        self.X.multTranspose(self.margins, gradient)
        gradient.axpy(self.ridge, w)
        return self.values.sum() / ROWS + 0.5 * self.ridge * w.dot(w)


def train(kind: str, ridge: float) -> PETSc.Vec:
    """Minimise with the named TAO method."""
    w, slot = X.createVecRight(), X.createVecRight()
    tao = PETSc.TAO().create(world)
    tao.setType(kind)
    tao.setObjectiveGradient(MeanLoss(X, y, ridge), slot)
    tao.setTolerances(gatol=1e-4 if kind == "owlqn" else 1e-7, grtol=0.0)
    tao.setMaximumIterations(2000)
    tao.setFromOptions()
    tao.solve(w)
    PETSc.Sys.Print(f"TAO {kind}: {tao.getIterationNumber()} iterations, reason {tao.getConvergedReason()}")
    return w


A, y = matrix_and_labels()
X = bmrm.petsc.resident_mat(A)
for name in ("tao_bmrm_lambda", "tao_owlqn_lambda"):
    if not PETSc.Options().hasName(name):
        PETSc.Options()[name] = LAM

solution = bmrm.petsc.solve(A, y, loss="logistic", lam=LAM, tol=1e-6)
found = solution.result
PETSc.Sys.Print(f"bmrm: {found.status} after {found.n_iter} iterations, gap {found.gap:.1e}")
ridge = MeanLoss(X, y, LAM)
slot = X.createVecRight()
for kind, own_ridge in (("bmrm", 0.0), ("blmvm", LAM)):
    w = train(kind, own_ridge)
    above = ridge(None, w, slot) - found.lower_bound
    PETSc.Sys.Print(f"TAO {kind}: at most {above:.1e} above the optimum")
sparse = train("owlqn", 0.0)
entries = np.abs(sparse.getArray(readonly=True))
kept = PETSc.Vec().createMPI((1, None), comm=world)
kept.set(float(np.count_nonzero(entries > 1e-8)))
PETSc.Sys.Print(f"TAO owlqn: keeps {kept.sum():.0f} of {FEATURES} features")
