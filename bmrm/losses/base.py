"""The interface between losses and the solver.

A loss is a convex function of one margin ``u_i = x_i . w + b`` and one label ``y_i``; or (`Loss.several`) of
one margin per class, ``u_ic = x_i . w_c``, and the classes of the row; or of the margins of many rows
together.  It knows nothing of the solver, the regulariser or where the data are stored.  Four kinds exist:
`ScalarLoss`, whose formula is compiled (``src_common/losses.h``), `CallableLoss`, a user's Python function,
the losses of several margins per row (``multiclass.py``), and `JointLoss` (``joint.py``), of the margins of
many rows.  All of them answer the same two questions about a line of margins ``z + t dz + b``: what is the
slope of the risk along the line, and what is a cut of the risk at one of its points.  Smooth losses also
return their second derivatives.
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
from bmrm.base.units import number_text
from bmrm.base.vectors import Indices, Vector, dot, norm, read_only_view
from bmrm.errors import DataError, ParameterError
from bmrm.losses import _losses
from bmrm.losses.extent import Extent

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


SUMS_OVER_RANKS = "sums over ranks"
"""Communication of a loss that is a sum over rows, if the rows are split over ranks."""


class About(NamedTuple):
    """The entry of a loss in the documentation, in addition to its docstring.

    Attributes
    ----------
    formula, reference, complexity, line_search : str
    weights : bool
        Whether rows may have weights.
    distributed, gpu : str
        What works there.

    Examples
    --------
    >>> from bmrm import losses
    >>> losses.get("hinge").about.formula
    'max(0, 1 - y u)'
    """

    formula: str
    reference: str
    complexity: str
    line_search: str
    weights: bool
    distributed: str
    gpu: str


def about_row_loss(formula: str, reference: str) -> About:
    """Describe a loss of one margin, with what all such losses have in common."""
    return About(
        formula, reference, "O(m)", "exact, on stored margins", True, SUMS_OVER_RANKS, "all of a pass"
    )


class Parameter(NamedTuple):
    """A parameter of a loss: its meaning, its default and the interval in which it must lie.

    Attributes
    ----------
    help : str
    default, low, high : float
    losses : tuple of str
        That have it.
    from_low : bool
        Whether ``low`` itself is allowed; ``high`` never is.

    Examples
    --------
    >>> from bmrm import losses
    >>> losses.PARAMETERS["tau"].default
    0.5
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
        "half-width of the tube without loss",
        0.1,
        0.0,
        np.inf,
        ("epsilon_insensitive", "squared_epsilon_insensitive"),
        from_low=True,
    ),
    "h": Parameter("half-width of the quadratic part of the hinge", 0.5, 0.0, np.inf, ("huber_hinge",)),
    "delta": Parameter("residual at which Huber's loss becomes linear", 1.0, 0.0, np.inf, ("huber",)),
    "nu": Parameter("maximum fraction of rows treated as outliers", 0.1, 0.0, 1.0, ("novelty",)),
    "beta": Parameter("weight of recall relative to precision", 1.0, 0.0, np.inf, ("f_beta",)),
    "k": Parameter(
        "rows at the top of the list: a number, or if below 1 a fraction of all rows (not for ndcg)",
        10.0,
        0.0,
        np.inf,
        ("precision_at_k", "recall_at_k", "ndcg"),
    ),
}


class RowRisk(Protocol):
    """The risk of one problem along lines of margins; see `Loss.risk`."""

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        """Return the derivatives of the risk at ``z + t dz + b`` with respect to ``t`` and ``b``."""

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: Indices, r: Vector
    ) -> tuple[Vector, Vector]:
        """Fill ``r`` with the weighted derivatives; return risk and sum of ``r`` per block of rows."""

    def curvature(self, z: Vector, b: float, r: Vector) -> float:
        """Fill ``r`` with the weighted second derivatives at ``z + b``; return their sum.

        Called only if the loss is smooth or its kinks are rounded.
        """


class ValuedRisk(ABC):
    """A `RowRisk` that costs as much to evaluate as a product with X.

    Its value and its derivatives come together, so a line search stores both; see
    `bmrm.linear.backends.host.joint_line_search`.
    """

    size: int  # length of the arrays of derivatives, which belong to the caller
    constants: Vector | None = None
    """Values of the last cuts at margins of 0, shape (blocks,); None if only the risk gives them."""

    @abstractmethod
    def evaluate(self, z: Vector, dz: Vector, t: float, derivatives: Vector) -> float:
        """Fill ``derivatives`` with the derivatives at ``z + t dz``; return the risk."""

    @abstractmethod
    def along(self, derivatives: Vector, dz: Vector) -> float:
        """Return the slope in the direction ``dz``."""


class SoftRisk(Protocol):
    """The softened risk of K margins per row, for intercepts that are minimised out.

    It is that of `bmrm.losses._losses.SoftRisk`, which describes it.
    """

    def evaluate(
        self,
        z: Vector,
        dz: Vector,
        t: float,
        b: Vector,
        width: float,
        move: Vector | None = None,
        r: Vector | None = None,
        hessian: bool = False,
    ) -> Vector:
        """Return level, slope in ``t``, the K sums of derivatives and perhaps K x K second ones."""

    def class_weights(self) -> Vector:
        """Return the weight of each class, as a share of all; ones if rows have several."""


Conjugates: TypeAlias = Vector | tuple[NDArray[np.int32], Vector | None, Vector]
"""The conjugates of the rows, in the form that coordinate ascent in the dual expects."""


class DualRisk(RowRisk, Protocol):
    """A risk whose conjugates are known: of one margin per row, or of the largest of several."""

    def conjugates(self) -> Conjugates:
        """Return the conjugates of the rows."""


class Pieces(NamedTuple):
    """A risk that is linear except at kinks; row weights are included.

    ``R(u) = sum_i slope_i (u_i - places_0i) + sum_ki weights_ki max(0, u_i - places_ki)``.
    """

    slope: Vector  # shape (m,)
    places: Vector  # shape (kinks, m)
    weights: Vector  # shape (kinks, m)

    def constants(self, r: Vector) -> Vector:
        """Return, at a margin of 0, each row's line of slope r that is nowhere above the row's risk.

        The line touches the risk at the kink where the slope passes r. The risk there is summed from kink to
        kink, so that terms are no larger than r or that risk, though weights may be far larger.
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
        """Return the fields of `Pieces`."""

    def rounded(self, width: float) -> RowRisk:
        """Return the risk with its kinks rounded over ``width`` on either side.

        Its derivatives are those of the loss with parabolas in place of kinks. Its values are those of the
        lines with these slopes that bound the original loss from below.
        """


class Loss(ABC):
    """A convex loss of the margin of a row, of its K margins, or of the margins of many rows.

    Attributes
    ----------
    name : str
    task : str
        The kind of labels: two classes coded -1 and +1 ("binary"), reals ("regression"), counts ("count"),
        none ("novelty"), K classes coded 0 to K - 1 ("multiclass", and "ordinal" if they are ordered),
        K labels, each coded -1 or +1 ("multilabel", and "label_ranking", which orders them), relevances
        within a group ("ranking"), or objects for an oracle ("structured").
    several : bool
        A row has one margin for each of K classes. Margins, derivatives and weights have K columns, and are
        passed to a `RowRisk` row after row.
    intercept_slope : float
        The risk has the extra term ``intercept_slope * b`` (0 except for novelty detection).
    needs_intercept : bool
    no_intercept : str
        Why an intercept would have no meaning; empty if it has one.
    by_rows : bool
        The risk is a sum over rows, so that it can be split into blocks of rows and over ranks.
    needs_groups : bool
        The loss needs the group of each row; its risk is a sum over the groups.
    several_cuts : bool
        Cuts of several blocks of rows are worth more than one cut of all rows.
    search_slack : float
        The factor by which a line search may be less exact; above 1 if its steps cost as much as cuts.
    limited_at_zero : bool
        The risk at margins of 0 limits the length of its derivatives everywhere.
    own_width : float
        The width over which the softened loss of K margins is the loss itself; 0 if there is none.
    moves_together : bool
        Adding the same number to all K margins of a row changes nothing.
    curvature_limit : float
        Maximum second derivative of a row's loss, if that loss is nowhere negative; 0 if not known.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import losses
    >>> loss, y = losses.get("hinge"), np.array([1.0, -1.0])
    >>> loss.value(np.array([0.5, 2.0]), y), loss.derivative(np.array([0.5, 2.0]), y)
    (array([0.5, 3. ]), array([-1.,  1.]))
    >>> round(loss.target_norm(y), 3), loss.floor(y, None), loss.thresholds(np.zeros(2), y, None)
    (1.414, 0.0, None)
    >>> loss.check_labels(y), loss.grouped(None)
    (None, Hinge())
    >>> risk = loss.risk(y, None, 0.5, 1)  # their mean
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
    curvature_limit: float = 0.0
    limited_at_zero: bool = False
    own_width: float = 0.0
    moves_together: bool = False

    @property
    def level(self) -> float:
        """The constant with which differences of margins, or of margins and labels, are compared."""
        return 0.0

    @property
    def slope_limit(self) -> float | None:
        """Maximum length of the derivative of a row's loss in its margins; None if none is known."""
        return None

    def steepness(self, extent: Extent, risk: float) -> float | None:
        """Return the maximum length of the derivatives of the risk wherever it is at most some number.

        Parameters
        ----------
        extent : Extent
            How much weight the rows have.
        risk : float

        Returns
        -------
        float or None
            None if it is not known.
        """
        found = math.inf if self.slope_limit is None else self.slope_limit * extent.weight
        if self.curvature_limit:  # a loss l >= 0 with l'' <= c has l'^2 <= 2 c l
            found = min(found, math.sqrt(2.0 * self.curvature_limit * max(risk, 0.0) * extent.most))
        return found if math.isfinite(found) else None

    def target_norm(self, y: Vector) -> float:
        """Return the norm of the vector with which margins are compared: the labels, or ones.

        Parameters
        ----------
        y : ndarray of float64, shape (m,)

        Returns
        -------
        float
        """
        if self.task in ("regression", "count"):
            return norm(y)
        return 0.0 if self.task == "novelty" else math.sqrt(len(y))

    @property
    def key(self) -> object:
        """The identity of the loss: cuts serve another solve only if its loss has an equal key."""
        return self

    @property
    def smooth(self) -> bool:
        """Whether the derivative is continuous, and the loss returns second derivatives."""
        return False

    @property
    def kinked(self) -> bool:
        """Whether the loss is linear except at kinks that can be rounded: its risk is a `KinkedRisk`."""
        return False

    @property
    def has_dual(self) -> bool:
        """Whether the conjugates of the loss are known: its risk is a `DualRisk`."""
        return False

    @property
    def params(self) -> dict[str, float]:
        """Parameters by name; empty for most losses."""
        return {}

    def floor(self, y: Vector, weights: Vector | None) -> float:
        """Return a lower bound of the risk on these labels; 0 for most losses.

        Parameters
        ----------
        y : ndarray of float64, shape (m,)
        weights : ndarray of float64, shape (m,), or None

        Returns
        -------
        float
        """
        return 0.0

    @abstractmethod
    def risk(self, y: Vector, weights: Vector | None, scale: float, threads: int) -> RowRisk:
        """Bind the loss to labels and weights: ``R = scale * sum_i weights_i loss(u_i, y_i)``.

        Parameters
        ----------
        y : ndarray of float64, shape (m,), or (m, K)
            Labels as the task codes them.
        weights : ndarray of float64, shape (m,), or None
            None means 1 for each row.
        scale : float
        threads : int

        Returns
        -------
        RowRisk
        """

    def value(self, margins: Vector, y: Vector) -> Vector:
        """Return the loss of each row.

        Parameters
        ----------
        margins : ndarray of float64, shape (m,), or (m, K)
        y : ndarray of float64, shape (m,), or (m, K)

        Returns
        -------
        ndarray of float64, shape (m,)
        """
        return self._rows(margins, y)[0]

    def derivative(self, margins: Vector, y: Vector) -> Vector:
        """Return the derivative of each row's loss with respect to its margins; a subgradient at a kink.

        Parameters
        ----------
        margins : ndarray of float64, shape (m,), or (m, K)
        y : ndarray of float64, shape (m,), or (m, K)

        Returns
        -------
        ndarray of float64, of the shape of ``margins``
        """
        return self._rows(margins, y)[1]

    def _rows(self, margins: Vector, y: Vector) -> tuple[Vector, Vector]:
        z, labels = arguments.margins(margins, y)
        r = np.empty_like(z)
        values, _ = self.risk(labels, None, 1.0, 1).cut(
            z, np.zeros_like(z), 0.0, 0.0, np.arange(len(z) + 1), r
        )
        return values, r

    def check_labels(self, y: Vector) -> None:
        """Raise for a label that the loss does not accept; most losses accept any number.

        Parameters
        ----------
        y : ndarray of float64, shape (m,)

        Raises
        ------
        DataError
            For the first such label.
        """
        return

    def grouped(self, groups: Indices | None) -> Loss:
        """Return the loss for rows of these groups; most losses ignore them.

        Parameters
        ----------
        groups : ndarray of int64, shape (m,), or None
            The group of each row, numbered from 0.

        Returns
        -------
        Loss
        """
        return self

    def thresholds(self, margins: Vector, y: Vector, weights: Vector | None) -> Vector | None:
        """Return the best thresholds between ordered classes.

        Parameters
        ----------
        margins : ndarray of float64, shape (m,)
        y : ndarray of float64, shape (m,)
        weights : ndarray of float64, shape (m,), or None

        Returns
        -------
        ndarray of float64, shape (K - 1,), or None
            None for tasks without ordered classes.
        """
        return None

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v:g}" for k, v in self.params.items())
        return f"{type(self).__name__}({inner})"


class NamedLoss(Loss):
    """A loss of the package; subclasses set its name, its parameter and its description.

    Parameters
    ----------
    **params
        The parameter of the loss, if it has one; see `bmrm.losses.get`.

    Raises
    ------
    ParameterError
        For another name, or a number out of its range.

    Examples
    --------
    >>> from bmrm import losses
    >>> losses.LOSSES["huber"](delta=2.0)
    Huber(delta=2)
    """

    about: ClassVar[About]
    parameter: ClassVar[str | None] = None
    default_text: ClassVar[str] = ""
    """The default of the parameter for the documentation, if it is not the number of ``PARAMETERS``."""

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
            raise ParameterError(
                f"{self.parameter}: found {number_text(self.parameter_value)}, expected {wanted}"
            )

    @property
    def params(self) -> dict[str, float]:
        return {} if self.parameter is None else {self.parameter: self.parameter_value}

    @property
    def key(self) -> object:
        return self.name, tuple(self.params.items())


class ScalarLoss(NamedLoss):
    """A loss of one margin whose formula is compiled.

    Parameters
    ----------
    **params
        As for `NamedLoss`.

    Examples
    --------
    >>> from bmrm import losses
    >>> isinstance(losses.get("logistic"), losses.ScalarLoss)
    True
    """

    @property
    def number(self) -> int:
        """Index of the formula among the compiled ones."""
        return _losses.names().index(self.name)

    @property
    def smooth(self) -> bool:
        return _losses.smooth(self.number)

    @property
    def kinked(self) -> bool:
        return _losses.kinked(self.number)

    @property
    def has_dual(self) -> bool:
        return _losses.has_dual(self.number)

    @property
    def level(self) -> float:
        return self.parameter_value if self.parameter == "epsilon" else 0.0

    def target_norm(self, y: Vector) -> float:
        # Kinks lie this much farther out than the labels, or than the 1 of the hinge.
        offset = self.parameter_value if self.parameter in ("epsilon", "h") else 0.0
        return super().target_norm(y) + offset * math.sqrt(len(y))

    def risk(self, y: Vector, weights: Vector | None, scale: float, threads: int) -> RowRisk:
        return _losses.Risk(self.number, self.parameter_value, y, weights, scale, threads)


LossFunction = Callable[[Any, Any], tuple[Any, Any]]


class CallableLoss(Loss):
    """A user's loss: a function of margins and labels that returns values and derivatives.

    Parameters
    ----------
    function : callable
        ``function(margins, y) -> (values, derivatives)``, all of shape (m,).  It must be convex in the margin
        and ``derivatives`` must be a subgradient: the certificate rests on both.  It may overwrite the
        margins, but not the labels.
    name : str, default "user"
    task : str, default "regression"
        The kind of labels; see `Loss`.
    minimum : float, default -inf
        A lower bound of the loss of every row. The certificate of an l1 penalty, and of features without a
        penalty, rests on it.
    arrays : {"numpy", "cupy", "torch", "jax", "dlpack"}, default "numpy"
        The arrays that the function gets and returns. "numpy": float64 on the host. The others: arrays of
        that library, or ("dlpack") objects with only ``__dlpack__`` and ``__cuda_array_interface__``.  With
        the L2 norm and X on a GPU, they share the memory of the solver's margins on that GPU and have their
        type, float32 or float64; otherwise they are float64 on the host, or for CuPy copied to its device.
        The returned arrays must be on the device of the margins, float32 or float64.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm.losses import CallableLoss
    >>> cosh = CallableLoss(lambda u, y: (np.log(np.cosh(u - y)), np.tanh(u - y)), name="logcosh")
    >>> float(cosh.derivative(np.array([1.0]), np.array([1.0]))[0])
    0.0
    >>> cosh.check_minimum(np.zeros(3))
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
        # The attributes may be assigned to between two solves.
        return self, self.function, self.minimum

    def floor(self, y: Vector, weights: Vector | None) -> float:
        return self.minimum  # the risk is a mean of losses

    def risk(self, y: Vector, weights: Vector | None, scale: float, threads: int) -> RowRisk:
        return _CallableRisk(self, y, weights, scale)

    def check_minimum(self, values: Vector) -> None:
        """Raise if a value is below ``minimum``.

        Parameters
        ----------
        values : ndarray of float64, shape (m,)

        Raises
        ------
        DataError
            With the least value.
        """
        if self.minimum > -np.inf and values.size and values.min() < self.minimum:
            raise DataError(
                f"loss {self.name}: found the value {number_text(values.min())}, "
                "expected at least its minimum, "
                f"{self.minimum:g}"
            )


class _CallableRisk:
    """Sums over the rows of a loss in Python."""

    def __init__(self, loss: CallableLoss, y: Vector, weights: Vector | None, scale: float) -> None:
        self.loss, self.labels = loss, read_only_view(y)
        self.weights = np.full(len(y), scale) if weights is None else weights * scale
        self._idle = self.weights == 0.0
        self._all_count = not self._idle.any()

    def _evaluate(self, u: Vector) -> tuple[Vector, Vector]:
        kind = self.loss.arrays
        # Arrays of other libraries cannot be read-only, so each call gets its own copy of the labels.
        labels = self.labels if kind == "numpy" else from_host(kind, self.labels.copy())
        found = self.loss.function(from_host(kind, u), labels)
        values, derivatives = (to_host(kind, array) for array in found)
        for what, array in (("values", values), ("derivatives", derivatives)):
            check_result_shape(f"loss {self.loss.name}: {what}", array.shape, u.shape)
        self.loss.check_minimum(values if self._all_count else values[~self._idle])
        if not self._all_count:  # rows of weight 0 take no part, even if their loss is infinite
            values, derivatives = values.copy(), derivatives.copy()
            values[self._idle] = derivatives[self._idle] = 0.0
        return values, derivatives

    def slope(self, z: Vector, dz: Vector, t: float, b: float) -> tuple[float, float]:
        g = self.weights * self._evaluate(z + t * dz + b)[1]
        return dot(g, dz), float(g.sum())

    def cut(
        self, z: Vector, dz: Vector, t: float, b: float, starts: Indices, r: Vector
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
