"""Classifiers: two classes, or several at once or one against the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from bmrm import losses
from bmrm.base.distinct import distinct_values
from bmrm.base.vectors import Vector
from bmrm.base.weighting import balance_factors, warn_of_absent
from bmrm.errors import ParameterError
from bmrm.estimators.base import LinearEstimator
from bmrm.estimators.progress import Report, with_callbacks
from bmrm.estimators.selection import SelectionMixin
from bmrm.estimators.spaces import Space, fits_in_space, to_numpy
from bmrm.linear.models.model import Model
from bmrm.linear.selection.one_against_rest import class_problems, solve_each
from bmrm.linear.selection.select import LAMS
from bmrm.losses import Loss

JOINT_LOSSES = {"hinge": "multiclass", "logistic": "softmax"}
"""The loss of several classes that is the given one if there are two."""


def _has_probabilities(estimator: Any) -> bool:
    return estimator.loss == "logistic" or getattr(estimator, "calibration", None) is not None


class _LinearClassifier(ClassifierMixin, LinearEstimator):
    """What classifiers share: labels, class weights, decision values and probabilities."""

    tasks = ("binary",)
    multi_class: str = "joint"
    class_weight: Mapping[Any, float] | str | None
    costs: Any

    classes_: Any
    intercept_: Vector

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.loss in JOINT_LOSSES or self.multi_class == "ovr"
        return tags

    def _loss(self) -> Loss:
        if self.loss in JOINT_LOSSES.values():
            name = next(two for two, several in JOINT_LOSSES.items() if several == self.loss)
            raise ParameterError(
                f"loss: found {self.loss!r}, expected {name!r}, which is that for several classes"
            )
        return super()._loss()

    def _labelled(self, X: Any, y: Any, sample_weight: Any, **checks: Any) -> tuple[Any, Any, Vector | None]:
        """Validate the training data; return X, the labels for the core, and the weights of the rows."""
        X, y = self._validated(X, y, **checks)
        check_classification_targets(y)
        weights = self._weights(sample_weight, X)
        # A row of weight 0 may have another label.
        self.classes_ = distinct_values(y if weights is None else y[weights > 0.0])
        if len(self.classes_) < 2:
            raise ValueError(f"y: found one class, {self.classes_[0]!r}, expected two or more classes")
        if self.class_weight is not None:
            weights = np.ones(len(y)) if weights is None else weights
            weights = weights * self._class_factors(y, weights)
        return X, self._core_labels(y), weights

    def _class_factors(self, y: Any, weights: Vector) -> Vector:
        """Return a factor for the weight of each row, that of its class."""
        rows = [y == label for label in self.classes_]
        if self.class_weight == "balanced":
            each = balance_factors(np.array([weights[of_class].sum() for of_class in rows]))
        else:
            each = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
            if isinstance(self.class_weight, Mapping):
                warn_of_absent(self.class_weight, self.classes_.tolist())
        return np.select(rows, list(each), 1.0)

    def _joint_loss(self, loss: Loss) -> Loss:
        """Return the loss for the classes, all of them at once."""
        if len(self.classes_) == 2:
            return loss
        if loss.name not in JOINT_LOSSES:
            each = "" if isinstance(self, SelectionMixin) else ", multi_class='ovr' trains a model for each"
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"found {len(self.classes_)} classes, expected two for the loss {loss.name}; hinge and "
                f"logistic take more{each}"
            )
        costs = {"costs": self.costs} if loss.name == "hinge" and self.costs is not None else {}
        return losses.get(JOINT_LOSSES[loss.name], **costs)

    def _core_labels(self, labels: Any) -> Any:
        """Return labels for the core: the same, but of dates, which it does not have, indices in classes_."""
        return np.searchsorted(self.classes_, labels) if self.classes_.dtype.kind in "mM" else labels

    def _model_classes(self) -> tuple[Any, ...]:
        return tuple(self._core_labels(self.classes_).tolist())

    def _attributes(self, models: Sequence[Model]) -> dict[str, Any]:
        w = np.stack([model.w for model in models], axis=1) if len(models) > 1 else models[0].w
        intercept = np.array([model.intercept for model in models]).ravel()
        model: Any = models[0] if len(models) == 1 else list(models)
        return {"model_": model, "coef_": np.atleast_2d(w.T).copy(), "intercept_": intercept}

    def decision_function(self, X: Any, offset: Any = None) -> Vector:
        """Return ``x . coef_ + intercept_``: above 0 for the second of two classes.

        Of more than two classes, that with the largest value is predicted.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_classes) for more than two classes
        """
        return Space.of(X).give(self._values(X, "decision_function", offset))

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return the class of each row.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.

        Returns
        -------
        ndarray of shape (n_samples,), of the type of ``classes_``
        """
        values = self._values(X, "predict", offset)
        codes = values.argmax(axis=1) if values.ndim > 1 else (values > 0.0).astype(np.intp)
        return Space.of(X).give(to_numpy(self.classes_)[codes])

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the accuracy of the predictions.

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
        return float(accuracy_score(y, self.predict(X, offset), sample_weight=sample_weight))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any, offset: Any = None) -> Vector:
        """Return the probability of each class, for the loss logistic or with a calibration.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Of one model per class, each row is scaled to the sum 1.
        """
        return Space.of(X).give(self._probabilities(X, "predict_proba", offset))

    def _probabilities(self, X: Any, method: str, offset: Any) -> Vector:
        values = self._values(X, method, offset)
        if isinstance(self.model_, list):
            pairs = zip(self.model_, values.T, strict=True)
            found = np.column_stack([model.probabilities(column) for model, column in pairs])
            return np.asarray(found / found.sum(axis=1, keepdims=True))
        found = self.model_.probabilities(values)
        return found if found.ndim > 1 else np.column_stack([1.0 - found, found])

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any, offset: Any = None) -> Vector:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        offset : array_like of shape (n_samples,), or 0, optional
            Needed if `fit` was given offsets; 0 adds nothing.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return Space.of(X).give(np.log(self._probabilities(X, "predict_log_proba", offset)))


class BMRMClassifier(_LinearClassifier):
    """A linear classifier with a certificate: `bmrm.solve` for two classes or more.

    Parameters
    ----------
    loss : str or Loss, default "hinge"
        A loss for two classes: hinge, squared_hinge, huber_hinge, logistic, exponential, roc_area, f_beta,
        precision_at_k, recall_at_k, prbep; or a `bmrm.losses.CallableLoss` with the task "binary". For more
        than two classes hinge is `multiclass` and logistic is `softmax`.
    reg : {"l2", "l1", "elastic_net"}, default "l2"
    lam : float, optional
        Strength of the regulariser; see `bmrm.solve`. Instead of C.
    C : float, optional
        Inverse strength as in scikit-learn and LIBLINEAR: ``lam = 1 / (C sum of weights)``. If neither lam
        nor C is given, C is 1.
    l1_ratio : float, default 0.5
        Share of the l1 norm in the elastic net.
    multi_class : {"joint", "ovr"}, default "joint"
        For more than two classes, all at once or one model for each class against the rest.
    fit_intercept : bool, default True
        A loss that no intercept would change, such as roc_area, gets none.
    penalize_intercept : bool or "auto", default "auto"
        Whether the intercepts are penalised like the weights. "auto": for hinge and squared_hinge, as in
        LinearSVC; otherwise not, as in LogisticRegression.
    intercept_scaling : float, default 1.0
        Value of the constant feature of a penalised intercept.
    class_weight : dict of label to weight, or "balanced", optional
        Multiplies the weights of the rows of a class; "balanced" gives all classes the same sum of weights.
    tol : float, default 1e-4
        Certified relative gap at which training ends.
    max_iter : int, default 10000
        Maximum number of passes over the data.
    warm_start : bool, default False
        Start from the last fit.
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
    gpu_mem : int or str, optional
        Maximum device memory; see `bmrm.Dataset`. Give it if several processes share a GPU.
    threads : int, optional
        Maximum number of threads; default: ``n_jobs``, or else chosen by the core. No result depends on it.
    n_jobs : int, optional
        As ``threads``, by joblib's conventions; scikit-learn's name.
    h, beta : float, default 0.5, 1.0
        Parameters of huber_hinge and f_beta.
    k : float, optional
        Parameter of precision_at_k (default: 10) and recall_at_k (default: the number of positive rows).
    costs : array_like of shape (n_classes, n_classes), optional
        For hinge and more than two classes: the cost of predicting one class (column) for another (row).

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features), or (n_classes, n_features) for more than two classes
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        Of the rows of positive weight.
    n_iter_ : int
        Number of passes over the data, the largest if there is a model for each class.
    objective_, lower_bound_, dual_gap_ : float, or ndarray of shape (n_classes,) for a model for each class
        The certificate: the objective of the fitted model, a number that no model is below, and their
        difference.
    status_ : str
        "converged" if the gap is within tol; otherwise see `bmrm.Result`.
    model_ : bmrm.Model, or a list of one for each class
        The model of the core, with its certificate, labels and names of columns. ``model_.save(path)`` writes
        a file without pickle.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape ``(n_features_in_,)``
        Only if X had names. In another order they are an error.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.estimators import BMRMClassifier
    >>> X, y = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]), np.array(["a", "a", "b"])
    >>> classifier = BMRMClassifier(tol=1e-6).fit(X, y)
    >>> classifier.predict(X), classifier.dual_gap_ <= 1e-6 * classifier.objective_
    (array(['a', 'a', 'b'], dtype='<U1'), True)
    >>> classifier.decision_function(X).shape, classifier.score(X, y)
    ((3,), 1.0)
    >>> classifier = BMRMClassifier("logistic", C=100.0).fit(X, y)
    >>> classifier.predict_proba(X).argmax(axis=1), classifier.predict_log_proba(X).shape
    (array([0, 0, 1]), (3, 2))
    """

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
        reg: str = "l2",
        lam: float | None = None,
        C: float | None = None,
        l1_ratio: float = 0.5,
        multi_class: str = "joint",
        fit_intercept: bool = True,
        penalize_intercept: bool | str = "auto",
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        tol: float = 1e-4,
        max_iter: int = 10_000,
        warm_start: bool = False,
        device: str = "auto",
        gpu_mem: int | str | None = None,
        threads: int | None = None,
        n_jobs: int | None = None,
        h: float = 0.5,
        beta: float = 1.0,
        k: float | None = None,
        costs: Any = None,
    ) -> None:
        self.loss = loss
        self.reg = reg
        self.lam = lam
        self.C = C
        self.l1_ratio = l1_ratio
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.device = device
        self.gpu_mem = gpu_mem
        self.threads = threads
        self.n_jobs = n_jobs
        self.h = h
        self.beta = beta
        self.k = k
        self.costs = costs

    @with_callbacks
    @fits_in_space
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
            Labels of any type that sorts.
        sample_weight : array_like of shape (n_samples,), optional
            A row of weight 2 counts like two rows; a row of weight 0 does not count, nor does its label.
        offset : array_like of shape (n_samples,), or (n_samples, n_classes), optional
            Numbers that are added to ``x . coef_ + intercept_``; see docs/losses.md. Several classes at once
            take a column for each, in the order of ``classes_``. `predict` then asks for those of its rows.

        Returns
        -------
        BMRMClassifier
            The estimator itself.

        Raises
        ------
        ValueError
            If data or parameters cannot be used; see ``bmrm.errors``.
        bmrm.errors.Interrupted
            On Ctrl-C. The attributes are then those of the best model so far, unless there is one per class.

        Warns
        -----
        ConvergenceWarning
            If ``status_`` is not "converged".
        """
        loss = self._loss()
        if self.multi_class not in ("joint", "ovr"):
            raise ParameterError(f"multi_class: found {self.multi_class!r}, expected 'joint' or 'ovr'")
        X, y, weights = self._labelled(X, y, sample_weight)
        of_rows = {"sample_weight": weights, "offset": self._offsets(offset, X)}
        report = Report(self, X, y)
        earlier = getattr(self, "model_", None) if self.warm_start else None
        if self.multi_class == "ovr" and len(self.classes_) > 2:
            self._train_each(X, y, loss, report, of_rows, earlier)
        else:
            start = earlier if isinstance(earlier, Model) else None
            self._train(X, y, self._joint_loss(loss), report, **of_rows, warm_start=start)
        return self

    def _train_each(
        self,
        X: Any,
        y: Any,
        loss: Loss,
        report: Report,
        of_rows: Mapping[str, Vector | None],
        earlier: Any,
    ) -> None:
        """Train a model for each class against the rest; ``of_rows`` are the rows' weights and offsets."""
        number = len(self.classes_)
        starts = earlier if isinstance(earlier, list) and len(earlier) == number else [None] * number
        codes = np.searchsorted(self._core_labels(self.classes_), y)
        options, report_pass = self._options(loss), report.on_pass(None)
        of_data = {**of_rows, **{name: options.pop(name) for name in ("device", "gpu_mem", "threads")}}
        results = solve_each(
            class_problems(X, codes, number, tol=self.tol, **of_data),
            starts,
            callback=None if report_pass is None else lambda _, state: report_pass(state),
            **options,
            **self._strength(),
        )
        self._take(results)
        self._end(report, [result.status for result in results])


class BMRMClassifierCV(SelectionMixin, _LinearClassifier):
    """A linear classifier whose lam is chosen by cross validation: `bmrm.select`.

    Folds share cuts and products, so that this takes far less time than `GridSearchCV` over `BMRMClassifier`.

    Parameters
    ----------
    loss : str or Loss, default "hinge"
        See `BMRMClassifier`; several classes are trained at once.
    lams : sequence of float, default ``bmrm.linear.selection.select.LAMS``
        The grid.
    cv : int, splitter, or iterable of pairs of index arrays, default 5
        A number of folds, dealt at random with even classes; or splits whose test rows are a partition, each
        with all other rows to train on, such as those of ``StratifiedKFold`` or ``GroupKFold``.
    scoring : str, optional
        "accuracy" (the default), "f1_macro", "roc_auc", or a metric of `bmrm.select`.
    rule : {"best", "1se"}, default "best"
        "1se" takes the strongest lam whose mean score is within one standard error of the best.
    calibration : {"platt", "isotonic"}, optional
        Fit probabilities on the values of held-out rows, for two classes; see `bmrm.calibrate`.
    random_state : int, RandomState or None, default 0
        Deals the rows to folds if cv is a number.
    reg, l1_ratio, fit_intercept, penalize_intercept, intercept_scaling, class_weight, tol, max_iter
        See `BMRMClassifier`.
    device, gpu_mem, threads, n_jobs, h, beta, k, costs
        See `BMRMClassifier`.

    Attributes
    ----------
    lam_ : float
        The chosen lam.
    lams_ : ndarray of shape (n_lams,)
    scores_ : ndarray of shape (n_lams, n_folds)
        The metric on each fold's own rows, by the model that has not seen them. An error, such as the metric
        "loss", is the better the smaller.
    n_iter_ : int
        Number of passes of all solves.
    coef_, intercept_, classes_, objective_, lower_bound_, dual_gap_, status_, model_
        Of the model trained on all rows with the chosen lam; see `BMRMClassifier`.
    n_features_in_, feature_names_in_
        See `BMRMClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.estimators import BMRMClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 10))
    >>> y = np.where(X[:, 0] + rng.standard_normal(300) > 0, "high", "low")
    >>> search = BMRMClassifierCV("logistic", lams=[1.0, 0.1, 0.01]).fit(X, y)
    >>> search.lam_, search.scores_.shape
    (0.01, (3, 5))
    >>> search.predict(X).shape, search.predict_proba(X).shape, search.decision_function(X).shape
    ((300,), (300, 2), (300,))
    >>> search.score(X, y) > 0.7, search.predict_log_proba(X).shape
    (True, (300, 2))
    """

    def __init__(
        self,
        loss: str | Loss = "hinge",
        *,
        lams: Sequence[float] = LAMS,
        cv: Any = 5,
        scoring: str | None = None,
        rule: str = "best",
        calibration: str | None = None,
        random_state: Any = 0,
        reg: str = "l2",
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        penalize_intercept: bool | str = "auto",
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        tol: float = 1e-4,
        max_iter: int = 10_000,
        device: str = "auto",
        gpu_mem: int | str | None = None,
        threads: int | None = None,
        n_jobs: int | None = None,
        h: float = 0.5,
        beta: float = 1.0,
        k: float | None = None,
        costs: Any = None,
    ) -> None:
        self.loss = loss
        self.lams = lams
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.calibration = calibration
        self.random_state = random_state
        self.reg = reg
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
        self.gpu_mem = gpu_mem
        self.threads = threads
        self.n_jobs = n_jobs
        self.h = h
        self.beta = beta
        self.k = k
        self.costs = costs

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
        offset : array_like of shape (n_samples,), or (n_samples, n_classes), optional
            Numbers that are added to ``x . coef_ + intercept_``; see docs/losses.md. Several classes at once
            take a column for each, in the order of ``classes_``. `predict` then asks for those of its rows.
        groups : array_like of shape (n_samples,), optional
            Rows of a group are in one fold.

        Returns
        -------
        BMRMClassifierCV
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
        loss = self._loss()
        X, y, weights = self._labelled(X, y, sample_weight, ensure_min_samples=2)
        of_rows = {"sample_weight": weights, "offset": self._offsets(offset, X)}
        self._choose(X, y, self._joint_loss(loss), Report(self, X, y), of_rows, groups)
        return self
