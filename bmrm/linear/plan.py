"""How a problem is solved: all automatic decisions of a solve, made in one place.

The decisions rest on `Facts`: sizes, and a few properties of loss, penalty and device. A backend finds them
for a problem in memory; ``bmrm-train --dry-run`` measures them while it streams the file. Both get the same
`Plan`, which the backends carry out. Most rules are in the modules that they concern (`solvers.newton`,
`solvers.dual_ascent`, `bundle.cuts_per_pass`); here they are applied in this order:

    Newton's steps  ->  ascent in the dual  ->  cuts per pass  ->  where weights and cuts live  ->  memory
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np

from bmrm.base.units import size_text
from bmrm.base.vectors import Vector
from bmrm.linear.bundle.cuts_per_pass import MAX_SHORT_BLOCKS, blocks_of, short_blocks
from bmrm.linear.intercept import Intercept
from bmrm.linear.memory import (
    AS_GIVEN,
    BundleSize,
    GpuMemory,
    MatrixSize,
    gpu_memory,
    host_memory,
    rank_memory,
)
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.solvers.dual_ascent import MAX_VALUES_PER_COLUMN, is_wide
from bmrm.linear.solvers.interior_rule import may_step
from bmrm.linear.solvers.newton import FINE_TOL, hessian_pays, newton_pays
from bmrm.linear.solvers.steps import FirstStep
from bmrm.losses import CallableLoss, JointLoss, Loss, ScalarLoss
from bmrm.matrix._cpu import MAX_ASCENT_ROWS_PER_COLUMN
from bmrm.matrix.adapted import MatrixAdapter

log = logging.getLogger("bmrm")

BackendName = Literal["host", "rows", "gpu", "ranks"]
WeightLayout = Literal["replicated", "owned"]

MAX_RELATIVE_LAM = 3e-4
"""Largest lam, as a share of the mean square of a row, at which ascent pays: for a larger one planes take so
few passes that they are faster. It does not apply to a few rows with kinks, which would have several planes
per pass."""

MAX_RELATIVE_LAM_OF_SEVERAL = 1.0
"""The same for a loss with several margins per row: planes learn of all classes together, and take dozens of
passes at any lam that leaves much to learn."""

MAX_COLUMN_RATIO = 1e9
"""Maximum mean square of a column, as a multiple of the median one; a larger column drowns the others in
products of rows. (In a million rows of text a common word has 1e6 times the mean square of one that occurs
once.)"""

CUTS_PER_FOLD = 300
"""Approximate number of cuts per fold in a shared bundle: each new cut needs an inner product with each."""

NO_INTERCEPT = Intercept(free=False, scaling=None)


@dataclass(frozen=True)
class Facts:
    """What the decisions rest on."""

    operator: MatrixAdapter
    """X of all processes, with a constant feature and several outputs if there are any."""
    size: MatrixSize  # of X in this process
    rows: int  # of all processes
    loss: Loss
    penalty: Regularizer  # only its kind and strength count
    intercept: Intercept = NO_INTERCEPT
    threads: int = 1
    device: Literal["cpu", "gpu"] = "cpu"  # where X is
    gpu: GpuMemory | None = None
    can_solve_on_gpu: bool = False  # weights, margins and cuts can be on the GPU with the matrix
    has_ascent: bool = True  # the matrix has coordinate ascent in the dual
    has_class_offsets: bool = False  # the rows have an offset for each of several classes
    in_lockstep: bool = False  # products are merged with those of other solves
    ranks: int | None = None  # processes that share the rows; None for a solve without MPI
    owned: bool = False  # each rank keeps some columns of the weights only
    rounds: bool = False  # sums are in float32
    split: str = ""  # which rows of X the CPU computes beside the GPU
    storage: str = AS_GIVEN  # why X has sparse or dense rows
    max_blocks: int | None = None  # blocks that the risk can be cut into; None for blocks of any rows
    row_square: Callable[[], float] | None = None
    """Returns the mean square of a row of X. None if that is not known: the plan then takes more memory."""
    column_squares: Callable[[], Vector] | None = None
    """Returns the mean square of each column of the operator, for one output; None likewise."""


class PlanOptions(NamedTuple):
    """The options of the user that a plan follows."""

    solver: str = "ocas"
    cuts_per_pass: int | str = "auto"
    max_cuts: int | None = None
    resumed_blocks: int | None = None  # cuts per pass of the checkpoint that the solve continues
    tol: float | None = None  # relative; None if it is absolute


@dataclass(frozen=True)
class Plan:
    """All decisions of a solve, and why.

    Examples
    --------
    >>> from bmrm.losses import get
    >>> from bmrm.linear.regularizers import L2
    >>> from bmrm.matrix._cpu import Matrix
    >>> X, size = MatrixAdapter(Matrix.from_dense(np.eye(3))), MatrixSize(3, 3, 9, 8, is_dense=True)
    >>> plan = make_plan(Facts(X, size, 3, get("logistic"), L2(0.1)), PlanOptions())
    >>> plan.backend, plan.step, plan.blocks
    ('host', 'newton', 1)
    """

    storage: Literal["sparse", "dense"]  # of the rows of X
    backend: BackendName
    """Where weights, margins and cuts live: in arrays, as combinations of rows
    (`bmrm.linear.backends.host.row_space`), on a GPU, or spread over several processes."""
    weights: WeightLayout
    step: FirstStep  # the kind of step that the solve begins with
    hessian: bool  # Newton's points on the host come from a Hessian, and not from conjugate gradients
    blocks: int  # cuts per pass
    intercept: str
    # Weights, margins and cuts are on the GPU; they are combinations of rows
    on_gpu: bool
    row_space: bool
    split_cuts: bool  # each rank keeps some columns of the cuts
    memory: Mapping[str, int]  # maximum number of bytes, by part
    reasons: Mapping[str, str]  # the reason for each decision

    def lines(self) -> list[str]:
        """Return a line per decision, with its reason."""
        parts = ", ".join(f"{part} {size_text(count)}" for part, count in self.memory.items())
        values = {
            "storage": self.storage,
            "backend": self.backend,
            "weights": self.weights,
            "first steps": self.step,
            "cuts per pass": str(self.blocks),
            "intercept": self.intercept,
            "memory": size_text(sum(self.memory.values())),
        }
        reasons = {**self.reasons, "memory": f"at most, of which {parts}"}
        return [f"{name:<13}  {value}: {reasons[name]}" for name, value in values.items()]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def log(self) -> None:
        """Write the lines to the package's log, at level DEBUG."""
        if log.isEnabledFor(logging.DEBUG):
            for line in self.lines():
                log.debug("plan: %s", line)


T = TypeVar("T")


class Decision(NamedTuple, Generic[T]):
    """A decision and its reason."""

    value: T
    reason: str


def make_plan(facts: Facts, options: PlanOptions) -> Plan:
    """Make all decisions of a solve.

    Raise `ParameterError` if the problem does not allow the number of cuts per pass.
    """
    step = _first_step(facts, options)
    newton = step.value == "newton"
    blocks = _cuts_per_pass(facts, options, step.value)
    on_gpu = _may_be_on_gpu(facts) and (facts.max_blocks is None or blocks.value == 1)
    row_space = options.resumed_blocks is None and _in_row_space(facts, blocks.value, newton=newton)
    backend = _backend(facts, on_gpu=on_gpu, row_space=row_space)
    split = f"; {facts.split}" if facts.split else ""
    weights = _weight_layout(facts)
    intercept = _intercept(facts)
    split_cuts = _splits_cuts(facts, options, newton=newton)
    ascent = step.value == "ascent"
    return Plan(
        "dense" if facts.size.is_dense else "sparse",
        backend.value,
        weights.value,
        step.value,
        _forms_hessian(facts, options),
        blocks.value,
        intercept.value,
        on_gpu,
        row_space,
        split_cuts,
        _memory(facts, options, blocks.value, ascent=ascent, row_space=row_space, split_cuts=split_cuts),
        reasons={
            "storage": facts.storage,
            "backend": backend.reason + split,
            "weights": weights.reason,
            "first steps": step.reason,
            "cuts per pass": blocks.reason,
            "intercept": intercept.reason,
        },
    )


def _first_step(facts: Facts, options: PlanOptions) -> Decision[FirstStep]:
    if options.solver != "ocas":
        return Decision("cuts", f"solver {options.solver} takes cuts alone")
    newton = _newton(facts, options)
    if newton.value:
        return Decision("newton", newton.reason)
    ascent = _ascent(facts, options)
    return Decision("ascent" if ascent.value else "cuts", f"{ascent.reason}; {newton.reason}")


def _newton(facts: Facts, options: PlanOptions) -> Decision[bool]:
    if facts.owned:
        return Decision(False, "Newton's steps need all weights on each rank")
    if newton_pays(facts.operator, facts.rows, facts.loss, facts.penalty):
        if hessian_pays(facts.operator):
            return Decision(True, "X is so narrow that a Hessian costs less than the passes that it saves")
        return Decision(True, "conjugate gradients take few products for a Newton step")
    if _fine_hessian_pays(facts, options):
        return Decision(True, "at so fine a tolerance a Hessian costs less than the passes that it saves")
    return Decision(False, "Newton's steps would cost more than the passes that they save")


def _forms_hessian(facts: Facts, options: PlanOptions) -> bool:
    """Whether Newton's points, if there are any, come from a Hessian."""
    if hessian_pays(facts.operator):
        return True
    by_products = newton_pays(facts.operator, facts.rows, facts.loss, facts.penalty)
    return not by_products and _fine_hessian_pays(facts, options)


def _fine_hessian_pays(facts: Facts, options: PlanOptions) -> bool:
    """Whether a Hessian pays because the tolerance is fine."""
    fine = options.tol is not None and options.tol < FINE_TOL
    return fine and facts.loss.smooth and hessian_pays(facts.operator, fine=True)


def _ascent(facts: Facts, options: PlanOptions) -> Decision[bool]:
    """Decide on ascent in the dual, given that Newton's steps do not pay."""
    if options.cuts_per_pass != "auto":
        return Decision(False, "the number of cuts per pass is given")
    if facts.intercept.free and facts.loss.several:
        return Decision(False, "ascent in the dual does not know intercepts of several classes")
    if options.resumed_blocks not in (None, 1):
        return Decision(False, "the checkpoint has several cuts per pass")
    if facts.ranks is not None:
        return Decision(False, "ascent in the dual does not run on several ranks")
    if facts.has_class_offsets:
        return Decision(False, "ascent in the dual takes no offsets of several classes")
    if gpu_ascent_pays(facts) if _may_be_on_gpu(facts) else ascent_pays(facts):
        return Decision(True, "X is wide: rows hardly disturb each other in the dual")
    return Decision(False, "ascent in the dual would take longer than cuts, or the problem does not allow it")


def ascent_pays(facts: Facts) -> bool:
    """Whether a solve on the CPU that takes no Newton steps begins with ascent in the dual.

    With several margins per row it takes a small part of the work of planes, which no number of threads makes
    up for.
    """
    loss, size = facts.loss, facts.size
    one_margin = facts.operator.n_outputs == 1
    threads = facts.threads if one_margin else 1
    if not (loss.has_dual and facts.penalty.plain and facts.has_ascent):
        return False
    quick = loss.smooth and facts.in_lockstep
    if not is_wide((size.rows, size.columns), size.nnz, facts.operator.n_outputs, threads, quick=quick):
        return False
    # Planes would be several per pass, and full.
    if loss.kinked and short_blocks(facts.operator, size.rows, MAX_SHORT_BLOCKS):
        return True
    if facts.row_square is None:
        return True
    largest = MAX_RELATIVE_LAM if one_margin else MAX_RELATIVE_LAM_OF_SEVERAL
    return facts.penalty.lam <= largest * facts.row_square()


def gpu_ascent_pays(facts: Facts) -> bool:
    """Whether a solve on a GPU under plain l2 begins with ascent in the dual.

    It does not with an intercept of either kind, which ties all rows together.
    """
    m, d = facts.operator.shape
    alone = facts.operator.n_outputs == 1 and facts.intercept == NO_INTERCEPT
    sparse = alone and not facts.size.is_dense
    return (
        facts.loss.has_dual
        and sparse
        and m <= MAX_ASCENT_ROWS_PER_COLUMN * d
        and facts.operator.nnz <= MAX_VALUES_PER_COLUMN * d
    )


def _cuts_per_pass(facts: Facts, options: PlanOptions, step: FirstStep) -> Decision[int]:
    """Decide how many blocks of rows have a cut of their own."""
    asked, reason = options.cuts_per_pass, "as given"
    if asked == "auto" and options.resumed_blocks is not None:
        asked, reason = options.resumed_blocks, "as in the checkpoint"
    elif asked == "auto" and step == "ascent":
        asked, reason = 1, "ascent in the dual makes one"
    newton, loss = step == "newton", facts.loss
    several_pay = (
        options.solver == "ocas"
        and facts.penalty.name == "l2"
        and (not newton or loss.kinked)
        and facts.device == "cpu"
    )
    found = blocks_of(
        asked,
        facts.operator,
        loss,
        facts.rows,
        several_pay=several_pay,
        profile=facts.intercept.free,
        newton=newton,
        max_cuts=options.max_cuts,
        most=facts.max_blocks,
    )
    if asked == "auto":
        reason = "more would cost more than they save" if found == 1 else "they save passes and cost little"
    return Decision(found, reason)


def _may_be_on_gpu(facts: Facts) -> bool:
    if not (facts.can_solve_on_gpu and facts.penalty.plain):
        return False
    alone, loss = facts.ranks is None, facts.loss
    if isinstance(loss, CallableLoss):
        return loss.arrays != "numpy" and alone
    return isinstance(loss, ScalarLoss) or (isinstance(loss, JointLoss) and alone)


def _in_row_space(facts: Facts, blocks: int, *, newton: bool) -> bool:
    return (
        facts.ranks is None
        and facts.penalty.plain
        and blocks == 1
        and not newton
        and row_space_pays(*facts.operator.shape)
        and (facts.rounds or facts.column_squares is None or is_even(facts.column_squares()))
    )


def row_space_pays(rows: int, columns: int) -> bool:
    """Whether a cut takes less memory as coefficients of rows than as its gradient."""
    return 2 * rows < columns


def is_even(mean_squares: Vector) -> bool:
    """Whether no column is so large that it drowns the others in products of rows.

    In the space of rows, squares of weights come from such products. If the terms of a large column cancel
    there, only rounding is left of the others.
    """
    present = mean_squares[mean_squares > 0.0]
    return not len(present) or float(present.max()) <= MAX_COLUMN_RATIO * float(np.median(present))


def _backend(facts: Facts, *, on_gpu: bool, row_space: bool) -> Decision[BackendName]:
    rows = ", as combinations of rows" if row_space else ""
    if facts.ranks is not None:
        where = "GPUs" if on_gpu else "CPUs"
        return Decision("ranks", f"the rows are spread over {facts.ranks} processes, on {where}")
    if on_gpu:
        return Decision("gpu", f"X is on the GPU, and so are weights and cuts{rows}")
    if row_space:
        return Decision("rows", "X has few rows: combinations of rows are shorter than weights")
    if facts.device == "gpu":
        return Decision("host", "X is on the GPU, but this loss or penalty is evaluated on the CPU")
    return Decision("host", "X is in main memory")


def _splits_cuts(facts: Facts, options: PlanOptions, *, newton: bool) -> bool:
    """Whether each of several ranks keeps some columns of the cuts.

    Newton's and interior points need whole gradients, and so do penalties that are minimised on whole cuts;
    each rank then solves the same inner problem.
    """
    if facts.ranks is None or facts.owned:
        return facts.owned
    few = facts.operator.shape[1] < facts.ranks
    plain = facts.penalty.plain
    interior = may_step(facts.operator, facts.loss, facts.penalty)
    return options.solver == "ocas" and plain and not (newton or interior or few)


def _weight_layout(facts: Facts) -> Decision[WeightLayout]:
    """Name how ranks keep the weights: `bmrm.distributed.weight_layout` has decided it before X was read."""
    if facts.owned:
        return Decision("owned", "each rank keeps some columns of the weights")
    return Decision("replicated", "one process" if facts.ranks is None else "each rank has all weights")


def _intercept(facts: Facts) -> Decision[str]:
    free, scaling = facts.intercept
    if free:
        return Decision("free", "it is not penalised, and is minimised out")
    if scaling is not None:
        return Decision("constant column", f"it is penalised: the weight of a feature of value {scaling:g}")
    return Decision("none", "none is asked for")


def _memory(
    facts: Facts, options: PlanOptions, blocks: int, *, ascent: bool, row_space: bool, split_cuts: bool
) -> dict[str, int]:
    bundle, size, n_outputs = BundleSize(options.max_cuts, blocks), facts.size, facts.operator.n_outputs
    joint = isinstance(facts.loss, JointLoss)
    if facts.gpu is not None:
        return gpu_memory(facts.gpu, size, n_outputs, bundle, row_space=row_space)
    if facts.ranks is None:
        return host_memory(size, n_outputs, bundle, joint=joint, ascent=ascent, row_space=row_space)
    return rank_memory(
        size,
        facts.operator.shape[1] - facts.intercept.n_penalised(n_outputs),
        n_outputs,
        facts.ranks,
        bundle,
        joint=joint,
        owned=facts.owned,
        split_cuts=split_cuts,
    )


def shared_cuts_pay(loss: Loss, folds: int, features: int, stored: int) -> bool:
    """Whether cuts that hold for all folds of a cross validation save more than they cost.

    They cost entries of their Gram matrix, and save passes over X.
    """
    return loss.by_rows and not loss.several and folds * CUTS_PER_FOLD * features <= stored
