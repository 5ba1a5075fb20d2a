"""Novelty detection: a half-space that holds most rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin

from bmrm.base.vectors import Vector
from bmrm.estimators.base import LinearEstimator
from bmrm.estimators.progress import Report, with_callbacks
from bmrm.estimators.spaces import Space, fits_in_space, to_numpy
from bmrm.linear.models.model import Model
from bmrm.losses import Loss


class BMRMOneClass(OutlierMixin, LinearEstimator):
    """The linear one-class support vector machine with a certificate: `bmrm.solve` for novelty detection.

    Parameters
    ----------
    nu : float, default 0.1
        Maximum fraction of rows treated as outliers.
    lam : float, default 1.0
        Strength of the regulariser. With reg "l2" it only sets the scale of the decision values.
    reg : {"l2", "l1", "elastic_net"}, default "l2"
    l1_ratio, tol, max_iter, warm_start, device, gpu_mem, threads, n_jobs
        See `BMRMClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    offset_ : ndarray of shape (1,)
        Minus the intercept: ``decision_function(X) = score_samples(X) - offset_``.
    model_ : bmrm.Model
    n_iter_, objective_, lower_bound_, dual_gap_, status_, n_features_in_, feature_names_in_
        See `BMRMClassifier`.

    References
    ----------
    Schoelkopf, Platt, Shawe-Taylor, Smola, Williamson, Neural Comp. 13 (2001) 1443.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.estimators import BMRMOneClass
    >>> X = 5.0 + np.random.default_rng(0).standard_normal((100, 2))
    >>> detector = BMRMOneClass(nu=0.05).fit(X)
    >>> detector.predict([[5.0, 5.0], [-5.0, -5.0]])
    array([ 1, -1])
    >>> values = detector.decision_function([[5.0, 5.0]])
    >>> values > 0, values == detector.score_samples([[5.0, 5.0]]) - detector.offset_
    (array([ True]), array([ True]))
    """

    tasks = ("novelty",)
    intercept_: Vector
    offset_: Vector
    loss = "novelty"

    def __init__(
        self,
        nu: float = 0.1,
        *,
        lam: float = 1.0,
        reg: str = "l2",
        l1_ratio: float = 0.5,
        tol: float = 1e-4,
        max_iter: int = 10_000,
        warm_start: bool = False,
        device: str = "auto",
        gpu_mem: int | str | None = None,
        threads: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.nu = nu
        self.lam = lam
        self.reg = reg
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.device = device
        self.gpu_mem = gpu_mem
        self.threads = threads
        self.n_jobs = n_jobs

    def _strength(self) -> dict[str, Any]:
        return {"lam": self.lam}

    def _intercept(self, loss: Loss) -> dict[str, Any]:
        return {}  # the loss brings its own

    def _attributes(self, models: Sequence[Model]) -> dict[str, Any]:
        (model,) = models
        intercept = np.atleast_1d(model.intercept)
        found = {"model_": model, "coef_": model.w[None].copy(), "intercept_": intercept}
        return {**found, "offset_": -intercept}

    @with_callbacks
    @fits_in_space
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        y : object
            Ignored.
        sample_weight : array_like of shape (n_samples,), optional
            A row of weight 2 counts like two rows; a row of weight 0 does not count.
        offset : array_like of shape (n_samples,), optional
            Numbers that are added to ``x . coef_ + intercept_``; see docs/losses.md. `predict` then asks for
            those of its rows.

        Returns
        -------
        BMRMOneClass
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
        X = self._validated(X)
        weights = self._weights(sample_weight, X)
        earlier = getattr(self, "model_", None) if self.warm_start else None
        report = Report(self, X, None)
        options = {"sample_weight": weights, "offset": self._offsets(offset, X), "warm_start": earlier}
        self._train(X, None, self._loss(), report, **options)
        return self

    def decision_function(self, X: Any, offset: Any = None) -> Vector:
        """Return ``x . coef_ + intercept_``: at least 0 for a usual row, below 0 for a novel one.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return Space.of(X).give(self._values(X, "decision_function", offset))

    def score_samples(self, X: Any, offset: Any = None) -> Vector:
        """Return ``x . coef_``: the smaller, the more novel is the row.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return Space.of(X).give(self._values(X, "score_samples", offset) + to_numpy(self.offset_))

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return 1 for a usual row, -1 for a novel one.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.

        Returns
        -------
        ndarray of int, shape (n_samples,)
        """
        return Space.of(X).give(np.where(self._values(X, "predict", offset) >= 0.0, 1, -1))
