"""Ridge regression by PETSc's Krylov methods on a resident matrix, checked against bmrm's own answer.

    mpiexec -n 2 python examples/petsc_ridge.py [-ksp_monitor …]

Each rank has half of the rows. PETSc's LSQR solves with [X; sqrt(m lam) I], a nested matrix; conjugate
gradients solve with X'X + m lam I, and its diagonal for Jacobi; and `bmrm.solve` minimises the same function,

    lam/2 |w|^2 + sum_i (x_i . w - y_i)^2 / (2 m).

The program accepts the options of PETSc's KSP, with the prefixes lsqr_ and cg_.
"""

import sys

import petsc4py

petsc4py.init(sys.argv)

import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from petsc4py import PETSc  # noqa: E402

import bmrm  # noqa: E402
from bmrm.petsc import normal_mat, resident_mat, weights  # noqa: E402

ROWS = 4000
FEATURES = 300
LAM = 1e-3
world = PETSc.COMM_WORLD


def rows_of_this_rank() -> tuple[sp.csr_array, np.ndarray]:
    """Return this rank's rows of data that are the same for any number of ranks."""
    rng = np.random.default_rng(0)
    X = sp.random_array((ROWS, FEATURES), density=0.05, format="csr", rng=rng)
    y = X @ rng.standard_normal(FEATURES) + 0.1 * rng.standard_normal(ROWS)
    first, last = (ROWS * r // world.getSize() for r in (world.getRank(), world.getRank() + 1))
    return X[first:last], y[first:last]


def krylov(name: str, operator: PETSc.Mat, rhs: PETSc.Vec, w: PETSc.Vec, preconditioner: str) -> None:
    """Solve with the named Krylov method."""
    ksp = PETSc.KSP().create(world)
    ksp.setOptionsPrefix(f"{name}_")
    ksp.setType(name)
    ksp.setOperators(operator)
    ksp.getPC().setType(preconditioner)
    ksp.setTolerances(rtol=1e-10, max_it=1000)
    ksp.setFromOptions()
    ksp.solve(rhs, w)
    PETSc.Sys.Print(f"{name}: {ksp.getIterationNumber()} iterations, reason {ksp.getConvergedReason()}")


X, y = rows_of_this_rank()
A = resident_mat(X, comm=world)
strength = ROWS * LAM
b = A.createVecLeft()
b.setArray(y)

ridge = PETSc.Mat().createConstantDiagonal((A.getSizes()[1], A.getSizes()[1]), np.sqrt(strength), comm=world)
stacked = PETSc.Mat().createNest([[A], [ridge]], comm=world)
by_lsqr, padded = stacked.createVecs()
top, bottom = stacked.getNestISs()[0]
padded.set(0.0)
padded.isset(bottom, 0.0)
part = padded.getSubVector(top)
b.copy(part)
padded.restoreSubVector(top, part)
krylov("lsqr", stacked, padded, by_lsqr, "none")

by_cg, rhs = A.createVecRight(), A.createVecRight()
A.multTranspose(b, rhs)
krylov("cg", normal_mat(A, shift=strength), rhs, by_cg, "jacobi")

certified = bmrm.solve(X, y, loss="squared", lam=LAM, tol=1e-9, comm=world)
by_bmrm = weights(certified.w, A)
size = by_bmrm.norm()
for name, w in (("LSQR", by_lsqr), ("CG", by_cg)):
    difference = w.duplicate()
    w.copy(difference)
    difference.axpy(-1.0, by_bmrm)
    PETSc.Sys.Print(f"{name} against bmrm: {difference.norm() / size:.1e}")
PETSc.Sys.Print(f"bmrm: {certified.status}, objective {certified.objective:.9f}, gap {certified.gap:.1e}")
