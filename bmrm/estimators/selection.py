"""lam by cross validation: scikit-learn's splits and names of scores for `bmrm.select`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from bmrm.base.vectors import Vector
from bmrm.errors import Interrupted, ParameterError
from bmrm.estimators.base import LinearEstimator
from bmrm.estimators.progress import Report
from bmrm.estimators.spaces import to_numpy
from bmrm.linear.models.model import Model
from bmrm.linear.selection.select import Selection, select
from bmrm.linear.solve import solve
from bmrm.losses import Loss

METRICS = {
    "roc_auc": "auc",
    "f1_macro": "macro_f1",
    "neg_mean_squared_error": "mse",
    "neg_mean_absolute_error": "mae",
    "neg_mean_poisson_deviance": "deviance",
}
"""Metrics of `bmrm.select` by scikit-learn's names, if those differ."""

MAX_SEED = 2**31 - 1
"""Exclusive upper limit of the seeds that are drawn from a RandomState."""


class SelectionMixin(LinearEstimator):
    """Chooses lam among a grid, and fits the attributes of the model that is trained with it."""

    lams: Sequence[float]
    cv: Any
    scoring: str | None
    rule: str
    random_state: Any
    calibration: str | None = None

    def _choose(
        self,
        X: Any,
        y: Vector,
        loss: Loss,
        report: Report,
        of_rows: Mapping[str, Vector | None],
        groups: Any,
    ) -> None:
        """Choose lam, and train with it on all rows; ``of_rows`` are their weights and offsets."""
        folds, groups, splits = self._folds(X, y, to_numpy(groups))
        options = {**self._options(loss), **of_rows}
        try:
            found = select(
                X,
                y,
                self.lams,
                folds,
                metric=METRICS.get(str(self.scoring), self.scoring),
                rule=self.rule,
                seed=self._seed(),
                progress=report.on_fold(),
                groups=groups,
                **options,
            )
        except Interrupted as stop:
            if not (report.stopped and isinstance(stop.result, Selection)):
                raise
            found = replace(stop.result, result=solve(X, y, lam=stop.result.lam, **options))
        assert found.result is not None
        calibration = None if self.calibration is None else found.calibrate(self.calibration)
        self.lam_, self.lams_ = found.lam, found.lams
        self.scores_ = found.scores if splits is None else found.scores[:, found.folds.fold_of[splits]]
        self._take([found.result], [Model.from_result(found.result, calibration=calibration)])
        self.n_iter_ += sum(result.n_iter for each in found.validations for result in each.results)
        self._end(report, found.statuses)

    def _folds(self, X: Any, y: Vector, groups: Any) -> tuple[int, Any, list[int] | None]:
        """Return the number of folds, the groups of rows that are each in one, and a row of each split.

        The last is None if cv is a number, so that folds have no order.
        """
        if isinstance(self.cv, Integral):
            return int(self.cv), groups, None
        splits = list(self.cv.split(X, y, groups) if hasattr(self.cv, "split") else self.cv)
        split_of = np.full(len(y), -1)
        for number, (train, test) in enumerate(splits):
            held_out = np.zeros(len(y), bool)
            held_out[test] = True
            trained = np.zeros(len(y), bool)
            trained[train] = True
            if (split_of[held_out] >= 0).any() or (trained == held_out).any():
                raise ParameterError(
                    f"cv: split {number + 1} tests a row again, or trains on other rows than all that it "
                    "does not test; expected splits whose test rows are a partition (GridSearchCV takes any)"
                )
            split_of[held_out] = number
        if (split_of < 0).any():
            raise ParameterError(f"cv: no split tests row {np.argmin(split_of) + 1}, expected each in one")
        return len(splits), split_of, [int(np.argmax(split_of == number)) for number in range(len(splits))]

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(MAX_SEED))
