"""What a solve reuses of earlier ones: a first point, a prior mean, cuts, a checkpoint."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bmrm.base.arguments import check_finite, numbers
from bmrm.base.columns import check_names
from bmrm.base.units import finite_or_none, number_text
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, ParameterError
from bmrm.io.csr import check_numbering
from bmrm.linear.backends.base import Backend
from bmrm.linear.backends.choose import backend_of
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.intercept import Intercept
from bmrm.linear.models import checkpoint as checkpoints
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.models.model import Model
from bmrm.linear.objective.passes import DesignOperator
from bmrm.linear.plan import Plan
from bmrm.linear.problem import TrainingProblem
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.result import Result
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.linear.solvers.progress import Progress
from bmrm.losses import CallableLoss, Loss
from bmrm.matrix.checksums import MODULUS, array_checksum, format_checksum
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples

log = logging.getLogger("bmrm")

SAME_OBJECTIVE = 1e-6
"""Difference of objectives that rounding may make, relative to the numbers that they are sums of."""


def prior_mean(
    prior: Model | Result | Any, data: Dataset | Examples, operator: DesignOperator, columns: tuple[int, ...]
) -> Any:
    """Return the prior mean of the weights, and of intercepts that are penalised."""
    if not isinstance(prior, (Result, Model)):
        return prior
    check_numbering("prior", prior.zero_based, data.zero_based)
    check_names("prior", data.feature_names, prior.feature_names)
    if prior.w.shape[1:] != columns:
        wanted = f"{columns[0]} numbers" if columns else "a number"
        raise DataError(f"prior: found weights of shape {prior.w.shape}, expected {wanted} per feature")
    return operator.join(prior.w, prior.intercept)


def first_point(
    warm_start: Result | Model | Checkpoint | Vector | None,
    operator: DesignOperator,
    d: int,
    reg: Regularizer,
    columns: tuple[int, ...],
) -> Vector:
    """Choose the first point, of d weights."""
    if warm_start is None:
        return reg.start(d)
    shape = (d // columns[0], *columns) if columns else (d,)
    if isinstance(warm_start, (Result, Model, Checkpoint)):
        found = warm_start.model if isinstance(warm_start, Checkpoint) else warm_start
        w = found.w
        if w.ndim == len(shape) and w.shape[1:] == columns:
            w = operator.join(w, found.intercept).reshape(-1, *columns)
    else:
        w = numbers("warm_start", warm_start, each="feature", expected="a Result, a Model or weights")
    name = warm_start.path if isinstance(warm_start, Checkpoint) else "warm_start"
    if w.shape != shape:
        raise DataError(f"{name}: found weights of shape {w.shape}, expected {shape} finite numbers")
    check_finite(name, w, each="feature")
    return reg.project(w.flatten())


class Same:
    """A wrapper that compares objects by identity, whatever their own equality."""

    def __init__(self, thing: object) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)


@dataclass(frozen=True)
class Origin:
    """The problem whose risk the cuts of a bundle bound.

    They can be used by another solve only if all compared attributes are equal.
    """

    data: Dataset | Examples
    pieces: tuple[Same, ...]
    """The arrays of the data that the solve used. The data set may have been given others since."""
    loss_key: object
    intercept: Intercept
    # Of the `Plan`
    on_gpu: bool
    row_space: bool
    metric_key: object
    loss: Loss = field(compare=False)  # `loss_key` identifies it
    penalty: tuple[object, ...] = field(compare=False)
    """Identifies the penalty, lam included; cuts hold for any penalty."""
    checksums: Mapping[str, str] = field(compare=False)  # of the penalty's vectors
    # The certificate of the solve. That of the `Result` may be wider, to cover values before they were
    # rounded.
    objective: float = field(compare=False, default=np.inf)
    lower_bound: float = field(compare=False, default=-np.inf)
    radius: float = field(compare=False, default=np.inf)
    """How far from the prior mean that bound covers features without a penalty."""

    def ended(self, objective: float, lower_bound: float, radius: float) -> Origin:
        """Return the same with a certificate."""
        return dataclasses.replace(self, objective=objective, lower_bound=lower_bound, radius=radius)

    def is_of_same_problem(self, other: object) -> bool:
        """Whether a bound of the other problem is one of this problem, to the last bit of lam."""
        return isinstance(other, Origin) and all(
            getattr(self, name) == getattr(other, name)
            for name in ("data", "pieces", "loss_key", "intercept", "penalty")
        )

    @functools.cached_property
    def of_data(self) -> dict[str, str]:
        """Checksums of the data and of the penalty's vectors; all ranks must call this at the same time.

        Raise `ParameterError` if the cuts are of examples of a structured loss, or the data set has been
        given other labels, weights, offsets or groups since.
        """
        if isinstance(self.data, Examples):
            raise ParameterError("checkpoint: a structured loss has none, its examples have no checksum")
        if pieces_of(self.data) != self.pieces:
            raise ParameterError(
                "checkpoint: labels, weights, offsets or groups of the data set have changed since"
            )
        labels, _ = backend_of(self.data).labels(self.loss)
        return {**of_data(self.data, labels, self.loss), **self.checksums}


def origin_of(problem: TrainingProblem, plan: Plan) -> Origin:
    """Return the origin of the cuts that a plan makes."""
    return Origin(
        problem.data,
        pieces_of(problem.data),
        problem.loss.key,
        problem.intercept,
        plan.on_gpu,
        plan.row_space,
        problem.metric_key,
        loss=problem.loss,
        penalty=problem.penalty_key,
        checksums=problem.checksums,
    )


def pieces_of(data: Dataset | Examples) -> tuple[Same, ...]:
    """Return the arrays of the data that a solve uses."""
    return tuple(map(Same, (data.matrix, data.y, data.weights, data.offset, data.groups)))


def checksums_of(reg: Regularizer) -> dict[str, str]:
    """Return the checksums of the vectors that a penalty was given."""
    return {what: format_checksum(array_checksum(vector)) for what, vector in reg.vectors.items()}


def penalty_key(reg: Regularizer, checksums: Mapping[str, str]) -> tuple[object, ...]:
    """Return what distinguishes a penalty from others; the checksums are those of its vectors."""
    return reg.name, reg.lam, tuple(sorted(reg.params.items())), tuple(sorted(checksums.items()))


def metric_key(reg: Regularizer) -> str | None:
    """Return what distinguishes the metric of a penalty for products of cuts; None if there is none."""
    if reg.metric is None:
        return None
    import hashlib  # slow to load, and most penalties have no metric

    return hashlib.sha256(reg.metric.tobytes()).hexdigest()


def problem_of(state: Progress | Result) -> checkpoints.Problem:
    """Describe the problem of a solve, for a checkpoint; all ranks must call this at the same time.

    Raise `ParameterError` if it is not known, or its data have no checksums.
    """
    # A later solve may have gone on with the cuts of a result.
    origin = state.origin if isinstance(state, Result) else state.bundle.origin
    if not isinstance(origin, Origin):
        raise ParameterError("checkpoint: found cuts of unknown data, expected those of a solve")
    checksums = origin.of_data  # computed once per solve
    if isinstance(state, Progress):
        origin = origin.ended(state.objective, state.lower_bound, state.bundle.radius)
    return _problem(origin, state.bundle, checksums)


def _problem(origin: Origin, bundle: Bundle, checksums: Mapping[str, str]) -> checkpoints.Problem:
    data = origin.data
    return checkpoints.Problem(
        n_samples=data.shape[0],
        nnz=data.nnz,
        blocks=bundle.groups,
        free_intercept=origin.intercept.free,
        intercept_scaling=origin.intercept.scaling,
        checksums=checksums,
        stored=data.stored if isinstance(data, Dataset) else "float64",
        resolution=data.resolution,
        radius=finite_or_none(origin.radius),
        merges=bundle.merges,
        objective=finite_or_none(origin.objective),
        lower_bound=finite_or_none(origin.lower_bound),
    )


def warm_bundle(warm_start: object, origin: Origin, blocks: int) -> Bundle | None:
    """Return the cuts of an earlier result if they still hold; None if they do not.

    They are copies, unless they were passed on, or their store hands them over.
    """
    if not isinstance(warm_start, Result):
        return None
    known = warm_start.bundle
    if known.origin != origin or known.groups != blocks or not len(known):
        return None
    return known if known.passed_on or known.store.hands_over else known.only(np.arange(len(known)))


class End(NamedTuple):
    """Where an earlier run of the same problem ended."""

    name: str  # its name in messages
    n_iter: int  # to count on from
    lam: float
    objective: float
    lower_bound: float
    intercept: float | Vector
    resolution: float  # share of the objective that rounding may change
    radius: float  # how far from the prior mean the bound covers features without a penalty


def earlier_end(
    warm_start: object, origin: Origin, bundle: Bundle, backend: Backend, reg: Regularizer
) -> End | None:
    """Return where an earlier run of the same problem ended; fill the bundle with the cuts of a checkpoint.

    None if there is no such run, or if its end cannot be trusted.

    Raise `ParameterError` or `DataError` if a checkpoint is of another problem, or of other data.
    """
    if isinstance(warm_start, Checkpoint):
        return _of_checkpoint(warm_start, origin, bundle, backend, reg)
    if not isinstance(warm_start, Result) or not origin.is_of_same_problem(warm_start.origin):
        return None
    return End(
        "warm_start",
        0,
        warm_start.lam,
        warm_start.origin.objective,
        warm_start.origin.lower_bound,
        warm_start.intercept,
        origin.data.resolution,
        warm_start.origin.radius,
    )


def _of_checkpoint(
    checkpoint: Checkpoint, origin: Origin, bundle: Bundle, backend: Backend, reg: Regularizer
) -> End | None:
    problem, then = _problem(origin, bundle, origin.of_data), checkpoint.problem
    checkpoint.check(problem, origin.data.shape[1], origin.loss, reg)
    doubt = checkpoint.doubt(own_loss=isinstance(origin.loss, CallableLoss))
    if doubt:
        if backend.prints:
            log.warning("%s: goes on from its weights alone: %s", checkpoint.path, doubt)
        return None
    certificate = checkpoint.model.certificate
    if certificate is None:
        raise DataError(f"{checkpoint.path}: has no certificate, expected that of a checkpoint")
    if then.resolution <= problem.resolution:  # otherwise the old cuts are rounded more than new ones
        backend.restore(bundle, checkpoint)
        bundle.merges = then.merges
    # The effect of rounding in float32 products is measured at the end of a solve.
    measured = not then.resolution or certificate.status != "running"
    bounds = [certificate.lower_bound if not certificate.rounding else None, then.lower_bound]
    bound = max((known for known in bounds if known is not None), default=-np.inf)
    return End(
        checkpoint.path,
        certificate.n_iter,
        checkpoint.model.lam,
        certificate.objective if then.objective is None else then.objective,
        bound if measured else -np.inf,
        checkpoint.model.intercept,
        max(then.resolution, problem.resolution),
        np.inf if then.radius is None else then.radius,
    )


def continue_run(run: BundleMethod, end: End) -> None:
    """Continue from where another run ended; raise if the objective shows that the data differ."""
    state = run.state
    given, kept = state.given, state.best is state.given
    assert given is not None
    if run.objective.profile:
        given = run.objective.with_intercept(given, end.intercept)
        state.best = given if kept else state.best
    then, now = end.objective, given.objective
    # The objective may be only the rounding of far larger numbers; the offsets of cuts are large then.
    size = max(abs(then), abs(now), float(np.abs(run.bundle.offsets).max(initial=0.0)))
    # A better free intercept may be found now.
    change = now - then if run.objective.profile else abs(now - then)
    if not change <= max(SAME_OBJECTIVE, 10.0 * end.resolution) * size:
        raise DataError(
            f"{end.name}: has the objective {number_text(then)}, found {number_text(now)}: of other data"
        )
    bound, lam = end.lower_bound, run.objective.reg.lam
    if end.lam > lam:
        # They differ by rounding. At the optimum the penalty is at most J minus the least risk.
        bound -= (end.lam - lam) / lam * (now - run.bundle.floor)
    state.resume(end.n_iter, bound, end.radius)


def of_data(data: Dataset, labels: Vector, loss: Loss) -> dict[str, str]:
    """Return the checksums of the data that a loss uses; all ranks must call this at the same time.

    They are those of ``X``, ``labels`` (coded for the loss) and ``weights``; of ``offset`` if there is one,
    of ``groups`` if the loss needs them, and of ``costs`` if it has any.
    """
    first, m = data.first_row, len(labels)
    numbers = {
        "X": data.entries(),
        "labels": array_checksum(labels, first),
        "weights": array_checksum(np.ones(m) if data.weights is None else data.weights, first),
    }
    if data.offset is not None:
        numbers["offset"] = array_checksum(data.offset, first)
    if loss.needs_groups and data.groups is not None:
        numbers["groups"] = array_checksum(data.groups, first)
    if data.group is not None:
        of_ranks = data.group.everyones(numbers)
        numbers = {name: sum(part[name] for part in of_ranks) % MODULUS for name in numbers}
    costs = getattr(loss, "costs", None)
    if costs is not None:
        numbers["costs"] = array_checksum(costs)
    return {name: format_checksum(number) for name, number in numbers.items()}
