"""Regressors: means, quantiles and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from bmrm.base.vectors import Vector
from bmrm.estimators.base import LinearEstimator
from bmrm.estimators.progress import Report, with_callbacks
from bmrm.estimators.selection import SelectionMixin
from bmrm.estimators.spaces import Space, fits_in_space
from bmrm.linear.selection.select import LAMS
from bmrm.losses import Loss


class _LinearRegressor(RegressorMixin, LinearEstimator):
    """What regressors share: targets and predictions."""

    tasks = ("regression", "count")
    intercept_: float

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss == "poisson"
        return tags

    def _targets(self, X: Any, y: Any, sample_weight: Any, **checks: Any) -> tuple[Any, Any, Vector | None]:
        """Validate the training data; return X, the targets, and the weights of the rows."""
        X, y = self._validated(X, y, y_numeric=True, **checks)
        return X, y, self._weights(sample_weight, X)

    def predict(self, X: Any, offset: Any = None) -> Vector:
        """Return ``x . coef_ + intercept_`` for each row, and its exponential for the loss poisson.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        values = self._values(X, "predict", offset)
        return Space.of(X).give(np.asarray(self.model_.predictions(values)))

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the coefficient of determination R^2 of the predictions.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
        sample_weight : array_like of shape (n_samples,), optional
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.

        Returns
        -------
        float
        """
        return float(r2_score(y, self.predict(X, offset), sample_weight=sample_weight))


class BMRMRegressor(_LinearRegressor):
    """Linear regression with a certificate: `bmrm.solve` for real targets and counts.

    Parameters
    ----------
    loss : str or Loss, default "squared"
        squared, absolute, quantile, epsilon_insensitive, squared_epsilon_insensitive, huber, poisson; or a
        `bmrm.losses.CallableLoss` with the task "regression" or "count".
    reg : {"l2", "l1", "elastic_net"}, default "l2"
    lam : float, optional
        Strength of the regulariser; see `bmrm.solve`. Instead of C. docs/estimators.md has the lam that
        belongs to the alpha of scikit-learn's estimators.
    C : float, optional
        Inverse strength: ``lam = 1 / (C sum of weights)``. If neither lam nor C is given, C is 1.
    tau, epsilon, delta : float, default 0.5, 0.1, 1.0
        Parameters of quantile, of epsilon_insensitive and squared_epsilon_insensitive, and of huber.
    penalize_intercept : bool or "auto", default "auto"
        Whether the intercept is penalised like the weights. "auto" is False here.
    l1_ratio, fit_intercept, intercept_scaling, tol, max_iter, warm_start, device, gpu_mem, threads, n_jobs
        See `BMRMClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    model_ : bmrm.Model
        The model of the core, with its certificate. ``model_.save(path)`` writes a file without pickle.
    n_iter_, objective_, lower_bound_, dual_gap_, status_, n_features_in_, feature_names_in_
        See `BMRMClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.estimators import BMRMRegressor
    >>> X = np.arange(10.0)[:, None]
    >>> median = BMRMRegressor("quantile", lam=1e-6).fit(X, 3.0 * X[:, 0] + 1.0)
    >>> median.predict([[20.0]]).round(3), median.status_
    (array([61.]), 'converged')
    >>> round(median.score(X, 3.0 * X[:, 0] + 1.0), 6)
    1.0
    """

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        reg: str = "l2",
        lam: float | None = None,
        C: float | None = None,
        l1_ratio: float = 0.5,
        tau: float = 0.5,
        epsilon: float = 0.1,
        delta: float = 1.0,
        fit_intercept: bool = True,
        penalize_intercept: bool | str = "auto",
        intercept_scaling: float = 1.0,
        tol: float = 1e-4,
        max_iter: int = 10_000,
        warm_start: bool = False,
        device: str = "auto",
        gpu_mem: int | str | None = None,
        threads: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.reg = reg
        self.lam = lam
        self.C = C
        self.l1_ratio = l1_ratio
        self.tau = tau
        self.epsilon = epsilon
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.device = device
        self.gpu_mem = gpu_mem
        self.threads = threads
        self.n_jobs = n_jobs

    @with_callbacks
    @fits_in_space
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
            Real targets; at least 0 for the loss poisson.
        sample_weight : array_like of shape (n_samples,), optional
            A row of weight 2 counts like two rows; a row of weight 0 does not count.
        offset : array_like of shape (n_samples,), optional
            Numbers that are added to ``x . coef_ + intercept_``; see docs/losses.md. `predict` then asks for
            those of its rows.

        Returns
        -------
        BMRMRegressor
            The estimator itself.

        Raises
        ------
        ValueError
            If data or parameters cannot be used; see ``bmrm.errors``.
        bmrm.errors.Interrupted
            On Ctrl-C. The attributes are then those of the best model so far.

        Warns
        -----
        ConvergenceWarning
            If ``status_`` is not "converged".
        """
        X, y, weights = self._targets(X, y, sample_weight)
        earlier = getattr(self, "model_", None) if self.warm_start else None
        options = {"sample_weight": weights, "offset": self._offsets(offset, X), "warm_start": earlier}
        self._train(X, y, self._loss(), Report(self, X, y), **options)
        return self


class BMRMRegressorCV(SelectionMixin, _LinearRegressor):
    """Linear regression whose lam is chosen by cross validation: `bmrm.select`.

    Parameters
    ----------
    loss : str or Loss, default "squared"
        See `BMRMRegressor`.
    scoring : str, optional
        "neg_mean_squared_error", "neg_mean_absolute_error", "neg_mean_poisson_deviance", or a metric of
        `bmrm.select`; default: what fits the loss.
    lams, cv, rule, random_state
        See `BMRMClassifierCV`.
    reg, l1_ratio, tau, epsilon, delta, fit_intercept, penalize_intercept, intercept_scaling
        See `BMRMRegressor`.
    tol, max_iter, device, gpu_mem, threads, n_jobs
        See `BMRMClassifier`.

    Attributes
    ----------
    scores_ : ndarray of shape (n_lams, n_folds)
        The metric on each fold's own rows, by the model that has not seen them. Errors are positive: the
        smaller, the better.
    lam_, lams_, n_iter_
        See `BMRMClassifierCV`.
    coef_, intercept_, objective_, lower_bound_, dual_gap_, status_, model_
        Of the model trained on all rows with the chosen lam; see `BMRMRegressor`.
    n_features_in_, feature_names_in_
        See `BMRMClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.estimators import BMRMRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> search = BMRMRegressorCV(lams=[1.0, 0.1, 0.01]).fit(X, X[:, 0] + 0.1 * rng.standard_normal(200))
    >>> search.lam_, search.status_
    (0.01, 'converged')
    >>> search.predict(X).shape, search.score(X, X[:, 0]) > 0.9
    ((200,), True)
    """

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        lams: Sequence[float] = LAMS,
        cv: Any = 5,
        scoring: str | None = None,
        rule: str = "best",
        random_state: Any = 0,
        reg: str = "l2",
        l1_ratio: float = 0.5,
        tau: float = 0.5,
        epsilon: float = 0.1,
        delta: float = 1.0,
        fit_intercept: bool = True,
        penalize_intercept: bool | str = "auto",
        intercept_scaling: float = 1.0,
        tol: float = 1e-4,
        max_iter: int = 10_000,
        device: str = "auto",
        gpu_mem: int | str | None = None,
        threads: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.lams = lams
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.random_state = random_state
        self.reg = reg
        self.l1_ratio = l1_ratio
        self.tau = tau
        self.epsilon = epsilon
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.gpu_mem = gpu_mem
        self.threads = threads
        self.n_jobs = n_jobs

    @with_callbacks
    @fits_in_space
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, groups: Any = None
    ) -> Self:
        """Choose lam, and train with it on all rows.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
        sample_weight : array_like of shape (n_samples,), optional
            Counts in training and in the scores.
        offset : array_like of shape (n_samples,), optional
            Numbers that are added to ``x . coef_ + intercept_``; see docs/losses.md. `predict` then asks for
            those of its rows.
        groups : array_like of shape (n_samples,), optional
            Rows of a group are in one fold.

        Returns
        -------
        BMRMRegressorCV
            The estimator itself.

        Raises
        ------
        ValueError
            If data or parameters cannot be used.
        bmrm.errors.Interrupted
            On Ctrl-C, with the selection so far.

        Warns
        -----
        ConvergenceWarning
            If a solve has not converged.
        """
        X, y, weights = self._targets(X, y, sample_weight, ensure_min_samples=2)
        of_rows = {"sample_weight": weights, "offset": self._offsets(offset, X)}
        self._choose(X, y, self._loss(), Report(self, X, y), of_rows, groups)
        return self
