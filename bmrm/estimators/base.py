"""What the estimators share: options and data for the core, and fitted attributes from what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bmrm import losses
from bmrm.base.arguments import has_masked
from bmrm.base.constructors import Idle, with_known_names
from bmrm.base.notices import warn
from bmrm.base.offsets import row_offsets
from bmrm.base.suggestions import suggest
from bmrm.base.vectors import Vector
from bmrm.errors import DataError, Interrupted, ParameterError
from bmrm.estimators.progress import CallbackSupportMixin, Report
from bmrm.estimators.spaces import Space, check_same_space, to_numpy
from bmrm.linear.models.model import Model
from bmrm.linear.result import Result
from bmrm.linear.solve import solve
from bmrm.linear.solvers.progress import Progress
from bmrm.losses import Loss

CERTIFICATE = {"objective_": "objective", "lower_bound_": "lower_bound", "dual_gap_": "gap"}
"""Fitted attributes, and the field of a result that each of them is."""

PENALISED_INTERCEPT = ("hinge", "squared_hinge", "multiclass")
"""Losses whose intercept is penalised by default, as in LIBLINEAR and LinearSVC; the last is the hinge of
several classes."""


def refuse_masked(what: str, given: Any) -> None:
    """Raise for masked values: scikit-learn's validation would take what lies under the mask."""
    if has_masked(given):
        raise DataError(f"{what}: found masked values, expected a number in each place")


IDLE: Idle = {
    "penalty": lambda value, others: value == others.get("reg", "l2") == "l2",
    "dual": lambda value, _: value in ("auto", True, False),
    "copy_X": lambda value, _: isinstance(value, bool),
    "random_state": lambda value, _: value is None,
    "verbose": lambda value, _: not value,
}
"""Parameters of scikit-learn's linear models that change nothing here."""


class LinearEstimator(CallbackSupportMixin, BaseEstimator):
    """A linear model that the core trains. Its parameters are in the subclasses.

    Attributes
    ----------
    tasks : tuple of str
        Tasks of the losses that the estimator takes.
    """

    tasks: tuple[str, ...] = ()

    loss: str | Loss
    reg: str
    lam: float | None
    C: float | None
    l1_ratio: float
    fit_intercept: bool
    penalize_intercept: bool | str
    intercept_scaling: float
    tol: float
    max_iter: int
    device: str
    gpu_mem: int | str | None
    threads: int | None
    n_jobs: int | None

    model_: Any  # bmrm.Model, or a list of them, one for each class
    coef_: Vector
    objective_: Any  # float, or an array with one for each class; so are the next two
    lower_bound_: Any
    dual_gap_: Any
    n_iter_: int
    status_: str
    n_features_in_: int
    feature_names_in_: Any

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", with_known_names(cls, vars(cls)["__init__"], IDLE))  # noqa: B010

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
        return tags

    # ---- what the core gets

    def _loss(self) -> Loss:
        """Return the loss; its parameter is the estimator's parameter of the same name."""
        loss = self.loss
        if isinstance(loss, Loss):
            if loss.task not in self.tasks:
                raise ParameterError(
                    f"loss {loss.name}: found the task {loss.task}, expected {' or '.join(self.tasks)}"
                )
            return loss
        known = [name for name, cls in losses.LOSSES.items() if cls.task in self.tasks]
        if loss not in known:
            hint = suggest(str(loss), known)
            raise ParameterError(f"loss: found {loss!r}, expected one of {', '.join(known)}{hint}")
        parameter = losses.LOSSES[loss].parameter
        given = None if parameter is None else getattr(self, parameter)
        return losses.get(loss, **({} if parameter is None or given is None else {parameter: given}))

    def _strength(self) -> dict[str, Any]:
        """Return the option lam or C."""
        if self.lam is None:
            return {"C": 1.0 if self.C is None else self.C}
        if self.C is not None:
            raise ParameterError("lam, C: found both, expected one of them")
        return {"lam": self.lam}

    def _intercept(self, loss: Loss) -> dict[str, Any]:
        """Return the options of the intercept; a loss that no intercept would change gets none."""
        penalize = self.penalize_intercept
        if isinstance(penalize, str):
            if penalize != "auto":
                raise ParameterError(
                    f"penalize_intercept: found {penalize!r}, expected True, False or 'auto'"
                )
            penalize = loss.name in PENALISED_INTERCEPT
        fit = bool(self.fit_intercept) and not loss.no_intercept
        return {
            "fit_intercept": fit,
            "penalize_intercept": fit and penalize,
            "intercept_scaling": self.intercept_scaling,
        }

    def _options(self, loss: Loss) -> dict[str, Any]:
        """Return the options of `bmrm.solve` and `bmrm.select` that all estimators have."""
        return {
            "loss": loss,
            "reg": self.reg,
            "l1_ratio": self.l1_ratio if self.reg == "elastic_net" else None,
            "tol": self.tol,
            "max_iter": self.max_iter,
            "device": self.device,
            "gpu_mem": self.gpu_mem,
            "threads": self._threads(),
            **self._intercept(loss),
        }

    def _threads(self) -> int | None:
        """Return the number of threads; None lets the core choose."""
        if self.threads is not None or self.n_jobs is None:
            return self.threads
        return int(effective_n_jobs(self.n_jobs))

    def _validated(self, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
        """Validate X, and y if it is given, with scikit-learn's rules; return NumPy's arrays."""
        for what, given in (("X", X), ("y", y)):
            refuse_masked(what, given)
        dtypes = Space.of(X).float_dtypes  # the core stores float32 as it is
        found = validate_data(self, X, y, accept_sparse="csr", dtype=dtypes, **checks)
        return tuple(map(to_numpy, found)) if isinstance(found, tuple) else to_numpy(found)

    def _weights(self, sample_weight: Any, X: Any) -> Vector | None:
        """Validate the weights of the rows."""
        refuse_masked("sample_weight", sample_weight)
        sample_weight = to_numpy(sample_weight)
        if sample_weight is None:
            return None
        found = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not found.any():
            raise ValueError("Sample weights must contain at least one non-zero number.")
        return np.asarray(found)

    def _offsets(self, offset: Any, X: Any) -> Vector | None:
        """Validate the offsets of the rows."""
        return row_offsets(to_numpy(offset), X.shape[0])

    # ---- training

    def _train(self, X: Any, y: Any, loss: Loss, report: Report, **options: Any) -> None:
        """Train one model and fit the attributes; if Ctrl-C ends it, those of the best model so far."""
        try:
            has_offset = options.get("offset") is not None
            on_pass = report.on_pass(self._attributes_at(loss, has_offset=has_offset))
            result = self._solve(X, y, loss, on_pass, **options)
        except Interrupted as stop:
            if isinstance(stop.result, Result):
                self._take([stop.result])
            raise
        self._take([result])
        self._end(report, [result.status])

    def _solve(self, X: Any, y: Any, loss: Loss, callback: Any, **options: Any) -> Result:
        return solve(X, y, **self._options(loss), **self._strength(), callback=callback, **options)

    def _take(self, results: Sequence[Result], models: Sequence[Model] | None = None) -> None:
        """Fit the attributes from the results of the models."""
        models = models or [Model.from_result(result) for result in results]
        if hasattr(self, "feature_names_in_"):
            names = tuple(self.feature_names_in_.tolist())
            models = [replace(model, feature_names=names) for model in models]
        for name, value in self._attributes(models).items():
            setattr(self, name, value)
        for name, field in CERTIFICATE.items():
            found = np.array([getattr(result, field) for result in results])
            setattr(self, name, found if len(found) > 1 else float(found[0]))
        self.n_iter_ = max(result.n_iter for result in results)
        self.status_ = next((r.status for r in results if r.status != "converged"), "converged")

    def _end(self, report: Report, statuses: Sequence[str]) -> None:
        """Report that the fit is over, and warn of solves that have not converged."""
        report.end()
        left = [status for status in statuses if status != "converged"]
        if left:
            which = f"{len(left)} of {len(statuses)} solves" if len(statuses) > 1 else "the solve"
            warn(
                f"{which} ended with status {', '.join(sorted(set(left)))} before the gap was within "
                f"tol={self.tol:g}; dual_gap_ says how far the objective may be from the optimum",
                ConvergenceWarning,
            )

    def _attributes(self, models: Sequence[Model]) -> dict[str, Any]:
        """Return the attributes of a model, or of one for each class."""
        (model,) = models
        return {"model_": model, "coef_": model.w.copy(), "intercept_": model.intercept}

    def _attributes_at(self, loss: Loss, *, has_offset: bool) -> Callable[[Progress], dict[str, Any]]:
        """Return a function that returns the attributes if training stopped after a pass."""

        def attributes(state: Progress) -> dict[str, Any]:
            w, intercept = state.best()
            # lam changes no prediction, and is known to the core alone if C was given.
            classes = self._model_classes()
            model = Model(w, intercept, loss.name, loss.task, classes, lam=1.0, has_offset=has_offset)
            return self._attributes([model])

        return attributes

    def _model_classes(self) -> tuple[Any, ...] | None:
        """Return the labels of the core's models."""
        return None

    # ---- prediction

    def _values(self, X: Any, method: str, offset: Any = None) -> Vector:
        """Return the decision values of new rows by the core's model, or by that of each class.

        ``method`` is what the user called, for messages.
        """
        check_is_fitted(self, "model_")
        check_same_space(self, X, method)
        X, options = self._validated(X, reset=False), {"offset": to_numpy(offset), "threads": self._threads()}
        if isinstance(self.model_, list):  # one for each class
            return np.column_stack([model.decision_function(X, **options) for model in self.model_])
        return np.asarray(self.model_.decision_function(X, **options))
