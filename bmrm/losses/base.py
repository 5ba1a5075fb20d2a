"""What a loss is to the solver.

A loss is a convex function of one margin ``u_i = x_i . w + b`` and one label ``y_i``, or (`Loss.several`) of
a margin for each class, ``u_ic = x_i . w_c``, and the classes of the row, or of the margins of many rows
together.  It knows nothing of the solver, of the regulariser or of where the data lives.  Four kinds exist:
`ScalarLoss`, whose formula is compiled (``src_common/losses.h``), `CallableLoss`, a user's Python function,
the losses of several margins a row (``multiclass.py``), and `JointLoss` (``joint.py``), of the margins of
many rows.  All answer the same two questions about a line of margins ``z + t dz + b``: the slope of the risk
along it, and a cut of the risk at a point of it.  A smooth one also tells its second derivatives.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmrm.base import arguments
from bmrm.base.foreign_arrays import check_result_shape, from_host, import_library, to_host
from bmrm.base.vectors import dot, norm, read_only_view
from bmrm.errors import DataError, ParameterError
from bmrm.losses import _losses
from bmrm.losses.extent import Extent

Vector = NDArray[np.float64]
Task = Literal[
    "binary",
    "regression",
    "count",
    "novelty",
    "multiclass",
    "multilabel",
    "label_ranking",
    "structured",
    "ranking",
    "ordinal",
]


SUMS = "sums over ranks"
"""What a loss that is a sum over rows asks of ranks that share the rows."""


class About(NamedTuple):
    """What the documentation says of a loss, beside its docstring."""

    formula: str
    reference: str
    complexity: str
    line_search: str
    weights: bool
    distributed: str
    gpu: str


def by_row(formula: str, reference: str) -> About:
    """Tell of a loss of one margin: what all of them have in common."""
    return About(formula, reference, "O(m)", "exact, on stored margins", True, SUMS, "all of a pass")


class Parameter(NamedTuple):
    """A loss's parameter: what it means, its default and the interval it must lie in.

    The interval is open, but at ``low`` where ``from_low`` is set.
    """

    help: str
    default: float
    low: float
    high: float
    losses: tuple[str, ...]
    from_low: bool = False


PARAMETERS: dict[str, Parameter] = {
    "tau": Parameter("quantile to estimate", 0.5, 0.0, 1.0, ("quantile",)),
    "epsilon": Parameter(
        "half width of the tube without loss",
        0.1,
        0.0,
        np.inf,
        ("epsilon_insensitive", "squared_epsilon_insensitive"),
        from_low=True,
    ),
    "h": Parameter("half width of the quadratic part of the hinge", 0.5, 0.0, np.inf, ("huber_hinge",)),
    "delta": Parameter("residual at which Huber's loss turns linear", 1.0, 0.0, np.inf, ("huber",)),
    "nu": Parameter("largest fraction of rows taken for outliers", 0.1, 0.0, 1.0, ("novelty",)),
    "beta": Parameter("weight of recall against precision", 1.0, 0.0, np.inf, ("f_beta",)),
    "k": Parameter(
        "rows at the top of the list: a number, or below 1 a fraction of all rows (not for ndcg)",
        10.0,
        0.0,
        np.inf,
        ("precision_at_k", "recall_at_k", "ndcg"),
    ),
}


class RowRisk(Protocol):
    """The risk of one problem on lines of margins; see `Loss.risk`."""

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        """Return the derivatives of the risk of ``z + t dz + b`` in ``t`` and in ``b``."""

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: NDArray[np.int64], r: Vector
    ) -> tuple[Vector, Vector]:
        """Fill ``r`` with the weighted derivatives; return risk and sum of ``r`` for each block of rows."""

    def curvature(self, z: Vector, b: float, r: Vector) -> float:
        """Fill ``r`` with the weighted second derivatives at ``z + b``; return their sum.

        Asked only where `Loss.smooth`, and of a risk with rounded kinks.
        """


class ValuedRisk(ABC):
    """A `RowRisk` that costs as much to evaluate as a product; see `host.joint_line_search`.

    Attributes
    ----------
    size : int
        Length of the arrays of derivatives, which are the caller's to keep.
    constants : ndarray of shape (blocks,), or None
        The planes that were taken last at margins of 0; None if nobody knows but from the risk.
    """

    size: int
    constants: Vector | None = None

    @abstractmethod
    def evaluate(self, z: Vector, dz: Vector, t: float, derivatives: Vector) -> float:
        """Fill ``derivatives`` with those at ``z + t dz``; return the risk."""

    @abstractmethod
    def along(self, derivatives: Vector, dz: Vector) -> float:
        """Return the slope in a direction."""


Conjugates: TypeAlias = Vector | tuple[NDArray[np.int32], Vector | None, Vector]
"""What a risk is in the dual, as `bmrm.linear.backends.host._ascent.Ascent` takes it."""


class DualRisk(RowRisk, Protocol):
    """A risk of margins whose conjugates are known, or of the largest of several margins."""

    def conjugates(self) -> Conjugates:
        """Tell them."""


class Pieces(NamedTuple):
    """A risk that is linear but for kinks, with weights in.

    ``R(u) = sum_i slope_i (u_i - places_0i) + sum_ki weights_ki max(0, u_i - places_ki)``.

    Attributes
    ----------
    slope : ndarray of shape (m,)
    places, weights : ndarray of shape (kinks, m)
    """

    slope: Vector
    places: Vector
    weights: Vector

    def constants(self, r: Vector) -> Vector:
        """Return each row's line with the slope r that is nowhere above its risk, at a margin of 0.

        It goes through the kink at which the slope passes r, at the risk there. That is taken from one kink
        to the next: terms are of the size of r or of that risk, though weights may be far larger.
        """
        found, slope, risk = -r * self.places[0], self.slope, np.zeros(len(r))
        for before, place, weight in zip(self.places, self.places[1:], self.weights, strict=False):
            slope = slope + weight
            risk = risk + slope * (place - before)
            found = np.where(r > slope, risk - r * place, found)
        return np.asarray(found)


class KinkedRisk(RowRisk, Protocol):
    """The risk of a loss whose kinks can be rounded."""

    def pieces(self) -> tuple[Vector, Vector, Vector]:
        """Return what `Pieces` has."""

    def rounded(self, width: float) -> RowRisk:
        """Return the risk with kinks rounded over ``width`` on either side.

        Its derivatives are those of the loss with parabolas in the place of kinks, its values those of the
        lines with these slopes that bound the loss as it is.
        """


class Loss(ABC):
    """A convex loss in the margin of a row, in its margins, or in those of many rows.

    Attributes
    ----------
    name : str
    task : str
        What the labels are: two classes coded -1 and +1 ("binary"), reals ("regression"), counts ("count"),
        nothing ("novelty"), K classes coded 0 to K - 1 ("multiclass", and "ordinal", where they are ordered),
        K labels of which each is coded -1 or +1 ("multilabel", and "label_ranking", which orders them),
        relevances within a group ("ranking"), or what an oracle takes ("structured").
    several : bool
        A row has a margin for each of K classes; margins, derivatives and weights have K columns, and
        pass through a `RowRisk` row after row.
    intercept_slope : float
        The risk has the extra term ``intercept_slope * b`` (zero but for novelty detection).
    needs_intercept : bool
    no_intercept : str
        Why an intercept has no meaning; empty where it has one.
    by_rows : bool
        The risk is a sum over rows, so that it can be split into blocks of them, and over ranks.
    needs_groups : bool
        The loss wants to know which rows belong together; its risk is a sum over these groups.
    several_cuts : bool
        Cuts of several blocks of rows are worth more than one of all.
    search_slack : float
        How many times less exact a line search may be; more than 1 where its steps cost as much as cuts.
    smooth : bool
        The derivative is continuous, and the loss tells the second one.
    kinked : bool
        The loss is linear but for kinks that can be rounded: what it binds is a `KinkedRisk`.
    has_dual : bool
        What the loss binds tells its conjugates: it is a `DualRisk`.
    slope_limit : float or None
        Length of the derivative of a row's loss in its margins, at most; None if it has no limit, or if that
        is not known.
    level : float
        What differences of a row's margins, or from its label, are compared with.
    limited_at_zero : bool
        The risk at margins of 0 says how steep it is, at most.
    bend_limit : float
        Second derivative of a row's loss, at most, where it is nowhere negative and known for this; else 0.
    """

    name: str
    task: Task
    intercept_slope: float = 0.0
    needs_intercept: bool = False
    no_intercept: str = ""
    several: bool = False
    by_rows: bool = True
    needs_groups: bool = False
    several_cuts: bool = True
    search_slack: float = 1.0
    bend_limit: float = 0.0
    limited_at_zero: bool = False

    @property
    def level(self) -> float:
        """What differences of margins, or from labels, are compared with."""
        return 0.0

    @property
    def slope_limit(self) -> float | None:
        """Length of the derivative of a row's loss, at most."""
        return None

    def steepness(self, extent: Extent, risk: float) -> float | None:
        """Return the length of the risk's derivatives, at most, where the risk is at most so much.

        None where nobody knows.
        """
        found = math.inf if self.slope_limit is None else self.slope_limit * extent.weight
        if self.bend_limit:  # a loss l >= 0 with l'' <= c has l'^2 <= 2 c l
            found = min(found, math.sqrt(2.0 * self.bend_limit * max(risk, 0.0) * extent.most))
        return found if math.isfinite(found) else None

    def compared_with(self, y: Vector) -> float:
        """Return the length of what the margins of these rows are compared with: of labels, or of ones."""
        if self.task in ("regression", "count"):
            return norm(y)
        return 0.0 if self.task == "novelty" else math.sqrt(len(y))

    @property
    def key(self) -> object:
        """What tells the loss from others: cuts serve another solve only if it is the same."""
        return self

    @property
    def smooth(self) -> bool:
        """Whether the loss tells a second derivative."""
        return False

    @property
    def kinked(self) -> bool:
        """Whether the loss is linear but for kinks that can be rounded."""
        return False

    @property
    def has_dual(self) -> bool:
        """Whether the loss tells its conjugate."""
        return False

    @property
    def params(self) -> dict[str, float]:
        """Parameters by name; empty for most losses."""
        return {}

    def floor(self, y: Vector, weights: Vector | None) -> float:
        """Return a number that no risk on these labels is below; most losses are nowhere negative."""
        return 0.0

    @abstractmethod
    def risk(self, y: Vector, weights: Vector | None, scale: float, threads: int) -> RowRisk:
        """Bind the loss to labels and weights: ``R = scale * sum_i weights_i loss(u_i, y_i)``."""

    def value(self, margins: Vector, y: Vector) -> Vector:
        """Loss of each row, shape (m,)."""
        return self._rows(margins, y)[0]

    def derivative(self, margins: Vector, y: Vector) -> Vector:
        """Return the derivative of each row's loss in its margin, shape (m,)."""
        return self._rows(margins, y)[1]

    def _rows(self, margins: Vector, y: Vector) -> tuple[Vector, Vector]:
        z, labels = arguments.margins(margins, y)
        r = np.empty_like(z)
        values, _ = self.risk(labels, None, 1.0, 1).cut(
            z, np.zeros_like(z), 0.0, 0.0, np.arange(len(z) + 1), r
        )
        return values, r

    def check_labels(self, y: Vector) -> None:
        """Raise `DataError` where a label is outside what the loss takes; most take any number."""
        return

    def grouped(self, groups: NDArray[np.int64] | None) -> Loss:
        """Return the loss for rows of these groups; most losses know of none.

        Parameters
        ----------
        groups : ndarray of int64, shape (m,), or None
            The group of each row, numbered from 0.
        """
        return self

    def thresholds(self, margins: Vector, y: Vector, weights: Vector | None) -> Vector | None:
        """Return the thresholds between ordered classes that suit the margins; None for other tasks."""
        return None

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v:g}" for k, v in self.params.items())
        return f"{type(self).__name__}({inner})"


class NamedLoss(Loss):
    """A loss of the package; subclasses name it, its parameter, and what is to be known of it."""

    about: ClassVar[About]
    parameter: ClassVar[str | None] = None

    def __init__(self, **params: float) -> None:
        unknown = set(params) - {self.parameter}
        if unknown:
            raise ParameterError(f"loss {self.name}: unknown parameter {min(unknown)!r}")
        self.parameter_value = 0.0
        if self.parameter is not None:
            spec = PARAMETERS[self.parameter]
            given = params.get(self.parameter, spec.default)
            self.parameter_value = arguments.number(self.parameter, given)
            self._check_parameter(spec)

    def _check_parameter(self, spec: Parameter) -> None:
        above = self.parameter_value > spec.low or (spec.from_low and self.parameter_value == spec.low)
        if not (above and self.parameter_value < spec.high):
            wanted = f">= {spec.low:g}" if spec.from_low else f"> {spec.low:g}"
            wanted += "" if spec.high == np.inf else f" and < {spec.high:g}"
            raise ParameterError(f"{self.parameter}: found {self.parameter_value:g}, expected {wanted}")

    @property
    def params(self) -> dict[str, float]:
        """Parameters by name; empty for most losses."""
        return {} if self.parameter is None else {self.parameter: self.parameter_value}

    @property
    def key(self) -> object:
        """Name and parameters."""
        return self.name, tuple(self.params.items())


class ScalarLoss(NamedLoss):
    """A loss of one margin whose formula is compiled."""

    @property
    def number(self) -> int:
        """Position of the formula among the compiled ones."""
        return _losses.names().index(self.name)

    @property
    def smooth(self) -> bool:
        """Whether the formula has a second derivative."""
        return _losses.smooth(self.number)

    @property
    def kinked(self) -> bool:
        """Whether the formula is linear but for kinks that can be rounded."""
        return _losses.kinked(self.number)

    @property
    def has_dual(self) -> bool:
        """Whether the formula's conjugate is known."""
        return _losses.has_dual(self.number)

    @property
    def level(self) -> float:
        """The width of a tube around labels."""
        return self.parameter_value if self.parameter == "epsilon" else 0.0

    def compared_with(self, y: Vector) -> float:
        """Return the length of what margins are compared with; kinks may lie farther out."""
        farther = self.parameter_value if self.parameter in ("epsilon", "h") else 0.0
        return super().compared_with(y) + farther * math.sqrt(len(y))

    def risk(self, y: Vector, weights: Vector | None, scale: float, threads: int) -> RowRisk:
        """Bind the loss to labels and weights."""
        return _losses.Risk(self.number, self.parameter_value, y, weights, scale, threads)


LossFunction = Callable[[Any, Any], tuple[Any, Any]]


class CallableLoss(Loss):
    """A user's loss: a function of margins and labels that returns values and derivatives.

    Parameters
    ----------
    function : callable
        ``function(margins, y) -> (values, derivatives)``, all of shape (m,).  It must be convex in the margin
        and ``derivatives`` a subgradient: the certificate rests on it.  It may overwrite the margins, but not
        the labels.
    name : str, default "user"
    task : str, default "regression"
        How labels are read; see `Loss`.
    minimum : float, default -inf
        A number that no row's loss is below. The certificate of an l1 penalty, and of features without a
        penalty, rests on it.
    arrays : {"numpy", "cupy", "torch", "jax", "dlpack"}, default "numpy"
        What the function takes and gives. "numpy": float64 on the host. The others: arrays of that library,
        or ("dlpack") objects that only know ``__dlpack__`` and ``__cuda_array_interface__``.  With the L2
        norm and X on a GPU they lie there, share the memory of the solver's margins and have their type,
        float32 or float64; else they are float64 on the host, or for CuPy copied to its device.  What is
        given back is to lie where the margins are, float32 or float64.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.losses import CallableLoss
    >>> cosh = CallableLoss(lambda u, y: (np.log(np.cosh(u - y)), np.tanh(u - y)), name="logcosh")
    >>> float(cosh.derivative(np.array([1.0]), np.array([1.0]))[0])
    0.0
    """

    def __init__(
        self,
        function: LossFunction,
        name: str = "user",
        task: Task = "regression",
        minimum: float = -np.inf,
        arrays: str = "numpy",
    ) -> None:
        import_library(arrays)
        self.function, self.name, self.task, self.minimum = function, name, task, minimum
        self.arrays = arrays

    @property
    def key(self) -> object:
        """The loss itself, with what it is made of: that may be replaced."""
        return self, self.function, self.minimum

    def floor(self, y: Vector, weights: Vector | None) -> float:
        """Return ``minimum``: the risk is a mean of losses."""
        return self.minimum

    def risk(self, y: Vector, weights: Vector | None, scale: float, threads: int) -> RowRisk:
        """Bind the loss to labels and weights."""
        return _CallableRisk(self, y, weights, scale)

    def check_minimum(self, values: Vector) -> None:
        """Raise `DataError` where a value is below what the loss says is its minimum."""
        if self.minimum > -np.inf and values.size and values.min() < self.minimum:
            raise DataError(
                f"loss {self.name}: found the value {values.min():g}, expected at least its minimum, "
                f"{self.minimum:g}"
            )


class _CallableRisk:
    """Row sums of a Python loss."""

    def __init__(self, loss: CallableLoss, y: Vector, weights: Vector | None, scale: float) -> None:
        self.loss, self.labels = loss, read_only_view(y)
        self.weights = np.full(len(y), scale) if weights is None else weights * scale
        self._idle = self.weights == 0.0
        self._all_count = not self._idle.any()

    def _evaluate(self, u: Vector) -> tuple[Vector, Vector]:
        kind = self.loss.arrays
        # Arrays of other libraries cannot be read-only, so that each call gets labels of its own.
        labels = self.labels if kind == "numpy" else from_host(kind, self.labels.copy())
        found = self.loss.function(from_host(kind, u), labels)
        values, derivatives = (to_host(kind, array) for array in found)
        for what, array in (("values", values), ("derivatives", derivatives)):
            check_result_shape(f"loss {self.loss.name}: {what}", array.shape, u.shape)
        self.loss.check_minimum(values if self._all_count else values[~self._idle])
        if not self._all_count:  # others take no part, also where their loss is infinite
            values, derivatives = values.copy(), derivatives.copy()
            values[self._idle] = derivatives[self._idle] = 0.0
        return values, derivatives

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        g = self.weights * self._evaluate(z + t * dz + b)[1]
        return dot(g, dz), float(g.sum())

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: NDArray[np.int64], r: Vector
    ) -> tuple[Vector, Vector]:
        values, derivatives = self._evaluate(z + t * dz + b)
        np.multiply(self.weights, derivatives, out=r)
        weighted = self.weights * values
        blocks = list(pairwise(starts))
        return (
            np.array([weighted[i:j].sum() for i, j in blocks]),
            np.array([r[i:j].sum() for i, j in blocks]),
        )

    def curvature(self, z: Vector, b: float, r: Vector) -> float:
        raise NotImplementedError("a loss in Python has no second derivative")
