"""PETSc on the resident matrix: a ``Mat`` for any PETSc solver, and training with PETSc's objects.

The module needs petsc4py (docs/petsc.md says how to get it) and is not imported by ``import bmrm``.
"""

try:
    import petsc4py.PETSc  # noqa: F401
except ImportError as error:
    raise ImportError(f"bmrm.petsc needs petsc4py, which cannot be imported: {error}") from error

from bmrm.petsc.mat import normal_mat, resident_mat
from bmrm.petsc.options import options
from bmrm.petsc.resident import Resident
from bmrm.petsc.training import Solution, solve, weights

__all__ = ["Resident", "Solution", "normal_mat", "options", "resident_mat", "solve", "weights"]
