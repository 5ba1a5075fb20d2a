"""Solves on several ranks of MPI, with all weights on each rank or some columns of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

import bmrm
from bmrm import losses
from same_bits_cases.problems import INTERCEPTS, PARAMS, Problem, penalties, problem
from same_bits_cases.recorder import Fields, Recorder, bits, joined, of_result, public
from same_bits_cases.solves import own_hinge

FEW = ("hinge", "logistic", "multiclass", "absolute")


def of_ranks(record: Recorder) -> None:
    """Solve on the ranks of the recorder's communicator."""
    forms = ("replicated", "owned") if record.common["device"] == "cpu" else ("replicated",)
    for form in forms:
        for name in losses.NAMES:
            options = {"max_iter": 60, "tol": 1e-3, **PARAMS.get(name, {})}
            for shape, storage in (("narrow", "float64"), ("text", "float32")):
                at = problem(shape, storage)
                record.case(f"{form}/{name}/{shape}", shared, record, form, name, at, options)
        for name in FEW:
            for way, options in ways().items():
                record.case(f"{form}/{name}/{way}", shared, record, form, name, problem("narrow"), options)
            for shape in ("short", "full", "wide"):
                options = {"max_iter": 60}
                record.case(f"{form}/{name}/{shape}", shared, record, form, name, problem(shape), options)
            record.case(f"{form}/{name}/again", again, record, form, name)
        own = losses.CallableLoss(own_hinge, "own_hinge", task="binary", minimum=0.0)
        record.case(f"{form}/own/text", shared, record, form, own, problem("text"), {"max_iter": 60})
        for storage in ("float64", "sparse float64") if record.common["device"] == "cpu" else ():
            record.case(f"{form}/petsc/{storage}", with_petsc, record, form, problem("narrow", storage))
    for storage in ("float64", "sparse float64"):
        record.case(f"petsc/products/{storage}", products, record, problem("narrow", storage))


def ways() -> dict[str, Fields]:
    """Return options of solves, by name."""
    kinds = ("l1", "elastic net", "positive", "strengths", "zeros", "prior")
    found = {kind: {"lam": 1e-2, **penalties("narrow")[kind]} for kind in kinds}
    found |= {f"{kind} intercept": options for kind, options in INTERCEPTS.items()}
    found |= {
        "weights": {"sample_weight": problem("narrow").weights},
        "balanced": {"class_weight": "balanced"},
        "five cuts": {"cuts_per_pass": 5},
        "few cuts": {"max_cuts": 8},
        "bmrm": {"solver": "bmrm", "tol": 1e-2, "lam": 1e-2},
        "fine": {"tol": 1e-8},
    }
    return {way: {"max_iter": 60, **options} for way, options in found.items()}


def of_rank(record: Recorder, at: Problem, loss: Any, options: Fields) -> Fields:
    """Return the arguments of this rank: its rows, more for later ranks, and what belongs to them."""
    rank, size, rows = record.comm.Get_rank(), record.comm.Get_size(), at.X.shape[0]
    first, last = (rows * r * (r + 1) // (size * (size + 1)) for r in (rank, rank + 1))
    given = {**at.options, **at.given(loss), **record.common, "comm": record.comm, **options}
    for name in ("y", "groups", "sample_weight"):
        if given.get(name) is not None:
            given[name] = given[name][first:last]
    return {"X": at.X[first:last], **given}


def shared(record: Recorder, form: str, loss: Any, at: Problem, options: Fields) -> Fields:
    """Solve once."""
    return of_result(bmrm.solve(weights=form, **of_rank(record, at, loss, options)), at.X)


def again(record: Recorder, form: str, loss: str) -> Fields:
    """Solve for several lam on one shard, and from a result."""
    at = problem("text")
    given = of_rank(record, at, loss, {})
    del given["lam"], given["loss"], given["max_iter"]
    shard = public("Shard", "bmrm.distributed")(weights=form, **given)
    options = {"loss": loss, "max_iter": 60, "tol": 1e-3}
    found = bmrm.path(shard, lams=[1e-1, 1e-2], **options)
    last = bmrm.solve(shard, warm_start=found[1], lam=1e-2, **{**options, "tol": 1e-4})
    parts = {"0": found[0], "1": found[1], "2": last}
    return joined({part: of_result(result, at.X) for part, result in parts.items()})


def with_petsc(record: Recorder, form: str, at: Problem) -> Fields:
    """Solve on a PETSc matrix."""
    petsc, PETSc = import_module("bmrm.petsc"), import_module("petsc4py.PETSc")
    given = of_rank(record, at, "hinge", {})
    X = given["X"]
    sizes = ((X.shape[0], None), (None, X.shape[1]))
    if isinstance(X, np.ndarray):
        A = PETSc.Mat().createDense(sizes, array=X, comm=record.comm)
    else:
        csr = X.indptr.astype(PETSc.IntType), X.indices.astype(PETSc.IntType), X.data
        A = PETSc.Mat().createAIJ(sizes, csr=csr, comm=record.comm)
    A.assemble()
    y = PETSc.Vec().createWithArray(given["y"].copy(), comm=record.comm)
    w, result = petsc.solve(A, y, lam=at.options["lam"], weights=form, **record.common)
    pieces = record.comm.allgather(np.array(w.getArray()))
    return {
        "vector": bits(np.concatenate(pieces)),
        "objective": float(result.objective),
        "lower_bound": float(result.lower_bound),
        "status": str(result.status),
        "passes": int(result.n_iter),
    }


def products(record: Recorder, at: Problem) -> Fields:
    """Multiply by X and by X'X as PETSc's matrices, and take their norms."""
    petsc = import_module("bmrm.petsc")
    given = of_rank(record, at, "hinge", {})
    A = petsc.resident_mat(given["X"], comm=import_module("petsc4py.PETSc").COMM_WORLD, **record.common)
    w, margins = A.createVecs()
    normal, gradient, diagonal = petsc.normal_mat(A, shift=0.5), w.duplicate(), w.duplicate()
    first, last = w.getOwnershipRange()
    w.setArray(np.linspace(-1.0, 1.0, at.X.shape[1])[first:last])
    A.mult(w, margins)
    A.multTranspose(margins, gradient)
    found = {"margins": margins.copy(), "gradient": gradient.copy()}
    normal.mult(w, gradient)
    normal.getDiagonal(diagonal)
    found |= {"normal": gradient, "diagonal": diagonal}
    vectors = {
        name: bits(np.concatenate(record.comm.allgather(np.array(vector.getArray()))))
        for name, vector in found.items()
    }
    return {**vectors, "norms": [float(A.norm(kind)) for kind in (0, 2, 3)]}
