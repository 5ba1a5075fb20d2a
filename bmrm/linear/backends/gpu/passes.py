"""The steps of a solve with weights, margins and cuts on a GPU.

The host sees a few numbers a step: an answer each from the search along a line, from the new cut with its row
of the Gram matrix, and from the model's minimiser.  Products are queued and not waited for: that of the
minimiser's margins is behind it before the host knows its bound.  Their time, which the device measures, is
part of the wait for the step behind them; `seconds` says how much.

The regulariser is the L2 norm, of which the device gives what the solver asks along with other sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bmrm.linear.backends.gpu.cuts import GpuCuts, GpuRowCuts, Resident
from bmrm.linear.backends.host.passes import OneProcess, search_on_slopes
from bmrm.linear.objective.objective import (
    FARTHEST,
    LONGEST_STEP,
    Iterate,
    LineSearchProblem,
    LineSearchResult,
    Operator,
    Subgradients,
)
from bmrm.linear.objective.running_error import Derivatives
from bmrm.linear.regularizers import Regularizer
from bmrm.linear.regularizers.separable import StraightLine
from bmrm.losses.base import KinkedRisk, Pieces, RowRisk
from bmrm.matrix.gpu.libraries import has_blas

Vector = NDArray[np.float64]
Starts = NDArray[np.int64]


class GpuPasses(OneProcess):
    """`bmrm.linear.objective.objective.Passes` on a GPU.

    Parameters
    ----------
    cuts : GpuCuts
        Of the problem to solve.
    ahead : bool
        Begin the cut with the search, where a pass makes one.
    rows : callable, optional
        Binds the risk on the host, for interior points.
    """

    def __init__(self, cuts: GpuCuts, ahead: bool, rows: Callable[[], RowRisk] | None = None) -> None:
        self.cuts, self.problem, self.ahead = cuts, cuts.problem, ahead
        self._rows = rows
        self._mean_squares: Vector | None = None

    @property
    def seconds(self) -> float:
        """Time of products so far, by the device's clock."""
        return self.problem.product_seconds

    def origin(self) -> Resident:
        """Weights that are 0, of which nothing crosses the bus."""
        return self.problem.origin()

    def weights(self, w: Vector) -> Resident:
        """Take weights in."""
        return self.problem.weights(w)

    def column_lengths(self, squares: Vector) -> float:
        """Return the length of all columns of X together."""
        return float(np.sqrt(squares.sum()))

    def size(self, w: Resident, lengths: Vector | float) -> float:
        """Return the size of a point."""
        return float(lengths) * math.sqrt(max(0.0, w.square))

    def known_of(self, starts: Starts, which: int, extra: float = 0.0) -> Derivatives | None:
        """Return None: the derivatives stay on the device."""
        return None

    def constants(self, starts: Starts) -> Vector | None:
        """Return None: the derivatives stay on the device."""
        return None

    def array(self, w: Resident) -> Vector:
        """Give weights out."""
        return w.get()

    def margins(self, w: Resident) -> Resident:
        """``X w``, queued when the store made w."""
        return self.problem.margins(w)

    def fresh(self, w: Resident) -> tuple[Resident, Resident]:
        """Return the same point and its margins from a new product."""
        return w, self.problem.fresh_margins(w)

    def rescaled(self, w: Resident, scale: float) -> Resident:
        """Margins of ``scale w``, from a product of its own."""
        return self.problem.rescaled(w, scale)

    def direction(self, z: Resident, end: Resident) -> Resident:
        """``end - z``, in the place of ``end``."""
        self.problem.make_direction(z, end)
        return end

    def between(self, w: Resident, end: Resident, t: float) -> Resident:
        """``w + t (end - w)``."""
        return self.problem.between(w, end, t)

    def penalty(self, reg: Regularizer, w: Resident) -> float:
        """``lam/2 |w|^2``."""
        return 0.5 * reg.lam * w.square

    def penalty_line(self, reg: Regularizer, w: Resident, end: Resident) -> StraightLine:
        """Return the derivative of ``lam/2 |w|^2`` along ``w + t (end - w)``."""
        return StraightLine(reg.lam * end.inner, reg.lam * end.away)

    def search(self, ray: LineSearchProblem) -> tuple[Resident, LineSearchResult]:
        """Minimise J along a line; return the direction too.

        Where a pass makes one cut it is begun at once, at the place where it will most likely be asked for.
        """
        z, end, w, w_end, penalty, first, accuracy, content, reach = ray
        assert isinstance(penalty, StraightLine)
        assert not content
        cut = self.cuts.size if self.ahead else -1
        step, risk, moved = self.problem.search(
            z, end, w, w_end, penalty.p, penalty.q, first, LONGEST_STEP, accuracy, cut, FARTHEST, reach
        )
        return end, LineSearchResult(step, moved, risk)

    def slope(self, z: Resident, dz: Resident, t: float, b: float) -> tuple[float, float]:
        """Return the derivatives of ``R(z + t dz + b)`` in t and b."""
        return self.problem.slope(z, dz, t, b)

    def risk(self, z: Resident, dz: Resident | None, t: float, b: float) -> tuple[float, Resident]:
        """Risk at ``z + t dz + b``, and the margins ``z + t dz``."""
        risk, moved = self.problem.risk(z, dz, t, b, dz is not None)
        return risk, z if moved is None else moved

    def derivatives(
        self, z: Resident, dz: Resident | None, t: float, b: float, which: int
    ) -> tuple[float, float]:
        """Keep the derivatives of all rows; return risk and their sum."""
        return self.problem.derivatives(z, dz, t, b, which)

    def mix_derivatives(self, share: float) -> None:
        """Make the first derivatives ``share`` of themselves and the rest of the second ones."""
        self.problem.mix_derivatives(share)

    def round_kinks(self, width: float) -> None:
        """Search and cut the risk with kinks rounded over ``width`` from now on; as it is for 0."""
        self.problem.round_kinks(width)

    def planes(
        self, z: Resident, dz: Resident | None, t: float, starts: Starts, w: Resident, end: Resident
    ) -> Subgradients:
        """Cutting planes at ``z + t dz``, the margins of ``w + t (end - w)``."""
        return self._planes(starts, z, dz, w, end, t)

    def mixed_planes(self, starts: Starts, w: Resident, end: Resident, t: float) -> Subgradients:
        """Cutting planes of the first derivatives as they are."""
        return self._planes(starts, None, None, w, end, t)

    def _planes(
        self, starts: Starts, z: Resident | None, dz: Resident | None, w: Resident, end: Resident, t: float
    ) -> Subgradients:
        size = self.cuts.size
        sums, products = self.problem.cut(size, starts, z, dz, w, end, t)
        new = range(size, size + len(sums))
        return Subgradients(new, products[:, :-1], products[:, -1], sums[:, 0], sums[:, 1])

    @property
    def may_go_inside(self) -> bool:
        """Whether interior points may step here: with all rows in this process, X dense, and room."""
        matrix = self.problem.matrix
        if self._rows is None or isinstance(self.cuts, GpuRowCuts) or not matrix.is_dense:
            return False
        return bool(matrix.weighted_gram_bytes <= matrix.bytes_left)

    @property
    def has_hessian(self) -> bool:
        """Whether what makes a Hessian is found; asked for when steps pay, as it takes a while."""
        return has_blas()

    def pieces(self) -> Pieces:
        """Tell the risk's pieces between kinks."""
        assert self._rows is not None
        return Pieces(*cast("KinkedRisk", self._rows()).pieces())

    def rows_of(self, z: Resident) -> Vector:
        """Give margins out."""
        return z.get()

    def placed(self, w: Vector, margins: Vector) -> tuple[Resident, Resident]:
        """Take a point in; its margins come from a product."""
        return self.fresh(self.weights(w))

    def planes_of(self, r: Vector, starts: Starts, w: Vector) -> Subgradients:
        """Cutting planes of any derivatives; their risk is not known."""
        point = self.weights(w)
        self.problem.set_derivatives(r, starts)
        return self._planes(starts, None, None, point, point, 0.0)

    def newton_point(
        self,
        at: Iterate,
        gradients: range,
        operator: Operator,
        lam: float,
        profile: bool,
        passes: int,
        forcing: float,
    ) -> Resident | None:
        """Minimise the quadratic model of J at a point by conjugate gradients; see `solvers.newton`."""
        if self._mean_squares is None:
            self._mean_squares = operator.mean_squares
        return self.problem.newton_point(
            at.w, at.margins, at.intercept, gradients, self._mean_squares, lam, profile, passes, forcing
        )


class SlopePasses(GpuPasses):
    """`GpuPasses` whose search asks for one slope of the risk at a time, as on the host.

    Parameters
    ----------
    cuts : GpuCuts
        Of the problem to solve.
    """

    def __init__(self, cuts: GpuCuts) -> None:
        super().__init__(cuts, ahead=False)

    def search(self, ray: LineSearchProblem) -> tuple[Resident, LineSearchResult]:
        """Minimise J along a line; return the direction too."""
        return search_on_slopes(self, ray)
