"""The operator of a solve: X, with a constant column for a penalised intercept, for one output or several."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bmrm.base.arguments import flag, number
from bmrm.base.units import number_text
from bmrm.errors import ParameterError
from bmrm.losses import Loss, Structured
from bmrm.matrix.adapted import MatrixAdapter, Measurable, MultiOutput, WithConstant


class Intercept(NamedTuple):
    """The kind of intercept, if there is one."""

    free: bool  # the intercept, or that of each class, is not penalised, and is minimised out
    scaling: float | None
    """Value of the constant feature, if the intercept is penalised: it is the weight of that feature."""

    def n_penalised(self, n_outputs: int) -> int:
        """Return the number of weights that are penalised intercepts."""
        return 0 if self.scaling is None else n_outputs


def intercept_of(loss: Loss, *, fit: bool, penalize: bool, scaling: float) -> Intercept:
    """Return the intercept that is asked for or that the loss needs; raise if the loss does not allow it."""
    fit, penalize = flag("fit_intercept", fit), flag("penalize_intercept", penalize)
    scaling = number("intercept_scaling", scaling)
    if penalize and not fit:
        raise ParameterError("penalize_intercept: needs fit_intercept")
    if not (scaling > 0.0 and scaling * scaling < np.inf):
        raise ParameterError(
            f"intercept_scaling: found {number_text(scaling)}, "
            "expected a positive number with a finite square"
        )
    fit = fit or loss.needs_intercept
    if loss.needs_intercept and penalize:
        raise ParameterError(f"loss {loss.name}: its intercept cannot be penalised")
    if fit and loss.no_intercept:
        raise ParameterError(f"loss {loss.name}: takes no intercept, {loss.no_intercept}")
    free = fit and not penalize
    if isinstance(loss, Structured) and fit:
        raise ParameterError("fit_intercept: the oracle of a structured loss defines its intercepts")
    return Intercept(free, scaling if penalize else None)


def operator_of(matrix: Measurable, loss: Loss, n_outputs: int, intercept: Intercept) -> MatrixAdapter:
    """Return X for one output or several, with the constant feature if there is one.

    Of a matrix that was only measured it has the sizes, and no products.
    """
    if loss.several:
        return MultiOutput(matrix, n_outputs, intercept.scaling)
    return MatrixAdapter(matrix) if intercept.scaling is None else WithConstant(matrix, intercept.scaling)
