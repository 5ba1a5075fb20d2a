"""`solve`: from a user's data and options to a run of the outer loop, and from its end to a `Result`."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm import losses
from bmrm.base.interrupts import HELD, interruptible, set_signal_mode
from bmrm.errors import BmrmError, Interrupted, ParameterError
from bmrm.linear import regularizers
from bmrm.linear.backends.base import Placement, in_rows, on_device
from bmrm.linear.backends.choose import backend_of
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.cuts_per_pass import asked_cuts, blocks_of, oracle_cuts
from bmrm.linear.inputs import choose_weight_layout, make_dataset, make_group
from bmrm.linear.intercept import intercept_of, operator_of
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.models.model import Model
from bmrm.linear.objective.error_bounds import extent_of, watch
from bmrm.linear.result import Result
from bmrm.linear.solvers.bundle_method import BundleMethod
from bmrm.linear.solvers.progress import Progress
from bmrm.linear.solvers.settings import Callback, Settings
from bmrm.linear.warm_start import (
    Origin,
    checksums_of,
    earlier_end,
    first_point,
    go_on,
    known_bundle,
    metric_key,
    penalty_key,
    pieces_of,
    prior_mean,
)
from bmrm.losses import Loss
from bmrm.matrix.adapted import MatrixAdapter, StackedIdentity
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples
from bmrm.matrix.overflow import blame_overflow
from bmrm.matrix.row_weights import ClassWeight, lam_from_c

Vector = NDArray[np.float64]


@interruptible
def solve(
    X: Any,
    y: Any = None,
    loss: str | Loss = "hinge",
    reg: str = "l2",
    lam: float = 1e-4,
    *,
    C: float | None = None,
    l1_ratio: float | None = None,
    positive: bool = False,
    feature_lambda: Any = None,
    prior: Model | Result | Any = None,
    sample_weight: Any = None,
    class_weight: ClassWeight | None = None,
    groups: Any = None,
    fit_intercept: bool = False,
    penalize_intercept: bool = False,
    intercept_scaling: float = 1.0,
    tol: float = 1e-3,
    tol_kind: str = "rel",
    max_iter: int = 10_000,
    max_time: float = np.inf,
    warm_start: Result | Model | Checkpoint | Vector | None = None,
    solver: str = "ocas",
    cuts_per_pass: int | str = "auto",
    max_cuts: int | None = None,
    device: str = "auto",
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    gpu_mem: int | str | None = None,
    comm: Any = None,
    weights: str = "auto",
    callback: Callback | None = None,
    verbose: int = 0,
    **loss_params: Any,
) -> Result:
    """Minimise ``lam Omega(w) + sum_i s_i loss(x_i . w + b, y_i) / sum_i s_i`` and certify the answer.

    Parameters
    ----------
    X : Dataset, Csr, scipy sparse matrix, ndarray or PETSc.Mat, of shape (n_samples, n_features)
        A PETSc matrix (AIJ, dense), with a PETSc vector of labels, is trained on all its ranks.
        A `Dataset` brings labels, weights, device, type and threads with it; none of them may be given again.
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
        LIBLINEAR's way to say it, in place of ``lam``: ``lam = 1 / (C sum_i s_i)``. LIBLINEAR's C multiplies
        a sum over rows: unlike at a given ``lam``, a factor k of all weights is C multiplied by k.
    l1_ratio : float, optional
        Share of the l1 norm in the elastic net, 0 to 1; default 0.5.
    positive : bool, default False
        Keep the weights, but not an intercept, at least 0.
    feature_lambda : array_like of shape (n_features,), optional
        A factor of lam for each feature, in every class, at least 0. A feature with 0 is not penalised; the
        certificate then covers weights up to `bmrm.RADIUS` away from the prior mean, and
        up to four times as far as the answer's if that is more.
    prior : Model, Result or array_like of shape (n_features,) or (n_features, K), optional
        Regularise towards these weights: ``Omega(w - prior)``. They are where the solve starts, too, unless
        ``warm_start`` says otherwise.
    sample_weight, class_weight, groups, device, dtype, threads, gpu_mem
        See `Dataset`.
    fit_intercept : bool, default False
        Add an intercept b to every margin. It is not penalised, and is minimised out exactly.
    penalize_intercept : bool, default False
        With ``fit_intercept``: make it a constant feature of value ``intercept_scaling``, penalised like
        all others.
    intercept_scaling : float, default 1.0
    tol : float, default 1e-3
        End when the certified gap is at most ``tol * |objective|`` (``tol_kind="rel"``) or ``tol`` ("abs").
        Where the optimum is 0 as far as float64 shows, so that no gap is a share of it, "rel" is a share of
        the mean loss at w = 0 and b = 0, or of 1 if that is 0; see "What the certificate rests on" in
        docs/algorithm.md.
    tol_kind : {"rel", "abs"}, default "rel"
    max_iter : int, default 10000
        Most passes over the data.
    max_time : float, default inf
        Most seconds.
    warm_start : Result, Model, Checkpoint or ndarray of shape (n_features,) or (n_features, K), optional
        Where to start. A `bmrm.Checkpoint` of the same problem goes on where it was
        written, on any number of ranks. A `Result` of the same `Dataset` object, loss and kind of intercept
        also brings a copy of its cuts, whatever its lam, and with the same lam and penalty its bound. The
        result is then no worse than either; where their gap is within ``tol``, no pass is made.
    solver : {"ocas", "bmrm"}, default "ocas"
        "bmrm" is the bundle method as published; "ocas" adds an exact line search and needs far fewer passes.
    cuts_per_pass : int or "auto", default "auto"
        Blocks of rows with a cut of their own each pass. "auto": 4 to 32 where the extra Gram entries are
        cheap next to the passes that they save, else 1; 64 with a structured loss. On wide rows, as of text,
        "auto" also lets the solve begin in the dual. Always 1 with an unpenalised intercept, and for a loss
        that is no sum over rows or groups whose rows are together.
    max_cuts : int, optional
        Most cuts kept; default: as many as fit in 1 GiB, at most 2000.
    comm : mpi4py.MPI.Comm or PETSc.Comm, optional
        Train on all its ranks: each calls `solve` with its own rows in ``X``, ``y`` and ``sample_weight`` and
        with the same options, and gets the same result. See `bmrm.distributed.Shard`.
    weights : {"auto", "replicated", "owned"}, default "auto"
        With ``comm``: whether every rank has all weights, or owns some columns of them; the latter for l2
        penalties without ``positive``, on CPUs. "auto" is "owned" where that pays: from 250 000 columns on,
        or 1000 with ``feature_lambda`` or ``prior``. All ranks get all weights of the result with either;
        where they are owned, ask `Progress.best` on all ranks at once.
    callback : callable, optional
        Called with a `Progress` after each iteration; a true answer ends the solve with status "interrupted".
    verbose : int, default 0
        1 prints a line an iteration.
    **loss_params
        The loss's parameter: one of `bmrm.losses.PARAMETERS`; ``costs`` for ``multiclass``.

    Returns
    -------
    Result

    Raises
    ------
    ParameterError
        For an argument out of its range.
    DataError
        For data, labels or weights that cannot be used; see `Dataset`. For a checkpoint of other data, or one
        that is damaged.
    Interrupted
        For Ctrl-C, at the end of the iteration, or at once for a second one: its ``result`` is the best
        model so far, with its certificate; None where training had not begun.

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
    array([ 1.,  1., -1.])
    """
    options = locals() | loss_params
    del options["loss_params"]
    if type(X).__module__.startswith("petsc4py"):
        from bmrm.distributed.petsc_rows import local_rows

        X, y, comm = local_rows(X, y, comm)
    if comm is not None or getattr(X, "group", None) is not None:
        set_signal_mode(HELD)  # other ranks would wait for one that it struck before the first iteration
    comm = make_group(X, comm, options)
    chosen = losses.get(loss, **loss_params)
    form = choose_weight_layout(
        weights,
        X,
        reg,
        positive=positive,
        feature_lambda=feature_lambda,
        prior=prior,
        comm=comm,
        device=device,
    )
    data = make_dataset(
        chosen, X, y, sample_weight, class_weight, groups, device, dtype, threads, gpu_mem, tol, comm, form
    )
    backend = backend_of(data)
    if C is not None:
        lam = lam_from_c(C, data.total_weight)
    reporter = _verbose(callback, verbose if backend.speaks else 0)
    settings = Settings(solver, tol, tol_kind, max_iter, max_time, reporter, data.resolution)
    chosen = chosen.grouped(data.groups)
    labels, classes = backend.labels(chosen)
    columns = len(classes) if chosen.several and classes is not None else 1
    intercept = intercept_of(
        chosen, fit=fit_intercept, penalize=penalize_intercept, scaling=intercept_scaling
    )
    operator: MatrixAdapter
    cuts_per_pass = asked_cuts(cuts_per_pass)
    if isinstance(data, Examples):
        columns, cuts_per_pass = data.shape[1], oracle_cuts(cuts_per_pass, data.shape[0], solver)
        operator = StackedIdentity(columns, cuts_per_pass)
    else:
        operator = operator_of(data.matrix, chosen, columns, intercept)
    shape, each = ((columns,), columns) if chosen.several else ((), 1)
    constants = 0 if intercept.scaling is None else each
    regularizer = regularizers.get(
        reg,
        lam,
        data.shape[1],
        l1_ratio=l1_ratio,
        positive=positive,
        feature_lambda=feature_lambda,
        prior=prior_mean(prior, data.zero_based, operator, shape),
        columns=each,
        intercepts=constants,
    )
    checksums, metric = checksums_of(regularizer), metric_key(regularizer)
    penalty = penalty_key(regularizer, checksums)
    regularizer = backend.penalty(regularizer, operator)
    floor = backend.floor(chosen, labels)
    if regularizer.needs_floor and floor == -np.inf:
        raise ParameterError(
            f"loss {chosen.name}: has no known lower bound, which reg {reg} needs where it has no curvature"
        )
    w = None
    if warm_start is not None or not regularizer.plain:
        w = first_point(warm_start, operator, data.shape[1] * each + constants, regularizer, shape)
    operator = backend.spread(operator)
    newton = solver == "ocas" and backend.newton_pays(operator, data.shape[0], chosen, regularizer)
    checkpoint = warm_start if isinstance(warm_start, Checkpoint) else None
    profile = intercept.free
    ascent = (
        solver == "ocas"
        and cuts_per_pass == "auto"
        and (checkpoint is None or checkpoint.problem.blocks == 1)
        and backend.ascent_pays(operator, chosen, regularizer, newton=newton, profile=profile)
    )
    if cuts_per_pass == "auto" and (ascent or checkpoint is not None):
        cuts_per_pass = 1 if checkpoint is None else checkpoint.problem.blocks
    several_pay = solver == "ocas" and reg == "l2" and (not newton or chosen.kinked) and data.device == "cpu"
    borders = backend.borders(chosen)
    blocks = blocks_of(
        cuts_per_pass,
        operator,
        chosen,
        data.shape[0],
        several_pay=several_pay,
        profile=profile,
        newton=newton,
        max_cuts=max_cuts,
        most=None if borders is None else len(borders) - 1,
    )
    # The risk of margins taken together is one block on a GPU.
    there = on_device(data, chosen, regularizer) and (borders is None or blocks == 1)
    rows = checkpoint is None and in_rows(data, operator, regularizer, blocks=blocks, newton=newton)
    origin = Origin(
        data,
        pieces_of(data),
        chosen.key,
        intercept,
        there,
        rows,
        metric,
        loss=chosen,
        penalty=penalty,
        checksums=checksums,
    )
    known = known_bundle(warm_start, origin, blocks)
    scaling = intercept.scaling
    passes, store = backend.place(
        Placement(
            operator,
            chosen,
            regularizer,
            labels,
            columns,
            scaling,
            known,
            blocks=blocks,
            borders=borders,
            on_device=there,
            in_rows=rows,
        )
    )
    objective = backend.objective(
        operator, passes, chosen, regularizer, profile=profile, blocks=blocks, columns=columns
    )
    if not data.resolution or profile:
        K = 0 if classes is None else len(classes)
        extent = extent_of(chosen, labels, data.weights, columns, K, backend)
        of_all = operator.shape[0] if isinstance(data, Examples) else extent.margins // columns
        squares = data.counted_squares if isinstance(data, Dataset) else None
        watch(objective, extent, of_all, floor, data.longest + (scaling is not None), squares)
    bundle = known or Bundle(store, blocks, max_cuts, origin, floor, data.threads)
    bundle.origin = origin
    earlier = earlier_end(warm_start, origin, bundle, backend, regularizer)
    if earlier is not None and profile:
        objective.expect(float(earlier.intercept))
    try:
        run = backend.method(objective, bundle, settings, w, newton=newton, ascent=ascent, warm=w is not None)
        if earlier is not None:
            go_on(run, earlier)
        run.minimise()
    except BmrmError as fault:
        raise blame_overflow(fault, data, labels) from None
    result = result_of(run, data, labels, classes)
    ended = origin.ended(result.objective, result.lower_bound, run.model.radius)
    result = dataclasses.replace(result, origin=ended)
    if run.interrupted:
        raise Interrupted(result)
    return result


def _verbose(callback: Callback | None, verbose: int) -> Callback | None:
    if not verbose:
        return callback

    def report(state: Progress) -> object:
        print(
            f"{state.iteration:6d}  J {state.objective:.8g}  bound {state.lower_bound:.8g}  "
            f"gap {state.gap:.3g}  cuts {state.cuts}  {state.elapsed:.2f} s"
        )
        return callback(state) if callback is not None else None

    return report


def result_of(
    run: BundleMethod,
    data: Dataset | Examples,
    labels: Vector,
    classes: NDArray[np.float64] | None,
) -> Result:
    """Return what a run has found, with the objective from a new product."""
    best = run.certified()
    w, intercept = run.objective.model(best)
    bound = run.lower_bound
    return Result(
        w=w,
        intercept=intercept,
        objective=best.objective,
        lower_bound=bound,
        gap=best.objective - bound,
        status=run.status,
        n_iter=run.iteration,
        history=run.record(),
        timings={**run.clock.parts, "total": run.clock.elapsed},
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
    )
