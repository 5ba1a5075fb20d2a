"""`solve`: turns data and options into a run of the outer loop, and its end into a `Result`."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from bmrm import losses
from bmrm.base.interrupts import HELD, interruptible, set_signal_mode
from bmrm.base.labels import Labels
from bmrm.base.vectors import Vector
from bmrm.errors import BmrmError, Interrupted, ParameterError
from bmrm.linear import regularizers
from bmrm.linear.backends.base import Backend
from bmrm.linear.backends.choose import backend_of
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.cuts_per_pass import asked_cuts, oracle_cuts
from bmrm.linear.inputs import (
    Options,
    check_keywords,
    choose_weight_layout,
    local_rows,
    make_dataset,
    make_group,
)
from bmrm.linear.intercept import Intercept, intercept_of, operator_of
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.models.model import Model
from bmrm.linear.objective.error_bounds import extent_of, watch
from bmrm.linear.objective.objective import Objective
from bmrm.linear.plan import Plan, PlanOptions, make_plan
from bmrm.linear.problem import TrainingProblem
from bmrm.linear.result import Result
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.linear.solvers.progress import Progress, Status
from bmrm.linear.solvers.settings import SMALLEST_TOL, Callback, Settings, absolute_tol
from bmrm.linear.warm_start import (
    Origin,
    checksums_of,
    continue_run,
    earlier_end,
    first_point,
    metric_key,
    origin_of,
    penalty_key,
    prior_mean,
    warm_bundle,
)
from bmrm.losses import Loss
from bmrm.losses.offset import margin_offsets
from bmrm.matrix.adapted import MatrixAdapter, StackedIdentity
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples
from bmrm.matrix.overflow import explain_overflow
from bmrm.matrix.row_weights import ClassWeight, lam_from_c

if TYPE_CHECKING:
    from bmrm.linear.precision import RoundedProblem

Reg: TypeAlias = Literal["l2", "l1", "elastic_net"]
TolKind: TypeAlias = Literal["rel", "abs"]
Solver: TypeAlias = Literal["ocas", "bmrm"]
WeightLayout: TypeAlias = Literal["auto", "replicated", "owned"]
Device: TypeAlias = Literal["auto", "cpu", "cuda"] | str
"""The names, for completion; "cuda:N" is a device, too."""


@interruptible
def solve(
    X: Any,
    y: Any = None,
    loss: str | Loss = "hinge",
    reg: Reg = "l2",
    lam: float | None = None,
    *,
    C: float | None = None,
    l1_ratio: float | None = None,
    positive: bool = False,
    feature_lambda: Any = None,
    prior: Model | Result | Any = None,
    sample_weight: Any = None,
    class_weight: ClassWeight | None = None,
    offset: Any = None,
    groups: Any = None,
    fit_intercept: bool = False,
    penalize_intercept: bool = False,
    intercept_scaling: float = 1.0,
    tol: float = 1e-3,
    tol_kind: TolKind = "rel",
    max_iter: int = 10_000,
    max_time: float = np.inf,
    warm_start: Result | Model | Checkpoint | Vector | None = None,
    solver: Solver = "ocas",
    cuts_per_pass: int | Literal["auto"] = "auto",
    max_cuts: int | None = None,
    device: Device = "auto",
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    gpu_mem: int | str | None = None,
    cpu_share: float | str | None = None,
    comm: Any = None,
    weights: WeightLayout = "auto",
    callback: Callback | None = None,
    verbose: int = 0,
    **loss_params: Any,
) -> Result:
    """Minimise a penalty plus the mean loss, and certify the answer.

    The objective is ``lam Omega(w) + sum_i s_i loss(x_i . w + b + o_i, y_i) / sum_i s_i``.

    Parameters
    ----------
    X : Dataset, bmrm.io.Data, Csr, scipy sparse matrix, ndarray, PETSc.Mat of shape (n_samples, n_features)
        A `bmrm.io.Data` brings labels, groups and offsets with it, unless others are given. If reading has
        rounded its values to float32, the certificate holds for the numbers of the file all the same:
        ``rounding`` of the result is the part of the gap that this takes. The status is "precision" if it
        takes more than ``tol``; see also `bmrm.solve_file`.
        A PETSc matrix (AIJ, dense), with a PETSc vector of labels, is trained on all its ranks.
        A `Dataset` brings labels, weights, offsets, device, type and threads with it; none of them may be
        given again.
        For a structured loss a sequence of inputs, or `bmrm.Examples`.
    y : array_like of shape (n_samples,), optional
        Labels; see `Dataset`.
    loss : str or Loss, default "hinge"
        One of `bmrm.losses.NAMES`, a `bmrm.losses.CallableLoss`, or a `bmrm.losses.Structured`.
    reg : {"l2", "l1", "elastic_net"}, default "l2"
        ``Omega(w)``: ``|w|^2 / 2``, ``|w|_1``, or ``l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2``.
    lam : float, default 1e-4
        Strength of the regulariser, positive.
    C : float, optional
        Inverse strength as in LIBLINEAR, instead of ``lam``: ``lam = 1 / (C sum_i s_i)``. C multiplies a sum
        over rows. So multiplying all weights by k is the same as multiplying C by k, while with a given
        ``lam`` it changes nothing.
    l1_ratio : float, optional
        Share of the l1 norm in the elastic net, 0 to 1; default 0.5.
    positive : bool, default False
        Keep the weights, but not an intercept, at least 0.
    feature_lambda : array_like of shape (n_features,), optional
        A factor of lam for each feature, in every class, at least 0. A feature with 0 is not penalised; the
        certificate then covers weights up to ``bmrm.linear.regularizers.RADIUS`` away from the prior mean,
        and up to four times as far as the answer's if that is more.
    prior : Model, Result or array_like of shape (n_features,) or (n_features, K), optional
        Regularise towards these weights: ``Omega(w - prior)``. They are where the solve starts, too, unless
        ``warm_start`` says otherwise.
    sample_weight, class_weight, offset, groups, device, dtype, threads, gpu_mem, cpu_share
        See `Dataset`.
    fit_intercept : bool, default False
        Add an intercept b to every margin, one for each class if there are several. It is not penalised, and
        is minimised out exactly.
    penalize_intercept : bool, default False
        With ``fit_intercept``: make it the weight of a constant feature of value ``intercept_scaling``,
        penalised like all others.
    intercept_scaling : float, default 1.0
    tol : float, default 1e-3
        End when the certified gap is at most ``tol * |objective|`` (``tol_kind="rel"``) or ``tol`` ("abs").
        If the optimum is 0 as far as float64 shows, so that no gap is a share of it, "rel" is a share of
        the mean loss at w = 0 and b = 0, or of 1 if that is 0; see "What the certificate rests on" in
        docs/algorithm.md.
    tol_kind : {"rel", "abs"}, default "rel"
    max_iter : int, default 10000
        Maximum number of passes over the data.
    max_time : float, default inf
        Maximum number of seconds.
    warm_start : Result, Model, Checkpoint or ndarray of shape (n_features,) or (n_features, K), optional
        Where to start. A `bmrm.Checkpoint` of the same problem continues from where it was
        written, on any number of ranks. A `Result` of the same `Dataset` object, loss and kind of intercept
        also brings a copy of its cuts, whatever its lam, and with the same lam and penalty its bound. The
        result is then no worse than either. If their gap is within ``tol``, no pass is made.
    solver : {"ocas", "bmrm"}, default "ocas"
        "bmrm" is the bundle method as published; "ocas" adds an exact line search and needs far fewer passes.
    cuts_per_pass : int or "auto", default "auto"
        Number of blocks of rows that get their own cut in each pass. "auto": 4 to 32 if the extra Gram
        entries are cheap compared with the passes that they save, else 1; 64 with a structured loss. On wide
        rows, as of text, "auto" also lets the solve begin in the dual. Always 1 with an unpenalised
        intercept, and for a loss that is not a sum over rows, or over groups of consecutive rows.
    max_cuts : int, optional
        Maximum number of cuts kept; default: as many as fit in 1 GiB, at most 2000.
    comm : mpi4py.MPI.Comm or PETSc.Comm, optional
        Train on all its ranks: each calls `solve` with its own rows in ``X``, ``y``, ``sample_weight`` and
        ``offset`` and with the same options, and gets the same result. See `bmrm.distributed.Shard`.
    weights : {"auto", "replicated", "owned"}, default "auto"
        With ``comm``: how weights are stored across ranks. "replicated" gives every rank all weights;
        "owned" gives each rank some columns of them, and works only for l2 penalties without ``positive``, on
        CPUs. "auto" is "owned" if that pays: from 250 000 columns on, or from 1000 with ``feature_lambda`` or
        ``prior``. Either way all ranks get all weights of the result. With "owned", call `Progress.best` on
        all ranks at the same time.
    callback : callable, optional
        Called with a `Progress` after each iteration; a true return value ends the solve with status
        "interrupted".
    verbose : int, default 0
        1 prints a line per iteration; 2 also prints the plan before the first one: how the problem is solved,
        and why.
    **loss_params
        The loss's parameter: one of `bmrm.losses.PARAMETERS`; ``costs`` for ``multiclass``.

    Returns
    -------
    Result

    Raises
    ------
    ParameterError
        If an argument is unknown or out of its range, or lam and C are both given; or if reading has rounded
        values, and the loss has no certificate for that.
    DataError
        If data, labels or weights cannot be used, see `Dataset`; or if a checkpoint is damaged or of other
        data.
    Interrupted
        On Ctrl-C, at the end of the iteration; on a second Ctrl-C, at once. Its ``result`` is the best model
        so far, with its certificate, or None if training had not begun.

    References
    ----------
    Teo, Vishwanathan, Smola, Le, JMLR 11 (2010) 311. Franc, Sonnenburg, JMLR 10 (2009) 2157. Zou, Hastie,
    J. R. Stat. Soc. B 67 (2005) 301 (the elastic net).

    Examples
    --------
    >>> import numpy as np, bmrm
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    >>> result = bmrm.solve(X, [1, 1, -1], lam=0.1, tol=1e-6)
    >>> result.status, result.gap <= 1e-6 * result.objective
    ('converged', True)
    >>> result.predict(X)
    array([ 1,  1, -1])
    """
    arguments = locals() | loss_params
    del arguments["loss_params"]
    check_keywords(loss_params, "solve")
    options = Options.of(arguments)
    X, y, comm = local_rows(X, y, comm)
    if comm is not None or getattr(X, "group", None) is not None:
        set_signal_mode(HELD)  # a signal before the first iteration would leave the other ranks waiting
    comm = make_group(X, comm, arguments)
    loss = losses.get(loss, **loss_params)
    data, began = _make_data(X, y, loss, comm, options), time.perf_counter()
    run = functools.partial(_run, data, loss, backend_of(data))
    found = run(options)
    if found.rows is not None:
        found = _with_room_for_rounding(found, run, options, began)
    if found.interrupted:
        raise Interrupted(found.result)
    return found.result


class _Run(NamedTuple):
    """A run of the outer loop."""

    result: Result  # its certificate is for the numbers of the file that X was read from
    interrupted: bool = False
    rows: RoundedProblem | None = None  # if reading has rounded values
    had_room: bool = False  # rounding alone has made the gap too wide


def _run(
    data: Dataset | Examples, loss: Loss, backend: Backend, options: Options, tol: float | None = None
) -> _Run:
    """Solve a problem; ``tol`` is that of the certificate if it is not that of the solve."""
    # 1. The problem: data, loss, penalty, intercept
    problem = make_problem(data, loss, backend, options)
    rows = None
    if isinstance(data, Dataset) and data.rounded:
        from bmrm.linear.precision import RoundedProblem  # few solves need it

        rows = RoundedProblem(problem, options.tol if tol is None else tol)
    settings = _make_settings(options, data, rows, prints=backend.prints)

    # 2. The plan: all decisions
    start = options.warm_start
    resumed = start.problem.blocks if isinstance(start, Checkpoint) else None
    relative_tol = options.tol if options.tol_kind == "rel" else None
    asked = PlanOptions(options.solver, problem.cuts_per_pass, options.max_cuts, resumed, relative_tol)
    plan = make_plan(backend.facts(problem), asked)
    if backend.prints:
        plan.log()
        if options.verbose > 1:
            print(plan)

    # 3. The objective and the bundle, with the cuts that an earlier solve has left
    origin = origin_of(problem, plan)
    objective, bundle = _build(problem, plan, backend, origin, options)
    earlier = earlier_end(start, origin, bundle, backend, problem.penalty)
    if earlier is not None and problem.intercept.free:
        objective.expect(earlier.intercept)

    # 4. The run
    try:
        run = backend.run(objective, bundle, settings, problem, plan)
        if earlier is not None:
            continue_run(run, earlier)
        run.minimise()
    except BmrmError as fault:
        raise explain_overflow(fault, data, problem.labels) from None

    # 5. The result
    result = result_of(run, data, problem.labels, problem.classes)
    ended = origin.ended(result.objective, result.lower_bound, run.state.model.radius)
    result = dataclasses.replace(result, origin=ended)
    if rows is None:
        return _Run(result, run.interrupted)
    found = rows.certified(result)
    return _Run(found, run.interrupted, rows, (result.status, found.status) == ("converged", "precision"))


def _with_room_for_rounding(first: _Run, run: Callable[..., _Run], options: Options, began: float) -> _Run:
    """Continue, if rounding alone makes the gap too wide, to a gap that leaves room for it.

    The values stay the same, so rounding must be a small enough part of the tolerance.
    """
    from bmrm.linear.precision import MAX_ROUNDING_SHARE, counted_from, with_work_of

    result = first.result
    room = absolute_tol(options.tol, options.tol_kind, result.objective)
    if not first.had_room or result.rounding > MAX_ROUNDING_SHARE * room:
        return first
    tol = 0.999 * (room - result.rounding)
    tol /= abs(result.origin.objective) if options.tol_kind == "rel" else 1.0
    passes, seconds = options.max_iter - result.n_iter, options.max_time - (time.perf_counter() - began)
    if passes <= 0 or seconds <= 0.0:
        status: Status = "max_iter" if passes <= 0 else "max_time"
        return first._replace(result=dataclasses.replace(result, status=status))
    left = dataclasses.replace(
        options, tol=max(tol, SMALLEST_TOL), max_iter=passes, max_time=seconds, warm_start=result,
        callback=counted_from(result.n_iter, options.callback),
    )  # fmt: skip
    try:
        second = run(left, options.tol)
    except KeyboardInterrupt:  # before there is another result
        return _Run(dataclasses.replace(result, status="interrupted"), interrupted=True)
    return second._replace(result=with_work_of(result, second.result))


def _make_data(X: Any, y: Any, loss: Loss, comm: Any, options: Options) -> Dataset | Examples:
    layout = choose_weight_layout(
        options.weights,
        X,
        options.reg,
        positive=options.positive,
        feature_lambda=options.feature_lambda,
        prior=options.prior,
        comm=comm,
        device=options.device,
    )
    return make_dataset(loss, X, y, options, comm, layout)


def _make_settings(
    options: Options, data: Dataset | Examples, rows: RoundedProblem | None, *, prints: bool
) -> Settings:
    callback = options.callback
    if options.verbose and prints:
        callback = _printing(callback)
    if callback is not None and rows is not None:
        callback = _showing_bounds(callback, rows)
    limits = options.max_iter, options.max_time
    return Settings(options.solver, options.tol, options.tol_kind, *limits, callback, data.resolution)


def make_problem(data: Dataset | Examples, loss: Loss, backend: Backend, options: Options) -> TrainingProblem:
    """Return the problem to solve; raise if labels and options do not fit."""
    loss = loss.grouped(data.groups)
    labels, classes = backend.labels(loss)
    intercept = intercept_of(
        loss,
        fit=options.fit_intercept,
        penalize=options.penalize_intercept,
        scaling=options.intercept_scaling,
    )
    n_outputs = len(classes) if loss.several and classes is not None else 1
    cuts_per_pass, margins_per_row = asked_cuts(options.cuts_per_pass), n_outputs
    operator: MatrixAdapter
    if isinstance(data, Examples):
        margins_per_row = data.shape[1]
        cuts_per_pass = oracle_cuts(cuts_per_pass, data.shape[0], options.solver)
        operator = StackedIdentity(margins_per_row, cuts_per_pass)
    else:
        operator = operator_of(data.matrix, loss, n_outputs, intercept)
    weight_shape = (n_outputs,) if loss.several else ()
    whole = _make_penalty(data, operator, weight_shape, intercept, options)
    checksums = checksums_of(whole)
    penalty = backend.penalty(whole, operator)
    floor = backend.floor(loss, labels)
    if penalty.needs_floor and floor == -np.inf:
        raise ParameterError(
            f"loss {loss.name}: has no known lower bound, which reg {options.reg} needs where it has no "
            "curvature"
        )
    start = None
    if options.warm_start is not None or not penalty.plain:
        n_weights = data.shape[1] * n_outputs + intercept.n_penalised(n_outputs)
        start = first_point(options.warm_start, operator, n_weights, penalty, weight_shape)
    return TrainingProblem(
        data=data,
        loss=loss,
        labels=labels,
        classes=classes,
        offset=margin_offsets(data.offset, loss, n_outputs),
        intercept=intercept,
        margins_per_row=margins_per_row,
        cuts_per_pass=cuts_per_pass,
        operator=backend.spread(operator),
        whole_penalty=whole,
        penalty=penalty,
        penalty_key=penalty_key(whole, checksums),
        checksums=checksums,
        metric_key=metric_key(whole),
        floor=floor,
        block_borders=backend.block_borders(loss),
        start=start,
    )


def _make_penalty(
    data: Dataset | Examples,
    operator: MatrixAdapter,
    weight_shape: tuple[int, ...],
    intercept: Intercept,
    options: Options,
) -> regularizers.Regularizer:
    """Return the penalty of all weights, ``weight_shape`` of them per feature."""
    lam, n_outputs = options.lam, math.prod(weight_shape)
    if options.C is not None:
        lam = lam_from_c(options.C, data.total_weight)
    return regularizers.get(
        options.reg,
        lam,
        data.shape[1],
        l1_ratio=options.l1_ratio,
        positive=options.positive,
        feature_lambda=options.feature_lambda,
        prior=prior_mean(options.prior, data, operator, weight_shape),
        columns=n_outputs,
        intercepts=intercept.n_penalised(n_outputs),
    )


def _build(
    problem: TrainingProblem, plan: Plan, backend: Backend, origin: Origin, options: Options
) -> tuple[Objective, Bundle]:
    """Return objective and bundle, with the cuts of an earlier solve if they still hold."""
    data = problem.data
    warm = warm_bundle(options.warm_start, origin, plan.blocks)
    objective, store = backend.build(problem, plan, warm)
    if not data.resolution or problem.intercept.free:
        _watch_rounding(objective, problem, backend)
    bundle = warm
    if bundle is None:
        bundle = Bundle(store, plan.blocks, options.max_cuts, origin, problem.floor, data.threads)
    bundle.origin = origin
    return objective, bundle


def _watch_rounding(objective: Objective, problem: TrainingProblem, backend: Backend) -> None:
    data, margins_per_row = problem.data, problem.margins_per_row
    n_classes = 0 if problem.classes is None else len(problem.classes)
    of_rows = problem.labels, data.weights, problem.offset
    extent = extent_of(problem.loss, *of_rows, margins_per_row, n_classes, backend.sums)
    of_examples = isinstance(data, Examples)
    rows = problem.operator.shape[0] if of_examples else extent.margins // margins_per_row
    squares = data.counted_squares if isinstance(data, Dataset) else None
    longest = data.longest + (problem.intercept.scaling is not None)
    watch(objective, extent, rows, problem.floor, longest, squares)


def _printing(callback: Callback | None) -> Callback:
    """Return a callback that prints a line per iteration, and calls another."""

    def report(state: Progress) -> object:
        print(
            f"{state.iteration:6d}  J {state.objective:.8g}  bound {state.lower_bound:.8g}  "
            f"gap {state.gap:.3g}  cuts {state.cuts}  {state.elapsed:.2f} s"
        )
        return callback(state) if callback is not None else None

    return report


def _showing_bounds(callback: Callback, rows: RoundedProblem) -> Callback:
    """Return a callback whose state knows its certificate for the numbers of the file."""
    return lambda state: callback(dataclasses.replace(state, of_file=rows.bounds))


def result_of(
    run: BundleMethod,
    data: Dataset | Examples,
    labels: Vector,
    classes: Labels | None,
) -> Result:
    """Return the result of a run, with the objective from a new product."""
    best = run.certified()
    w, intercept = run.objective.model(best)
    bound = run.state.lower_bound
    source = data.source if isinstance(data, Dataset) else None
    return Result(
        w=w,
        intercept=intercept,
        objective=best.objective,
        lower_bound=bound,
        gap=best.objective - bound,
        status=run.status,
        n_iter=run.state.iteration,
        history=run.record(),
        timings={**run.state.clock.seconds, "total": run.state.clock.elapsed},
        bundle=run.bundle,
        loss=run.objective.loss,
        classes=classes,
        thresholds=backend_of(data).thresholds(run.objective.loss, best.margins, labels),
        lam=run.objective.reg.lam,
        reg=run.objective.reg.name,
        reg_params=run.objective.reg.params,
        tol=run.settings.tol,
        tol_kind=run.settings.tol_kind,
        n_samples=data.shape[0],
        n_features=data.shape[1],
        nnz=data.nnz,
        device=data.device,
        zero_based=data.zero_based,
        feature_names=data.feature_names,
        has_offset=data.offset is not None,
        stored=None if source is None else source.dtype,
        text_checksum=None if source is None else source.checksum,
        storage=None if source is None or source.storage is None else source.storage.name,
        split=data.split if isinstance(data, Dataset) else "",
    )
