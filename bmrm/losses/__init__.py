"""Losses by name.

Examples
--------
>>> from bmrm import losses
>>> losses.get("quantile", tau=0.9)
Quantile(tau=0.9)
"""

from collections.abc import Mapping
from typing import Any

from bmrm.base.arguments import refuse
from bmrm.base.suggestions import suggest
from bmrm.errors import ParameterError
from bmrm.losses.base import PARAMETERS, About, CallableLoss, Loss, NamedLoss, Parameter, ScalarLoss
from bmrm.losses.binary import Exponential, Hinge, HuberHinge, Logistic, SquaredHinge
from bmrm.losses.joint import JointLoss
from bmrm.losses.multiclass import (
    ClassLoss,
    Multiclass,
    Multilabel,
    MultilabelRanking,
    Softmax,
    tree_costs,
)
from bmrm.losses.multivariate import BreakEven, FBeta, PrecisionAtK, RecallAtK, RocArea
from bmrm.losses.novelty import Novelty
from bmrm.losses.ordinal import Ordinal
from bmrm.losses.ranking import LambdaNdcg, Mrr, Ndcg, Pairwise
from bmrm.losses.regression import (
    Absolute,
    EpsilonInsensitive,
    Huber,
    Poisson,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
)
from bmrm.losses.structured import Structured

__all__ = [
    "LOSSES",
    "NAMES",
    "PARAMETERS",
    "About",
    "CallableLoss",
    "ClassLoss",
    "JointLoss",
    "Loss",
    "NamedLoss",
    "Parameter",
    "ScalarLoss",
    "Structured",
    "get",
    "tree_costs",
]

_CLASSES = (
    Hinge,
    SquaredHinge,
    HuberHinge,
    Logistic,
    Exponential,
    Squared,
    Absolute,
    Quantile,
    EpsilonInsensitive,
    SquaredEpsilonInsensitive,
    Huber,
    Poisson,
    Novelty,
    Multiclass,
    Softmax,
    Multilabel,
    MultilabelRanking,
    RocArea,
    FBeta,
    PrecisionAtK,
    RecallAtK,
    BreakEven,
    Pairwise,
    Ndcg,
    LambdaNdcg,
    Mrr,
    Ordinal,
)
LOSSES: Mapping[str, type[NamedLoss]] = {cls.name: cls for cls in _CLASSES}
NAMES: tuple[str, ...] = tuple(LOSSES)


def get(loss: str | Loss, **params: Any) -> Loss:
    """Make a loss from its name and parameters; return a `Loss` unchanged.

    Parameters
    ----------
    loss : str or Loss
        One of ``NAMES``, or an instance, such as a `CallableLoss`.
    **params
        The parameter of the loss, one of ``PARAMETERS``, if it has one; ``costs`` for ``multiclass``.

    Returns
    -------
    Loss

    Raises
    ------
    ParameterError
        For an unknown name, an unknown parameter or a parameter out of its range.

    Examples
    --------
    >>> get("huber", delta=2.0)
    Huber(delta=2)
    """
    if isinstance(loss, Loss):
        if params:
            raise ParameterError(
                f"found parameter {min(params)!r} for a loss object, expected a loss by name"
            )
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        hint = suggest(loss, NAMES) if isinstance(loss, str) else ""
        refuse("loss", loss, f"one of bmrm.losses.NAMES{hint}" if hint else f"one of {', '.join(NAMES)}")
    return LOSSES[loss](**params)
