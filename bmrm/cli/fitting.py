"""The solver for the command line: options become its arguments, its state becomes a model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from bmrm import losses
from bmrm.cli.loading import model_of, numbers, read_costs
from bmrm.errors import DataError, ParameterError
from bmrm.io.csr import check_numbering
from bmrm.linear import regularizers
from bmrm.linear.models.certificate import Certificate, TrainingData
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.models.liblinear import check_exportable
from bmrm.linear.models.model import CLASS_LOSSES, Model
from bmrm.losses.labels import encode
from bmrm.matrix.row_weights import lam_from_c

if TYPE_CHECKING:
    from bmrm.cli.train_options import TrainOptions
    from bmrm.io import Data
    from bmrm.linear.models.calibration import Calibration
    from bmrm.linear.result import Result
    from bmrm.linear.solvers.progress import Progress
    from bmrm.matrix.dataset import Dataset


def make_loss(options: TrainOptions) -> losses.Loss:
    """Make the loss of the options."""
    if options.costs is None:
        return losses.get(options.loss, **options.loss_params)
    return losses.get(options.loss, costs=read_costs(options.costs), **options.loss_params)


def solver_arguments(options: TrainOptions, n_features: int, zero_based: bool | None) -> dict[str, Any]:
    """Return the options as keywords of `bmrm.solve`; read the files named in them."""
    penalised = options.bias > 0
    arguments = {
        "loss": make_loss(options),
        "reg": options.reg,
        **penalty_arguments(options, n_features, zero_based),
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


def penalty_arguments(options: TrainOptions, n_features: int, zero_based: bool | None) -> dict[str, Any]:
    """Return the arguments of the penalty, besides its name and lambda."""
    prior = model_of(options.prior)
    if prior is not None:
        check_numbering("--prior", prior.zero_based, zero_based)
        w = _widened("--prior", prior, n_features)
        prior = dataclasses.replace(prior, w=w, feature_names=None)  # the reader has compared them
    return {
        "l1_ratio": options.l1_ratio,
        "positive": options.positive,
        "feature_lambda": numbers(options.feature_lambda, n_features, "factor", "features"),
        "prior": prior,
    }


def check(options: TrainOptions) -> None:
    """Raise for errors in the options themselves, before any data are read."""
    from bmrm.linear.solvers.settings import Settings

    loss = make_loss(options)
    if loss.no_intercept and (options.intercept or options.bias > 0):
        raise ParameterError(f"loss {loss.name}: takes no intercept, {loss.no_intercept}")
    if options.offset is not None and loss.name in CLASS_LOSSES:
        raise ParameterError(
            f"--offset: one number per row shifts all classes of the loss {loss.name} alike; "
            "bmrm.solve takes one per class"
        )
    if options.offset is not None and options.export == "liblinear":
        raise ParameterError("--offset: LIBLINEAR's model format cannot store it")
    Settings(options.solver, options.tol, options.tol_kind, options.max_iter, math.inf)
    if options.l1_ratio is not None and options.reg != "elastic_net":
        raise ParameterError(f"--l1-ratio: found --reg {options.reg}, expected elastic_net")
    if options.export == "liblinear":
        check_exportable(options.loss, None, None)


def check_labels(
    options: TrainOptions, data: Data, weights: np.ndarray[Any, np.dtype[np.float64]] | None
) -> None:
    """Raise for labels that the loss does not accept, or data that cannot be exported as requested."""
    check_export(options, data, encode(data.y, data.X.shape[0], make_loss(options), weights)[1])


def check_export(options: TrainOptions, data: Data, classes: np.ndarray[Any, Any] | None) -> None:
    """Raise if the classes or the data cannot be exported as requested."""
    if options.export == "liblinear":
        check_exportable(options.loss, None if classes is None else classes.tolist(), data.zero_based)


def start_of(options: TrainOptions, warm: Model, n_features: int) -> np.ndarray[Any, Any]:
    """Return the model's weights as a starting point of the solver."""
    # A penalised intercept is an extra feature after the others; an unpenalised one follows from the weights.
    bias = np.atleast_1d(warm.intercept) / options.bias if options.bias > 0 else np.empty(0)
    columns = warm.w.shape[1:]
    return np.concatenate([_widened("--warm-start", warm, n_features), bias.reshape(-1, *columns)])


def _widened(option: str, model: Model, n_features: int) -> np.ndarray[Any, Any]:
    """Return the model's weights, extended to the features of the data by zeros."""
    missing = n_features - model.n_features
    if missing < 0:
        raise DataError(
            f"{option}: found {n_features} features in the data, expected the model's {model.n_features} "
            f"(try --n-features {model.n_features})"
        )
    return np.concatenate([model.w, np.zeros((missing, *model.w.shape[1:]))])


def start_from(options: TrainOptions, warm: Model | Checkpoint | None, n_features: int) -> Any:
    """Return what a solve is to start from."""
    return start_of(options, warm, n_features) if isinstance(warm, Model) else warm


def snapshots(options: TrainOptions, dataset: Dataset) -> Callable[[Progress], Model]:
    """Return a function that makes a model of the best iterate of a running solver."""
    from bmrm.linear.backends.choose import backend_of

    data = dataset.source
    assert data is not None
    loss = make_loss(options)
    backend = backend_of(dataset)
    coded, classes = backend.labels(loss)
    check_export(options, data, classes)
    columns = len(classes) if loss.several and classes is not None else 1
    penalty = penalty_of(options, dataset, columns)

    def snapshot(state: Progress) -> Model:
        w, intercept = state.best()
        thresholds = None
        if loss.task == "ordinal":
            thresholds = backend.thresholds(loss, dataset.margins(w), coded)
        objective, lower_bound, rounding = state.bounds()
        return Model(
            w=w,
            intercept=intercept,
            loss=loss.name,
            task=loss.task,
            classes=None if classes is None else tuple(classes.tolist()),
            lam=penalty.lam,
            reg=options.reg,
            reg_params=penalty.params,
            loss_params=loss.params,
            certificate=Certificate(
                objective=objective,
                lower_bound=lower_bound,
                status="running",
                n_iter=state.iteration,
                tol=options.tol,
                tol_kind=options.tol_kind,
                dtype=data.dtype,
                rounding=rounding,
            ),
            zero_based=data.zero_based,
            feature_names=data.feature_names,
            training=TrainingData(*dataset.shape, dataset.nnz, data.checksum),
            thresholds=None if thresholds is None else tuple(map(float, thresholds)),
            has_offset=dataset.offset is not None,
        )

    return snapshot


def penalty_of(options: TrainOptions, dataset: Dataset, columns: int) -> regularizers.Regularizer:
    """Make the penalty of the weights, ``columns`` per feature, without intercepts."""
    lam = options.lam if options.cost is None else lam_from_c(options.cost, dataset.total_weight)
    arguments = penalty_arguments(options, dataset.shape[1], dataset.zero_based)
    arguments["prior"] = arguments["prior"] and arguments["prior"].w
    return regularizers.get(options.reg, lam, dataset.shape[1], columns=columns, **arguments)


def write_model(
    result: Result, options: TrainOptions, path: str, calibration: Calibration | None = None
) -> None:
    """Write the model in the format that the options ask for."""
    model = Model.from_result(result, calibration=calibration)
    (model.export_liblinear if options.export == "liblinear" else model.save)(path)
