"""Losses for two classes that bound a measure of all predictions: ROC area, F-beta, precision, recall.

Joachims, ICML 2005, 377 and KDD 2006, 217 (svm_perf): if Delta(y') is the loss of the measure for predicting
the labels y', the risk is the structured hinge with margin rescaling,

    R(u) = max over y' of  Delta(y') - (1/m) sum_{i: y'_i != y_i} y_i u_i,

over all labellings y', or over those that the measure admits; the true labelling is always among them.  The
risk is at least Delta of the labelling that the margins favour, which is that of their signs if all
labellings are admitted.  If Delta is the share of errors, the risk is the mean hinge loss.  The margins of
svm_perf are 50/m of these and its losses are in percent, so its ``-c C`` is lam = 25 / (C m^2) here; for the
ROC area, whose scale is the same, it is lam = 1 / (100 C).
"""

from __future__ import annotations

import numpy as np

from bmrm.base.units import number_text
from bmrm.base.vectors import Vector
from bmrm.base.weighting import scale_weights
from bmrm.errors import DataError, ParameterError
from bmrm.losses._joint import JointRisk
from bmrm.losses.base import About
from bmrm.losses.joint import JointLoss, Members, about_joint_loss, bind, collect_members

_JOACHIMS = "Joachims, ICML 2005, 377"
_DIFFERENCES = "it depends only on differences of margins"


def _both_classes(name: str, y: Vector, found: Members) -> tuple[int, int]:
    """Count positive and negative rows; raise if a class is missing."""
    positives = int(np.count_nonzero(y[found.rows] > 0.0))
    negatives = len(found.rows) - positives
    if not (positives and negatives):
        raise DataError(
            f"loss {name}: found {positives} positive and {negatives} negative rows of positive weight, "
            "expected both"
        )
    return positives, negatives


class RocArea(JointLoss):
    """``sum_ij s_i s_j max(0, 1 - (u_i - u_j)) / sum_ij s_i s_j``, i positive, j negative.

    An upper bound of 1 minus the area under the ROC curve, which is the share of pairs in the wrong order.

    Examples
    --------
    >>> import numpy as np
    >>> RocArea().evaluate(np.array([2.0, 0.5, 0.0]), np.array([1.0, 1.0, -1.0]))[0]
    0.25
    """

    name, task = "roc_area", "binary"
    no_intercept = _DIFFERENCES
    about = about_joint_loss("mean over pairs y_i > y_j of max(0, 1 - (u_i - u_j))", _JOACHIMS)

    def joint_risk(self, y: Vector, weights: Vector | None, threads: int) -> JointRisk:
        found = collect_members(weights, None, len(y))
        _both_classes(self.name, y, found)
        positive = y[found.rows] > 0.0
        s = found.weights.copy()
        for side in (positive, ~positive):  # separately, since only ratios within a class matter
            s[side] = scale_weights(s[side])
        pairs = s[positive].sum() * s[~positive].sum()
        share = np.array([1.0 / pairs])
        return bind("pairs", found, positive.astype(np.int64), share, weight=s, threads=threads)


class _ContingencyLoss(JointLoss):
    """A measure of the contingency table of true and predicted labels.

    The measure counts rows, so weights can only leave rows out: the others must have equal weights, and each
    counts as one row.
    """

    def joint_risk(self, y: Vector, weights: Vector | None, threads: int) -> JointRisk:
        found = collect_members(weights, None, len(y))
        positives, _ = _both_classes(self.name, y, found)
        if found.weights.min() != found.weights.max():
            raise ParameterError(
                f"loss {self.name}: found weights from {found.weights.min():g} to {found.weights.max():g}, "
                "expected equal ones, or 0 to leave rows out: the measure counts rows"
            )
        m = len(found.rows)
        level = (y[found.rows] > 0.0).astype(np.int64)
        k, beta = self._k_and_beta(m, positives)
        return bind(self.name, found, level, np.array([1.0 / m]), k=k, beta=beta, threads=threads)

    def _k_and_beta(self, rows: int, positives: int) -> tuple[int, float]:
        """Return the parameters of the compiled risk."""
        return 1, 1.0


def _about(measure: str, labellings: str) -> About:
    formula = f"max over labellings y'{labellings} of 1 - {measure} - sum_(y'_i != y_i) y_i u_i / m"
    return about_joint_loss(formula, _JOACHIMS, weights=False)


class FBeta(_ContingencyLoss):
    """Upper bound of 1 - F_beta, the weighted harmonic mean of precision and recall of the positive class.

    ``F = (1 + beta^2) a / ((1 + beta^2) a + b + beta^2 c)``, where a, b and c are the numbers of true
    positives, false positives and false negatives.

    Examples
    --------
    >>> import numpy as np
    >>> FBeta(beta=1.0).evaluate(np.array([2.0, -3.0]), np.array([1.0, -1.0]))[0]
    0.0
    """

    name, task, parameter = "f_beta", "binary", "beta"
    about = _about("F_beta(y, y')", "")

    def _k_and_beta(self, rows: int, positives: int) -> tuple[int, float]:
        return 1, self.parameter_value


class _AtK(_ContingencyLoss):
    """A measure with k rows at the top; if below 1, k is a fraction of the rows that take part."""

    parameter = "k"

    def __init__(self, **params: float) -> None:
        super().__init__(**params)
        if self.parameter_value >= 1.0 and not self.parameter_value.is_integer():
            raise ParameterError(
                f"k: found {number_text(self.parameter_value)}, expected an integer, or a fraction below 1"
            )

    def count(self, rows: int) -> int:
        """Return k as a number of rows, at least 1."""
        return (
            int(self.parameter_value)
            if self.parameter_value >= 1.0
            else max(1, round(self.parameter_value * rows))
        )


class PrecisionAtK(_AtK):
    """Upper bound of 1 - precision, over the labellings with at least k positive rows.

    As in svm_perf, k is at most the number of positives, so that the true labelling is among them.

    Examples
    --------
    >>> import numpy as np
    >>> PrecisionAtK(k=1).evaluate(np.array([0.5, 1.0]), np.array([1.0, -1.0]))[0]
    1.25
    """

    name, task = "precision_at_k", "binary"
    about = _about("precision(y, y')", " with at least k positive")

    def _k_and_beta(self, rows: int, positives: int) -> tuple[int, float]:
        k = self.count(rows)
        if k > positives:
            raise DataError(
                f"loss {self.name}: found {positives} positive rows, expected at least k = {k} of them"
            )
        return k, 1.0


class RecallAtK(_AtK):
    """Upper bound of 1 - recall, over the labellings with at most k positive rows.

    As in svm_perf, k is at least the number of positives, so that the true labelling is among them. That
    number is the default.

    Examples
    --------
    >>> import numpy as np
    >>> RecallAtK(k=1).evaluate(np.array([0.5, 1.0]), np.array([1.0, -1.0]))[0]
    1.25
    """

    name, task, default_text = "recall_at_k", "binary", "the number of positive rows"
    about = _about("recall(y, y')", " with at most k positive")

    def __init__(self, **params: float) -> None:
        super().__init__(**params)
        self._at_positives = "k" not in params

    @property
    def params(self) -> dict[str, float]:
        return {} if self._at_positives else super().params

    def _k_and_beta(self, rows: int, positives: int) -> tuple[int, float]:
        if self._at_positives:
            return positives, 1.0
        k = self.count(rows)
        if k < positives:
            raise DataError(
                f"loss {self.name}: found {positives} positive rows, expected at most k = {k} of them"
            )
        return k, 1.0


class BreakEven(_ContingencyLoss):
    """Upper bound of 1 - precision at break-even, where the numbers of predicted and true positives agree.

    Examples
    --------
    >>> import numpy as np
    >>> BreakEven().evaluate(np.array([0.5, 1.0]), np.array([1.0, -1.0]))[0]
    1.25
    """

    name, task = "prbep", "binary"
    no_intercept = _DIFFERENCES
    about = _about("precision(y, y')", " with as many positive as y")
