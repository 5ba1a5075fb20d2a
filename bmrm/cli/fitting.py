"""The solver as the command line calls it: its options as arguments, its state as a model file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm import losses
from bmrm.cli.loading import read_costs
from bmrm.errors import DataError, ParameterError
from bmrm.io.checkpoint import Checkpoint, Problem
from bmrm.io.liblinear import check_exportable
from bmrm.io.model import Certificate, Model

if TYPE_CHECKING:
    from bmrm.cli.options import TrainOptions
    from bmrm.dataset import Dataset
    from bmrm.io import Data
    from bmrm.result import Progress, Result


def make_loss(options: TrainOptions) -> losses.Loss:
    """Return the loss that the options ask for."""
    if options.costs is None:
        return losses.get(options.loss, **options.loss_params)
    return losses.get(options.loss, costs=read_costs(options.costs), **options.loss_params)


def solver_arguments(options: TrainOptions) -> dict[str, Any]:
    """Return the options as keywords of `bmrm.solve`."""
    penalised = options.bias > 0
    arguments = {
        "loss": make_loss(options),
        "reg": options.reg,
        "fit_intercept": options.intercept or penalised,
        "penalize_intercept": penalised,
        "intercept_scaling": options.bias if penalised else 1.0,
        "tol": options.tol,
        "tol_kind": options.tol_kind,
        "solver": options.solver,
        "cuts_per_pass": options.cuts_per_pass,
        "max_cuts": options.max_cuts,
        "max_iter": options.max_iter,
        "max_time": math.inf if options.max_time is None else options.max_time,
    }
    return arguments | ({"lam": options.lam} if options.cost is None else {"C": options.cost})


def check(options: TrainOptions) -> None:
    """Raise for what is wrong with the options alone, before any data is read."""
    from bmrm.solver import Settings

    loss = make_loss(options)
    if loss.several and options.intercept:
        raise ParameterError(
            f"--intercept: not with --loss {loss.name}; --bias adds a penalised one for each class"
        )
    Settings(options.solver, options.tol, options.tol_kind, options.max_iter, math.inf)
    if options.export == "liblinear":
        check_exportable(options.loss, None)


def labels(options: TrainOptions, dataset: Dataset) -> tuple[float, ...] | None:
    """Return the classes, negative and positive for a binary loss; raise for labels that do not suit."""
    from bmrm.training import parts_of

    classes = parts_of(dataset).labels(make_loss(options))[1]
    found = None if classes is None else tuple(map(float, classes))
    if options.export == "liblinear":
        check_exportable(options.loss, found)
    return found


def fit(
    options: TrainOptions,
    dataset: Dataset,
    *,
    warm: Model | Checkpoint | None,
    callback: Callable[[Progress], bool],
) -> Result:
    """Train with the command line's options."""
    from bmrm.training import solve

    start = _start(options, warm, dataset.shape[1]) if isinstance(warm, Model) else warm
    return solve(dataset, warm_start=start, callback=callback, **solver_arguments(options))


def _start(options: TrainOptions, warm: Model, n_features: int) -> np.ndarray[Any, Any]:
    """Widen the model to the data's features, those that it has not seen starting at zero."""
    missing = n_features - warm.n_features
    if missing < 0:
        raise DataError(
            f"--warm-start: found {n_features} features in the data, expected the model's {warm.n_features} "
            f"(try --n-features {warm.n_features})"
        )
    # A penalised intercept is a feature of its own behind the others; a free one follows from the weights.
    columns = warm.w.shape[1:]
    bias = np.atleast_1d(warm.intercept) / options.bias if options.bias > 0 else np.empty(0)
    return np.concatenate([warm.w, np.zeros((missing, *columns)), bias.reshape(-1, *columns)])


def problem(options: TrainOptions, dataset: Dataset, blocks: int) -> Problem:
    """Tell what the cuts of a checkpoint bound."""
    penalised = options.bias > 0
    return Problem(
        n_samples=dataset.shape[0],
        nnz=dataset.nnz,
        blocks=blocks,
        free_intercept=options.intercept or losses.LOSSES[options.loss].needs_intercept,
        intercept_scaling=options.bias if penalised else None,
    )


def snapshots(options: TrainOptions, data: Data, dataset: Dataset) -> Callable[[Progress], Model]:
    """Return a function that makes a model of the solver's best iterate while it is at work."""
    loss = make_loss(options)
    classes = labels(options, dataset)
    lam = options.lam if options.cost is None else 1.0 / (options.cost * dataset.total_weight)

    def snapshot(state: Progress) -> Model:
        w, intercept = state.best()
        return Model(
            w=w.copy(),
            intercept=intercept,
            loss=loss.name,
            task=loss.task,
            classes=classes,
            lam=lam,
            reg=options.reg,
            loss_params=loss.params,
            certificate=Certificate(
                objective=state.objective,
                lower_bound=state.lower_bound,
                status="running",
                n_iter=state.iteration,
                tol=options.tol,
                tol_kind=options.tol_kind,
            ),
            zero_based=data.zero_based,
        )

    return snapshot
