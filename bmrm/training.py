"""`solve`: from a user's data and options to a run of the outer loop, and from its end to a `Result`."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bmrm import losses, regularizers, row_space
from bmrm.bundle import Bundle, Store
from bmrm.columns import Columns
from bmrm.dataset import Dataset, WithConstant
from bmrm.device_call import DeviceCallSteps
from bmrm.device_steps import DeviceCuts, DeviceSteps, device_cuts
from bmrm.errors import DataError, ParameterError
from bmrm.host_steps import HostCuts, HostSteps
from bmrm.io.checkpoint import Checkpoint, Problem
from bmrm.io.model import Model
from bmrm.joint_steps import JointSteps
from bmrm.labels import encode
from bmrm.losses import Loss, Structured
from bmrm.newton import newton_begins
from bmrm.objective import Design, Margins, Objective, Steps
from bmrm.regularizers import Regularizer
from bmrm.result import Progress, Result
from bmrm.row_space import RowCuts, RowSteps
from bmrm.solver import BundleMethod, Callback, Settings
from bmrm.structured import Copies, Examples
from bmrm.weights import ClassWeight

Vector = NDArray[np.float64]

BLOCKS, ORACLE_BLOCKS = 16, 64
"""Cuts a pass where several pay; and where an oracle is asked for them."""

SAME_OBJECTIVE = 1e-6
"""Relative difference of objectives that rounding may make."""


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
    warm_start: Result | Checkpoint | Vector | None = None,
    solver: str = "ocas",
    cuts_per_pass: int | str = "auto",
    max_cuts: int | None = None,
    device: str = "auto",
    dtype: DTypeLike | None = None,
    threads: int | None = None,
    gpu_mem: int | str | None = None,
    comm: Any = None,
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
        For a structured loss a sequence of inputs, or `bmrm.structured.Examples`.
    y : array_like of shape (n_samples,), optional
        Labels; see `Dataset`.
    loss : str or Loss, default "hinge"
        One of `bmrm.losses.NAMES`, a `bmrm.losses.CallableLoss`, or a `bmrm.losses.Structured`.
    reg : {"l2", "l1", "elastic_net"}, default "l2"
        ``Omega(w)``: ``|w|^2 / 2``, ``|w|_1``, or ``l1_ratio |w|_1 + (1 - l1_ratio) |w|^2 / 2``.
    lam : float, default 1e-4
        Strength of the regulariser, positive.
    C : float, optional
        LIBLINEAR's way to say it, in place of ``lam``: ``lam = 1 / (C sum_i s_i)``.
    l1_ratio : float, optional
        Share of the l1 norm in the elastic net, 0 to 1; default 0.5.
    positive : bool, default False
        Keep the weights, but not an intercept, at least 0.
    feature_lambda : array_like of shape (n_features,), optional
        A factor of lam for each feature, in every class, at least 0. A feature with 0 is not penalised; the
        certificate then covers weights up to `bmrm.regularizers.RADIUS` away from the prior mean.
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
    tol_kind : {"rel", "abs"}, default "rel"
    max_iter : int, default 10000
        Most passes over the data.
    max_time : float, default inf
        Most seconds.
    warm_start : Result, Checkpoint or ndarray of shape (n_features,) or (n_features, K), optional
        Where to start. A `bmrm.io.checkpoint.Checkpoint` of the same problem goes on where it was written,
        on any number of ranks. A `Result` of the same `Dataset` object, loss and kind of intercept also
        brings a copy of its cuts, whatever its lam.
    solver : {"ocas", "bmrm"}, default "ocas"
        "bmrm" is the bundle method as published; "ocas" adds an exact line search and needs far fewer passes.
    cuts_per_pass : int or "auto", default "auto"
        Blocks of rows with a cut of their own each pass. "auto": 16 where the extra Gram entries are cheap
        next to the products, else 1; 64 with a structured loss. Always 1 with an unpenalised intercept, and
        for a loss that is no sum over rows.
    max_cuts : int, optional
        Most cuts kept; default: as many as fit in 1 GiB, at most 2000.
    comm : mpi4py.MPI.Comm or PETSc.Comm, optional
        Train on all its ranks: each calls `solve` with its own rows in ``X``, ``y`` and ``sample_weight`` and
        with the same options, and gets the same result. See `bmrm.distributed.Shard`.
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
        For data, labels or weights that cannot be used; see `Dataset`.

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
    if type(X).__module__.startswith("petsc4py"):
        from bmrm.petsc.training import local_rows

        X, y, comm = local_rows(X, y, comm)
    chosen = losses.get(loss, **loss_params)
    data = _dataset(
        chosen, X, y, sample_weight, class_weight, groups, device, dtype, threads, gpu_mem, tol, comm
    )
    parts = parts_of(data)
    if C is not None:
        if not 0.0 < C < np.inf:
            raise ParameterError(f"C: found {C:g}, expected a positive number")
        lam = 1.0 / (C * data.total_weight)
    reporter = _verbose(callback, verbose if parts.speaks else 0)
    settings = Settings(solver, tol, tol_kind, max_iter, max_time, reporter, data.resolution)
    chosen = chosen.grouped(data.groups)
    labels, classes = parts.labels(chosen)
    columns = len(classes) if chosen.several and classes is not None else 1
    if penalize_intercept and not fit_intercept:
        raise ParameterError("penalize_intercept: goes with fit_intercept")
    if not 0.0 < intercept_scaling < np.inf:
        raise ParameterError(f"intercept_scaling: found {intercept_scaling:g}, expected a positive number")
    fit_intercept = fit_intercept or chosen.needs_intercept
    if chosen.needs_intercept and penalize_intercept:
        raise ParameterError(f"loss {chosen.name}: its intercept cannot be penalised")
    if fit_intercept and chosen.no_intercept:
        raise ParameterError(f"loss {chosen.name}: takes no intercept, {chosen.no_intercept}")
    scaling = intercept_scaling if penalize_intercept else None
    profile = fit_intercept and not penalize_intercept
    if chosen.several and profile:
        raise ParameterError(
            f"loss {chosen.name}: an intercept for each class is penalised (penalize_intercept) or left out"
        )
    design: Design
    if isinstance(data, Examples):
        if fit_intercept:
            raise ParameterError("fit_intercept: a structured loss has what intercepts its oracle gives it")
        columns, cuts_per_pass = data.shape[1], _oracle_cuts(cuts_per_pass, data.shape[0], solver)
        design = Copies(columns, cuts_per_pass)
    elif chosen.several:
        design = Columns(data.matrix, columns, scaling)
    elif scaling is not None:
        design = WithConstant(data.matrix, scaling)
    else:
        design = data.matrix
    shape, each = ((columns,), columns) if chosen.several else ((), 1)
    regularizer = regularizers.get(
        reg,
        lam,
        data.shape[1],
        l1_ratio=l1_ratio,
        positive=positive,
        feature_lambda=feature_lambda,
        prior=_prior(prior, design, shape),
        columns=each,
        intercepts=design.shape[1] - data.shape[1] * each,
    )
    floor = parts.floor(chosen, labels)
    if regularizer.needs_floor and floor == -np.inf:
        raise ParameterError(
            f"loss {chosen.name}: has no known lower bound, which reg {reg} needs where it has no curvature"
        )
    w = _start(warm_start, design, regularizer, shape)
    design = parts.spread(design)
    newton_from = parts.newton_from(design, chosen, regularizer) if solver == "ocas" else 0.0
    several_pay = solver == "ocas" and reg == "l2" and newton_from < np.inf and data.device == "cpu"
    if isinstance(warm_start, Checkpoint) and cuts_per_pass == "auto":
        cuts_per_pass = warm_start.problem.blocks
    rows = data.shape[0]
    blocks = _blocks(cuts_per_pass, design, chosen, rows, several_pay=several_pay, profile=profile)
    on_device = _on_device(data, chosen, regularizer)
    in_rows = (
        isinstance(data, Dataset)
        and data.group is None
        and isinstance(regularizer, regularizers.L2)
        and blocks == 1
        and newton_from == 0.0
        and not isinstance(warm_start, Checkpoint)
        and row_space.pays(design)
    )
    origin = (*_origin(data, chosen, profile, scaling), on_device, in_rows)
    known = _known_bundle(warm_start, origin, blocks)
    narrow = newton_from == np.inf
    steps, store = parts.place(
        Placement(design, chosen, labels, columns, scaling, known, narrow, blocks, on_device, in_rows)
    )
    objective = parts.objective(
        design, steps, chosen, regularizer, profile=profile, blocks=blocks, columns=columns
    )
    bundle = known or Bundle(store, blocks, max_cuts, origin, floor, data.threads)
    if isinstance(warm_start, Checkpoint):
        problem = Problem(data.shape[0], data.nnz, blocks, profile, scaling)
        warm_start.check(problem, data.shape[1], chosen, regularizer)
        parts.restore(bundle, warm_start)
    run = parts.method(objective, bundle, settings, w, newton_from=newton_from)
    if isinstance(warm_start, Checkpoint):
        _check_objective(warm_start, run, data.resolution)
    run.minimise()
    return result_of(run, data, labels, classes)


def _oracle_cuts(cuts_per_pass: int | str, examples: int, solver: str) -> int:
    """Many cuts a pass, where nothing else is asked for: a pass of an oracle costs more than they do."""
    if cuts_per_pass == "auto":
        return min(ORACLE_BLOCKS, examples) if solver == "ocas" else 1
    return _checked_cuts(cuts_per_pass, examples)


class Placement(NamedTuple):
    """What decides where a solve keeps its weights, margins and cuts.

    Attributes
    ----------
    design : Design
    loss : Loss
    labels : ndarray of shape (m,)
    columns : int
        Entries of margins that belong to a row.
    scaling : float or None
        Value of the constant feature, where there is one.
    known : Bundle or None
        Cuts to go on with.
    narrow : bool
        Newton steps from the first pass on.
    blocks : int
        Cuts a pass.
    on_device : bool
        With the matrix on its GPU.
    in_rows : bool
        As combinations of rows, see `bmrm.row_space`.
    """

    design: Any
    loss: Loss
    labels: Vector
    columns: int
    scaling: float | None
    known: Bundle | None
    narrow: bool
    blocks: int
    on_device: bool
    in_rows: bool


class Parts(Protocol):
    """What a solve is put together from."""

    @property
    def speaks(self) -> bool:
        """Whether this process is the one that prints."""

    def labels(self, loss: Loss) -> tuple[Vector, NDArray[np.float64] | None]:
        """Code the labels; see `bmrm.labels.encode`."""

    def floor(self, loss: Loss, labels: Vector) -> float:
        """Return a number that no risk on all rows is below."""

    def thresholds(self, loss: Loss, margins: Margins, labels: Vector) -> Vector | None:
        """Return the thresholds between ordered classes that suit the margins; None for other tasks."""

    def spread(self, design: Design) -> Design:
        """Make the design of all rows from that of the rows here."""

    def newton_from(self, design: Any, loss: Loss, reg: Regularizer) -> float:
        """Return the relative gap from which Newton steps are taken; see `bmrm.newton.newton_begins`."""

    def place(self, at: Placement) -> tuple[Steps, Store]:
        """Choose where weights, margins and cuts live."""

    def objective(self, *arguments: Any, **keywords: Any) -> Objective:
        """Make the objective."""

    def restore(self, bundle: Bundle, checkpoint: Checkpoint) -> None:
        """Fill an empty bundle."""

    def method(self, *arguments: Any, **keywords: Any) -> BundleMethod:
        """Make the run."""


class LocalParts:
    """The pieces where all rows are in this process."""

    speaks = True

    def __init__(self, data: Dataset | Examples) -> None:
        self.data = data

    def labels(self, loss: Loss) -> tuple[Vector, NDArray[np.float64] | None]:
        """Code the labels; see `bmrm.labels.encode`."""
        return encode(self.data.y, self.data.shape[0], loss)

    def floor(self, loss: Loss, labels: Vector) -> float:
        """Return a number that no risk on these labels is below."""
        return loss.floor(labels, self.data.weights)

    def thresholds(self, loss: Loss, margins: Margins, labels: Vector) -> Vector | None:
        """Return the thresholds between ordered classes that suit the margins; None for other tasks."""
        if loss.task != "ordinal":
            return None
        here = margins if isinstance(margins, np.ndarray) else margins.get()
        return loss.thresholds(here, labels, self.data.weights)

    def spread(self, design: Design) -> Design:
        """Leave the design as it is."""
        return design

    def newton_from(self, design: Design, loss: Loss, reg: Regularizer) -> float:
        """Return the relative gap from which Newton steps are taken; see `bmrm.newton.newton_begins`."""
        return newton_begins(design, loss, reg)

    def place(self, at: Placement) -> tuple[Steps, Store]:
        """Put labels and weights, and the cuts, where they live: with the matrix, or here."""
        data, design, loss = self.data, at.design, at.loss
        scale = 1.0 / data.total_weight
        if at.on_device:
            assert isinstance(data, Dataset)
            store = device_cuts(data, design, loss, at.labels, scale, at.scaling, at.known, at.in_rows)
            if isinstance(loss, losses.CallableLoss):
                return DeviceCallSteps(store, loss), store
            if isinstance(loss, losses.JointLoss):
                return JointSteps(store, loss, at.labels, data.weights), store
            return DeviceSteps(store, ahead=at.blocks == 1), store
        risk = loss.risk(at.labels, data.weights, scale, data.threads)
        if at.in_rows:
            rows = RowCuts(design, data.threads) if at.known is None else at.known.store
            assert isinstance(rows, RowCuts)
            return RowSteps(design, risk, rows), rows
        cuts = HostCuts(design.shape[1], data.threads) if at.known is None else at.known.store
        return HostSteps(design, risk), cuts

    def objective(self, *arguments: Any, **keywords: Any) -> Objective:
        """Make the objective."""
        return Objective(*arguments, **keywords)

    def restore(self, bundle: Bundle, checkpoint: Checkpoint) -> None:
        """Fill an empty bundle."""
        bundle.restore(checkpoint.cuts(0, bundle.n_features))

    def method(self, *arguments: Any, **keywords: Any) -> BundleMethod:
        """Make the run."""
        return BundleMethod(*arguments, **keywords)


def parts_of(data: Dataset | Examples) -> Parts:
    """Return the pieces of a solve on the data, in one process or on several ranks."""
    if isinstance(data, Examples) or data.group is None:
        return LocalParts(data)
    from bmrm.distributed.parts import ShardedParts
    from bmrm.distributed.shard import Shard

    assert isinstance(data, Shard)
    return ShardedParts(data)


def _dataset(
    loss: Loss,
    X: Any,
    y: Any,
    sample_weight: Any,
    class_weight: ClassWeight | None,
    groups: Any,
    device: str,
    dtype: DTypeLike | None,
    threads: int | None,
    gpu_mem: int | str | None,
    tol: float,
    comm: Any,
) -> Dataset | Examples:
    if isinstance(loss, Structured):
        if comm is not None:
            raise ParameterError(f"loss {loss.name}: trains in one process; leave comm out")
        return _examples(loss, X, y, sample_weight, class_weight, groups, device, dtype)
    if isinstance(X, Examples):
        raise ParameterError(f"loss {loss.name}: takes a matrix, found examples of a structured loss")
    if not isinstance(X, Dataset):
        where: dict[str, Any] = {}
        kind: type[Dataset] = Dataset
        if comm is not None:
            from bmrm.distributed import Shard

            kind, where = Shard, {"comm": comm}
        return kind(
            X,
            y,
            **where,
            groups=groups,
            sample_weight=sample_weight,
            class_weight=class_weight,
            device=device,
            dtype=dtype,
            threads=threads,
            gpu_mem=gpu_mem,
            tol=tol,
        )
    given = {
        "y": y,
        "device": None if device == "auto" else device,
        "sample_weight": sample_weight,
        "class_weight": class_weight,
        "groups": groups,
        "dtype": dtype,
        "threads": threads,
        "gpu_mem": gpu_mem,
        "comm": comm,
    }
    for name, value in given.items():
        if value is not None:
            raise ParameterError(f"{name}: give it to the Dataset, not to solve")
    return X


def _examples(
    loss: Structured,
    X: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Any,
    groups: Any,
    device: str,
    dtype: Any,
) -> Examples:
    if class_weight is not None or groups is not None or device not in ("auto", "cpu") or dtype is not None:
        raise ParameterError(
            "loss structured: takes no class_weight, no groups, no device but the CPU, and no dtype"
        )
    if isinstance(X, Dataset):
        raise ParameterError("loss structured: takes inputs and outputs, found a Dataset")
    if not isinstance(X, Examples):
        return Examples(X, y, loss.n_features, sample_weight=sample_weight)
    if y is not None or sample_weight is not None:
        raise ParameterError("y, sample_weight: give them to the Examples, not to solve")
    if X.shape[1] != loss.n_features:
        raise ParameterError(
            f"oracle: found n_features {loss.n_features}, expected the examples' {X.shape[1]}"
        )
    return X


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


def _blocks(
    cuts_per_pass: int | str, design: Design, loss: Loss, rows: int, *, several_pay: bool, profile: bool
) -> int:
    d = design.shape[1]
    several_pay = several_pay and loss.by_rows
    if cuts_per_pass == "auto":
        # Sixteen cuts halve the passes at best, and cost a millisecond of QP each pass, and some 16 cuts x
        # 400 kept x d multiplications for their Gram entries: the pass that they save must cost more than
        # that.  On a GPU no pass does.
        cheap = design.nnz > max(1000 * d, 4_000_000) and rows >= 64 * BLOCKS
        return BLOCKS if cheap and several_pay and not profile else 1
    found = _checked_cuts(cuts_per_pass, rows)
    if profile and found > 1:
        raise ParameterError("cuts_per_pass: an unpenalised intercept takes one cut a pass")
    if not loss.by_rows and found > 1:
        raise ParameterError(f"cuts_per_pass: loss {loss.name} is no sum over rows and takes one cut a pass")
    return found


def _checked_cuts(cuts_per_pass: int | str, rows: int) -> int:
    if isinstance(cuts_per_pass, str) or not 1 <= cuts_per_pass <= rows:
        raise ParameterError(
            f"cuts_per_pass: found {cuts_per_pass!r}, expected auto or a number from 1 to {rows}"
        )
    return cuts_per_pass


def _origin(data: Dataset | Examples, loss: Loss, profile: bool, scaling: float | None) -> tuple[object, ...]:
    """Tell what the cuts of a bundle bound: they serve another solve only if all of this is the same."""
    return data, loss.key, profile, scaling


def _known_bundle(warm_start: object, origin: tuple[object, ...], blocks: int) -> Bundle | None:
    """Return the cuts of an earlier result where they still hold: a copy, or on a GPU the cuts themselves."""
    if not isinstance(warm_start, Result):
        return None
    known = warm_start.bundle
    if known.origin != origin or known.groups != blocks or not len(known):
        return None
    return known if isinstance(known.store, DeviceCuts) else known.only(np.arange(len(known)))


def _on_device(data: Dataset | Examples, loss: Loss, reg: Regularizer) -> bool:
    """Whether weights, margins and cuts live with the matrix: where it, the loss and the penalty can."""
    if not hasattr(data.matrix, "problem") or not isinstance(reg, regularizers.L2):
        return False
    alone = isinstance(data, Dataset) and data.group is None
    if isinstance(loss, losses.CallableLoss):
        return loss.arrays != "numpy" and alone
    return isinstance(loss, losses.ScalarLoss) or (isinstance(loss, losses.JointLoss) and alone)


def _prior(prior: Model | Result | Any, design: Design, columns: tuple[int, ...]) -> Any:
    """Return the prior mean of the weights, and of intercepts that are penalised."""
    if prior is None or not hasattr(prior, "intercept"):
        return prior
    if prior.w.shape[1:] != columns:
        wanted = f"{columns[0]} numbers" if columns else "a number"
        raise DataError(f"prior: found weights of shape {prior.w.shape}, expected {wanted} a feature")
    return design.joined(prior.w, prior.intercept) if isinstance(design, (WithConstant, Columns)) else prior.w


def _start(
    warm_start: Result | Checkpoint | Vector | None,
    design: Design,
    reg: Regularizer,
    columns: tuple[int, ...],
) -> Vector:
    """Choose the first point."""
    d = design.shape[1]
    if warm_start is None:
        return reg.start(d)
    shape = (d // columns[0], *columns) if columns else (d,)
    if isinstance(warm_start, (Result, Checkpoint)):
        found = warm_start if isinstance(warm_start, Result) else warm_start.model
        w = found.w
        if w.ndim == len(shape) and w.shape[1:] == columns and isinstance(design, (WithConstant, Columns)):
            w = design.joined(w, found.intercept).reshape(-1, *columns)
    else:
        w = np.asarray(warm_start, np.float64)
    if w.shape != shape or not np.isfinite(w).all():
        raise DataError(f"warm_start: found weights of shape {w.shape}, expected {shape} finite numbers")
    return reg.project(w.flatten())


def _check_objective(checkpoint: Checkpoint, run: BundleMethod, resolution: float) -> None:
    """Go on counting, unless the objective says that the data are others."""
    certificate = checkpoint.model.certificate
    if certificate is None:
        raise DataError(f"{checkpoint.path}: has no certificate, expected that of a checkpoint")
    then, now = certificate.objective, run.best.objective
    if not abs(then - now) <= max(SAME_OBJECTIVE, 10.0 * resolution) * abs(now):
        raise DataError(f"{checkpoint.path}: has the objective {then:.9g}, found {now:.9g}: of other data")
    run.go_on(certificate.n_iter)


def result_of(
    run: BundleMethod, data: Dataset | Examples, labels: Vector, classes: NDArray[np.float64] | None
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
        history=run.history,
        timings={**run.clock.parts, "total": run.clock.elapsed},
        bundle=run.bundle,
        loss=run.objective.loss,
        classes=classes,
        thresholds=parts_of(data).thresholds(run.objective.loss, best.margins, labels),
        lam=run.objective.reg.lam,
        reg=run.objective.reg.name,
        reg_params=run.objective.reg.params,
        tol=run.settings.tol,
        tol_kind=run.settings.tol_kind,
        n_samples=data.shape[0],
        n_features=data.shape[1],
        nnz=data.nnz,
        device=data.device,
    )
