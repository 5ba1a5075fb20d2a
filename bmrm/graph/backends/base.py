"""What an algorithm asks of a backend.

A random walk with restart on a graph iterates

    T(x) = d (P' x + m(x) u) + (1 - d) v,

where P[i, j] is the weight of the edge from i to j over the sum of the weights of i, m(x) the sum of x over
the dangling nodes, u where they send their share and v where the walk restarts. A backend holds P' and the
vectors in the order in memory that suits it. It gives numbers to the algorithm: norms, inner products, bounds
of the rounding, the largest scores. Vectors leave it only as a result.

A walk has a base point in float64, and corrections of it in float32 on which most steps are taken (light
steps). Their images live in slots with numbers. A step takes a mixture of earlier images, so that Anderson's
method needs nothing else. An exact step moves the base to the point of a slot and computes T there in
float64; only its norm and rounding count in a proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from bmrm.base.vectors import Indices, Vector


@dataclass(frozen=True)
class Restarts:
    """Where the walks restart, and where dangling nodes send their share.

    Attributes
    ----------
    vector : ndarray of float64, shape (n,), or None
        The one restart vector, in the order of the labels, with sum 1; None if it is uniform or `nodes` is
        given.
    nodes, shares, columns : ndarray, or None
        For several walks: the nodes with a share in the restart vector of a walk, the shares, and the walks.
    n_columns : int
        Number of walks.
    dangling : ndarray of float64, shape (n,), or None
        Where the dangling nodes of all walks send their share, with sum 1; None is the restart vector.
    relative_error : float
        Bound of the relative error of the entries of all these vectors.
    """

    vector: Vector | None = None
    nodes: Indices | None = None
    shares: Vector | None = None
    columns: Indices | None = None
    n_columns: int = 1
    dangling: Vector | None = None
    relative_error: float = 0.0


class Walk(Protocol):
    """Walks on one graph that are computed together, with their points."""

    columns: int

    looks_ahead: bool
    """Whether it uses ``plain_next`` of a light step."""

    @property
    def norm_error(self) -> float:
        """Bound of the relative error of the norm of a residual of an exact step."""

    @property
    def signal_mode(self) -> str:
        """What a signal does during a run; see `bmrm.base.interrupts`."""

    def agree(self, status: str | None) -> str | None:
        """Return why all walks end now, if any process of several has a reason."""

    def place(self, slot: int, start: Vector | None = None) -> None:
        """Put the restart vectors into a slot, for light steps from there.

        A start of one walk, in the order of the labels, becomes the base, for an exact step from the slot.
        """

    def light_step(
        self,
        slots: Sequence[int],
        factors: Vector | None,
        mixed: int,
        into: int,
        *,
        plain_next: bool = False,
    ) -> Vector:
        """Compute T of a mixture x of images in float32; return the l1 norm of ``T(x) - x``, per walk.

        Parameters
        ----------
        slots : sequence of int
            Where the images are.
        factors : ndarray of float64, shape (len(slots), columns), or None
            Their factors. None: x is the only image.
        mixed : int
            Slot for the mixture.
        into : int
            Slot for T(x).
        plain_next : bool, default False
            Whether the next step is likely to be a light one from this image alone: a device that looks ahead
            begins it before it is asked for.
        """

    def exact_step(self, slot: int, into: int) -> Vector:
        """Compute T of an image x in float64; return the l1 norm of ``T(x) - x`` as computed, per walk.

        What is negative in x counts as 0. The base moves to x: what is in other slots is lost, and ``into``
        has T(x).
        """

    def products(self, images: Sequence[int], points: Sequence[int | None]) -> Vector:
        """Return the inner products of residuals, shape (len(images), len(images), columns).

        A residual is the image in a slot minus the point in another, or minus the base for None.
        """

    def rounding(self) -> Vector:
        """Bound the l1 distance from the last exact image, as `scores` returns it, to T(x), per walk."""

    @property
    def ranks_light_images(self) -> bool:
        """Whether `top` knows the scores of all nodes before the next exact step."""

    def top(self, slot: int, columns: Sequence[int], count: int) -> list[tuple[Indices, Vector]]:
        """Return the nodes with the largest entries, and these, in descending order, ties by number.

        One read of a slot finds the lists of several walks.
        """

    def scores(
        self, slot: int, columns: Sequence[int], out: Sequence[Vector] | None = None
    ) -> Sequence[Vector]:
        """Return the vectors of some walks in the order of the labels, in ``out`` if that is given."""

    def keep(self, columns: Sequence[int], slot: int) -> None:
        """Go on with some of the walks only, from the exact image in a slot."""

    def close(self) -> None:
        """Give the memory back; the walk is not used any more."""


class Transitions(Protocol):
    """P' of a graph on a device."""

    n: int

    @property
    def batch(self) -> int:
        """Maximum number of walks that are computed together, unless the user says how many."""

    def walk(self, damping: float, restarts: Restarts) -> Walk:
        """Begin walks."""


class Pair(Protocol):
    """A and A' of a graph on a device, for the Golub-Kahan process.

    Vectors are handles that only the backend reads.
    """

    n: int

    exponent: int
    """The backend's A is that of the graph times ``2**-exponent``."""

    fewer_hubs: bool
    """Whether vectors of hubs are much shorter than those of authorities."""

    @property
    def signal_mode(self) -> str:
        """See `Walk.signal_mode`."""

    def agree(self, status: str | None) -> str | None:
        """See `Walk.agree`."""

    def start(self) -> Any:
        """Return equal authorities with length 1."""

    def authorities(self, hubs: Any) -> Any:
        """Return A' h."""

    def hubs(self, authorities: Any) -> Any:
        """Return A a."""

    def orthogonalise(self, vector: Any, basis: Sequence[Any]) -> tuple[Any, float]:
        """Make a vector orthogonal to an orthonormal basis; return it with length 1, and the length before.

        The vector may be overwritten.
        """

    def combine(self, basis: Sequence[Any], factors: Vector) -> Any:
        """Return the sum of factors times vectors."""

    def distance(self, vector: Any, factor: float, other: Any) -> float:
        """Return the length of ``vector - factor * other``."""

    def hub_scores(self, hubs: Any) -> NDArray[Any]:
        """Return hubs in the order of the labels, as a distribution.

        Of the two signs it has the one with a positive sum. What is negative then is rounding and becomes 0.
        """

    def authority_scores(self, authorities: Any) -> NDArray[Any]:
        """Return authorities in the same way."""
