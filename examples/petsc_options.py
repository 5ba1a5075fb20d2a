"""Least squares by a program that knows PETSc alone; its options decide how X is stored and multiplied by.

    mpiexec -n 2 python examples/petsc_options.py
    mpiexec -n 2 python examples/petsc_options.py -mat_type python -mat_python_type bmrm.petsc.Resident

The first line multiplies by PETSc's AIJ matrix, the second by the resident one, on a GPU with
`-mat_python_device cuda`. Krylov method, preconditioner and tolerances are options of PETSc too.
"""

import sys

import petsc4py

petsc4py.init(sys.argv)

import numpy as np  # noqa: E402
from petsc4py import PETSc  # noqa: E402

ROWS = 3000
FEATURES = 200
PER_ROW = 12


def make_problem() -> tuple[PETSc.Mat, PETSc.Vec]:
    """Set the rows of this rank; they are the same for any number of ranks."""
    A = PETSc.Mat().create(PETSc.COMM_WORLD)
    A.setSizes((ROWS, FEATURES))
    A.setFromOptions()
    A.setPreallocationNNZ(PER_ROW)
    A.setUp()
    truth = np.linspace(-1.0, 1.0, FEATURES)
    y = A.createVecLeft()
    first, last = A.getOwnershipRange()
    for row in range(first, last):
        rng = np.random.default_rng(row)
        columns = np.sort(rng.choice(FEATURES, PER_ROW, replace=False)).astype(PETSc.IntType)
        values = rng.standard_normal(PER_ROW)
        A.setValues([row], columns, values)
        y.setValue(row, values @ truth[columns] + 0.1 * rng.standard_normal())
    A.assemble()
    y.assemble()
    return A, y


A, y = make_problem()
ksp = PETSc.KSP().create(A.getComm())
ksp.setOperators(A)
ksp.setType("lsqr")
ksp.getPC().setType("none")
ksp.setTolerances(rtol=1e-10)
ksp.setFromOptions()
w = A.createVecRight()
ksp.solve(y, w)

residual = y.duplicate()
A.mult(w, residual)
residual.axpy(-1.0, y)
gradient = w.duplicate()
A.multTranspose(residual, gradient)
PETSc.Sys.Print(f"matrix: {A.getType()}, {A.getSize()[0]} x {A.getSize()[1]}, norm {A.norm():.10f}")
PETSc.Sys.Print(f"{ksp.getType()}: {ksp.getIterationNumber()} iterations, reason {ksp.getConvergedReason()}")
PETSc.Sys.Print(f"residual {residual.norm():.10f}, gradient {gradient.norm():.1e}")
