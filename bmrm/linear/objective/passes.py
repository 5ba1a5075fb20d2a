"""What the algorithm asks of the place where weights and margins live: the protocol of a backend.

The algorithm works on *lines*: the margins of both ends are known, so searching a line, moving to a point of
it and taking the derivatives there need no product with X.  Where weights and margins live, and how a pass
over the rows is made, is the business of `Passes`: ``backends/host/passes.py`` has NumPy arrays and the
compiled sums of the loss, ``backends/host/row_space.py`` keeps combinations of rows if X has fewer rows than
columns, and ``backends/gpu/passes.py`` keeps everything on a GPU.

A new backend implements `Passes` and `bmrm.linear.bundle.store.CutStore`; no algorithm has to know of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from bmrm.base.vectors import Indices, Vector
from bmrm.linear.objective.line_search import search_ray
from bmrm.linear.objective.running_error import Blur, Derivatives
from bmrm.linear.regularizers import LineDerivative, Regularizer
from bmrm.losses import Loss
from bmrm.losses.base import Pieces

Weights: TypeAlias = Any
"""A point w where `Passes` keeps it: an array, or a handle of one on a device."""
Margins: TypeAlias = Any
"""Margins X w, likewise; a backend may keep them with the offsets of the rows, or add these in the risk."""
Gradients: TypeAlias = Vector | range
"""Gradients of cuts: an array; on a device, the numbers that they have in their store."""
FreeIntercept: TypeAlias = Any
"""The intercept that is minimised out, a float; or those of K classes, an array."""

MAX_LINE_STEP = 100.0
"""Longest step on a line: its direction is known up to rounding of w, which a longer step would magnify."""

MAX_SHIFT = 0.1
"""Largest distance of a cut beyond the new best point, as a share of that from the last one to the end of the
line."""

SHIFT_PER_STEP = 2.0
"""Usual distance of a cut beyond the new best point, as a multiple of the step to that point."""


class DesignOperator(Protocol):
    """The interface of a resident matrix that training needs."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def nnz(self) -> int:
        """Number of stored values."""

    @property
    def n_outputs(self) -> int:
        """Margins per row of X."""

    @property
    def constant(self) -> float | None:
        """Value of the constant feature whose weights are penalised intercepts; None without one."""

    @property
    def weighted_gram_work(self) -> float:
        """Multiply-adds of `weighted_gram`; infinite if there is no such product."""

    @property
    def mean_squares(self) -> Vector:
        """Mean square of each column, over all rows; not to be written to."""

    def matvec(self, w: Vector, out: Vector) -> object:
        """``out = X w``."""

    def rmatvec_blocks(self, r: Vector, starts: Indices, out: Vector) -> object:
        """``out[p] = X_p' r_p`` for each block of rows."""

    def weighted_gram(self, s: Vector, out: Vector) -> object:
        """``out = X' diag(s) X``."""

    def split(self, w: Vector) -> tuple[Vector, float | Vector | None]:
        """Return weights and penalised intercepts of a vector of weights; None for no intercept."""

    def join(self, w: Vector, intercept: float | Vector) -> Vector:
        """Return the vector of weights and intercepts that `split` takes apart."""

    def column_squares(self, counted: Vector | None, rows: int) -> Vector:
        """Return the sum of the squares of each column; see `bmrm.matrix.adapted.MatrixAdapter`."""


class ObjectiveData(Protocol):
    """What the passes may ask of the objective; see `bmrm.linear.objective.objective.Objective`."""

    operator: DesignOperator
    loss: Loss
    reg: Regularizer
    profile: bool
    starts: Indices

    def gradient(self, gradients: Vector) -> Vector:
        """Return the gradient of the risk from those of its parts."""


class Iterate(NamedTuple):
    """A point and everything known about it; `size` is that of its margins, see `running_error`."""

    w: Weights
    margins: Margins
    intercept: FreeIntercept
    objective: float
    size: float = 0.0


class LineSearchProblem(NamedTuple):
    """A line to search from a point, and how; see `search_ray`."""

    # At the point, and at the step 1; the latter may be overwritten
    z: Margins
    end: Margins
    # Likewise
    w: Weights
    w_end: Weights
    penalty: LineDerivative  # derivative of the penalty along the line
    first: float
    accuracy: float
    content: float
    reach: float

    def minimise(self, slope: Callable[[float], float]) -> float:
        """Search the line by slopes of J."""
        return search_ray(
            slope,
            self.first,
            self.accuracy,
            end=self.penalty.end,
            longest=MAX_LINE_STEP,
            content=self.content,
        )


class LineSearchResult(NamedTuple):
    """The end of a line search: the step, and the margins and the risk there."""

    step: float
    margins: Margins
    risk: float


class Subgradients(NamedTuple):
    """Cutting planes at one point, one for each block of rows."""

    gradients: Gradients
    """Shape (blocks, width), or range: in the form that the store of the cuts keeps; their numbers there if
    it has them already."""
    products: Vector | None
    """Shape (blocks, cuts + blocks), or None: inner products of the gradients with those of all cuts, if they
    are known."""
    at_point: Vector  # shape (blocks,): inner products of the gradients with the point
    # shape (blocks,): risk of each block's rows, and sum of their derivatives
    risk: Vector
    slope: Vector


class CutBatch(NamedTuple):
    """Cutting planes for the bundle, the risk at their point, and what rounding may have done to them."""

    planes: Subgradients
    offsets: Vector
    risk: float
    blur: Blur | None = None


class Softened(NamedTuple):
    """What is known of the softened risk of losses of K margins per row, at margins on a line."""

    level: float  # of the plane there
    along: float  # slope along the line
    sums: Vector  # shape (K,): sums of the derivatives of each class
    hessian: Vector | None  # shape (K, K): second derivatives in the intercepts


class StepCosts(NamedTuple):
    """The costs of a pass of cutting planes and of an interior-point step, both in the same unit of work."""

    one_pass: float  # what a pass of planes does with X and its rows
    step: float  # all of an interior-point step
    product: float  # an inner product of a new cut with an old one
    change: float  # what the inner QP does for each new cut and each pair of cuts that hold mass


class Ascent(Protocol):
    """A point r of the dual on its way up, and the weights ``w = -X' r / lam`` that belong to it."""

    exact: bool
    """Whether J evaluated at `point` is what a new product of its weights would make it."""
    min_steps: int
    """Number of steps in a row that may fail to halve the gap."""

    @property
    def point(self) -> Weights:
        """The minimiser of the penalty plus the plane of the last step."""

    def step(
        self, reached: float, tol: Callable[[float], float], ends: Callable[[], bool]
    ) -> tuple[Subgradients, float]:
        """Go up, until the gap seems to be small enough; return the plane of r and its conjugate.

        Parameters
        ----------
        reached : float
            The objective at the last point.
        tol : callable
            The gap that is small enough if the objective is as given.
        ends : callable
            Whether a signal or the clock asks for the end of the run.

        Returns
        -------
        planes : Subgradients
            ``X' r``; the risk is not known.
        conjugate : float
            ``sum_i f_i(r_i)`` for the conjugates f_i of the rows' losses; infinite outside their domains.
        """


class InteriorPasses(Protocol):
    """What an interior point asks of the passes; its own arrays are on the host."""

    def interior_costs(self, objective: ObjectiveData) -> StepCosts | None:
        """Return what planes and interior-point steps cost; None if there can be no such steps here."""

    @property
    def has_hessian(self) -> bool:
        """Whether the library that forms a Hessian is found; asked when steps pay, as looking takes long."""

    def pieces(self) -> Pieces:
        """Return the linear pieces of the risk between its kinks."""

    def total(self, sums: Vector) -> Vector:
        """Return sums over all rows from those over the rows of this process."""

    def least(self, number: float) -> float:
        """Return the least of the numbers of all processes."""

    def array(self, w: Weights) -> Vector:
        """Copy weights to the host."""

    def rows_of(self, z: Margins) -> Vector:
        """Copy margins to the host, without offsets."""

    def placed(self, w: Vector, margins: Vector) -> tuple[Weights, Margins]:
        """Copy a point and its margins from the host."""

    def planes_of(self, r: Vector, starts: Indices, w: Vector) -> Subgradients:
        """Return the cutting planes of any derivatives; their risk is not known."""


class ClassPasses(Protocol):
    """What intercepts of several classes ask of the passes, if they are minimised out."""

    def risk(self, z: Margins, dz: Margins | None, t: float, b: FreeIntercept) -> tuple[float, Margins]:
        """Return the risk at ``z + t dz + b``, and the margins ``z + t dz``; without dz, t is 0."""

    def soften(
        self,
        z: Margins,
        dz: Margins,
        t: float,
        b: Vector,
        width: float,
        *,
        move: Vector | None = None,
        keep: bool = False,
        hessian: bool = False,
    ) -> Softened:
        """Return what is known of the risk at ``z + t dz + b``, softened over a width.

        Parameters
        ----------
        z, dz : Margins
        t : float
        b : ndarray of shape (K,)
        width : float
        move : ndarray of shape (K,), optional
            Move the derivatives as this change of b would, to first order.
        keep : bool
            Whether the derivatives become the first of the two sets.
        hessian : bool
        """

    def class_weights(self) -> Vector:
        """Return the weight of each class, shape (K,), as a share of all; ones if rows have several."""


class Passes(InteriorPasses, Protocol):
    """Weights, margins and derivatives where they live, and the passes over them."""

    @property
    def seconds(self) -> float:
        """Time of all products so far."""

    # Points.

    def origin(self) -> Weights:
        """Return weights of 0."""

    def weights(self, w: Vector) -> Weights:
        """Copy weights from the host."""

    def margins(self, w: Weights) -> Margins:
        """``X w`` for a point that the store of the cuts made."""

    def fresh(self, w: Weights) -> tuple[Weights, Margins]:
        """Return the same point and its margins from a new product, free of accumulated rounding."""

    def rescaled(self, w: Weights, scale: float) -> Margins:
        """Return the margins of ``scale w`` from a new product: it rounds otherwise than that of ``w``."""

    def between(self, w: Weights, end: Weights, t: float) -> Weights:
        """``w + t (end - w)``."""

    def direction(self, z: Margins, end: Margins) -> Margins:
        """``end - z``; the margins ``end`` may be overwritten."""

    def penalty(self, reg: Regularizer, w: Weights) -> float:
        """``lam Omega(w)``."""

    def penalty_line(self, reg: Regularizer, w: Weights, end: Weights) -> LineDerivative:
        """Return the derivative of ``lam Omega`` along ``w + t (end - w)``."""

    # The risk and its derivatives.

    def search(self, ray: LineSearchProblem) -> tuple[Margins, LineSearchResult]:
        """Minimise J along a line, see `search_ray`; return the direction too."""

    def slope(self, z: Margins, dz: Margins, t: float, b: float) -> tuple[float, float]:
        """Return the derivatives of ``R(z + t dz + b)`` in t and b."""

    def risk(self, z: Margins, dz: Margins | None, t: float, b: FreeIntercept) -> tuple[float, Margins]:
        """Return the risk at ``z + t dz + b``, and the margins ``z + t dz``; without dz, t is 0.

        On the host the second set of derivatives becomes that of the risk there.
        """

    def derivatives(
        self, z: Margins, dz: Margins | None, t: float, b: float, which: int
    ) -> tuple[float, float]:
        """Keep the derivatives of all rows as the first or second of two sets; return risk and their sum."""

    def mix_derivatives(self, share: float) -> None:
        """Replace the first derivatives by ``share`` of themselves plus the rest of the second ones."""

    def planes(
        self, z: Margins, dz: Margins | None, t: float, starts: Indices, w: Weights, end: Weights
    ) -> Subgradients:
        """Return the cutting planes at ``z + t dz``, the margins of ``w + t (end - w)``."""

    def mixed_planes(self, starts: Indices, w: Weights, end: Weights, t: float) -> Subgradients:
        """Return the cutting planes of the first derivatives as they are."""

    def round_kinks(self, width: float) -> None:
        """Search and cut the risk with kinks rounded over ``width`` from now on; as it is for 0.

        `risk` is always that with kinks. Called only for losses with kinks.
        """

    # Proposals of points.

    def newton_point(self, objective: ObjectiveData, at: Iterate, gradients: Gradients) -> Weights | None:
        """Return the minimiser of the quadratic model of J at a point, or a point near it if X is wide.

        See `bmrm.linear.solvers.newton`.

        Parameters
        ----------
        objective : ObjectiveData
        at : Iterate
        gradients : Gradients
            Of the risk's parts there.

        Returns
        -------
        Weights or None
            None if rounding or overflow leave no positive definite Hessian.
        """

    def begin_ascent(self, objective: ObjectiveData, at: Iterate) -> Ascent:
        """Begin to ascend in the dual: from the derivatives at a point, or from 0 at weights of 0.

        Called only if the backend has said that it pays.
        """

    # What rounding may hide; see `running_error`.

    def column_lengths(self, squares: Vector) -> Vector | float:
        """Return the length of each column of X; or that of all, if weights are not at hand one by one."""

    def size(self, w: Weights, lengths: Vector | float) -> float:
        """Return the size of a point that `between` did not make."""

    def known_of(self, starts: Indices, which: int, extra: float = 0.0) -> Derivatives | None:
        """Return what is known of one of the two sets of derivatives, by block of rows.

        ``extra`` is added to the sum of the rows' derivatives.
        """

    def constants(self, starts: Indices) -> Vector | None:
        """Return the offsets of the last planes of a loss with kinks, from their derivatives alone.

        None if the derivatives, or the rows that they belong to, are not at hand.
        """
