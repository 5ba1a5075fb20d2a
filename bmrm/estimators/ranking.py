"""Ranking: scores that order the rows of each group."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_consistent_length

from bmrm.base.vectors import Vector
from bmrm.estimators.base import LinearEstimator
from bmrm.estimators.progress import Report, with_callbacks
from bmrm.estimators.spaces import Space, fits_in_space, to_numpy
from bmrm.linear.models.metrics import RankingMetrics
from bmrm.losses import Loss


class BMRMRanker(LinearEstimator):
    """Linear ranking with a certificate: `bmrm.solve` for relevances in groups.

    Parameters
    ----------
    loss : str or Loss, default "pairwise"
        pairwise, ndcg, lambda_ndcg or mrr.
    reg : {"l2", "l1", "elastic_net"}, default "l2"
    lam : float, optional
        Strength of the regulariser; see `bmrm.solve`. Instead of C.
    C : float, optional
        Inverse strength: ``lam = 1 / (C sum of weights)``. If neither lam nor C is given, C is 1.
    k : float, default 10.0
        Positions that count in the loss ndcg, and in `score`.
    l1_ratio, tol, max_iter, warm_start, device, gpu_mem, threads, n_jobs
        See `BMRMClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    model_ : bmrm.Model
    n_iter_, objective_, lower_bound_, dual_gap_, status_, n_features_in_, feature_names_in_
        See `BMRMClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.estimators import BMRMRanker
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((60, 3)), np.repeat(np.arange(6), 10)
    >>> relevance = (X[:, 0] > 0).astype(int)
    >>> ranker = BMRMRanker(lam=1e-3).fit(X, relevance, groups=groups)
    >>> ranker.score(X, relevance, groups=groups) > 0.99
    True
    >>> ranker.predict(X).shape
    (60,)
    """

    tasks = ("ranking",)
    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    __metadata_request__score = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        loss: str | Loss = "pairwise",
        *,
        reg: str = "l2",
        lam: float | None = None,
        C: float | None = None,
        l1_ratio: float = 0.5,
        k: float = 10.0,
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
        self.k = k
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.device = device
        self.gpu_mem = gpu_mem
        self.threads = threads
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _intercept(self, loss: Loss) -> dict[str, Any]:
        return {}  # a constant changes no order

    @with_callbacks
    @fits_in_space
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, groups: Any = None
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
            Relevances.
        sample_weight : array_like of shape (n_samples,), optional
            Of the groups, see docs/losses.md.
        offset : array_like of shape (n_samples,), optional
            Numbers that are added to ``x . coef_``; see docs/losses.md. `predict` then asks for
            those of its rows.
        groups : array_like of shape (n_samples,), optional
            The group of each row: only rows of the same group are compared. If it is missing, all rows are
            one group. With scikit-learn's metadata routing it is requested by default.

        Returns
        -------
        BMRMRanker
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
        X, y = self._validated(X, y, y_numeric=True, ensure_min_samples=2)
        weights = self._weights(sample_weight, X)
        earlier = getattr(self, "model_", None) if self.warm_start else None
        of_rows = {"sample_weight": weights, "offset": self._offsets(offset, X), "groups": _groups(groups, y)}
        self._train(X, y, self._loss(), Report(self, X, y), **of_rows, warm_start=earlier)
        return self

    def predict(self, X: Any, offset: Any = None) -> Vector:
        """Return a score for each row: the higher, the nearer to the top of its group.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return Space.of(X).give(self._values(X, "predict", offset))

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, groups: Any = None
    ) -> float:
        """Return the mean NDCG at k of the groups.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
        sample_weight : array_like of shape (n_samples,), optional
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.
        groups : array_like of shape (n_samples,), optional
            If it is missing, all rows are one group.

        Returns
        -------
        float
            NaN if no group has a relevance above 0.
        """
        values, y, sample_weight = self._values(X, "score", offset), to_numpy(y), to_numpy(sample_weight)
        check_consistent_length(values, y)
        metrics = RankingMetrics(_groups(groups, y), k=max(1, int(self.k)))
        metrics.update(values, np.asarray(y, np.float64), sample_weight)
        found = metrics.report()["ndcg"]
        return np.nan if found is None else found


def _groups(groups: Any, y: Any) -> Any:
    """Return the group of each row: one for all by default."""
    return np.zeros(len(y), np.int64) if groups is None else to_numpy(groups)
