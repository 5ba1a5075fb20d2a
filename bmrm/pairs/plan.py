"""How pairs are counted: on which device, by which kernel, with how many candidates, and why.

All choices of a call are made here, once. A kernel computes the distances of candidates: "float64" and
"brute" of all pairs, "cells" of those in cells that are near enough. The number of candidates is counted,
from the points of each cell; what a candidate takes is measured on the machine if the count is long
(`bmrm.pairs.rates`). No count depends on the plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bmrm.base.suggestions import did_you_mean, nearest
from bmrm.base.units import size_text, time_text
from bmrm.errors import ParameterError
from bmrm.matrix.gpu.work import Work, threads_of
from bmrm.pairs.images import check_images
from bmrm.pairs.rates import rate
from bmrm.pairs.work import CELL_MARGIN, pair_work

if TYPE_CHECKING:
    from bmrm.pairs.edges import Bins
    from bmrm.pairs.passes import Counter, PairPasses
    from bmrm.pairs.points import Points

PLANS = ("auto", "brute", "cells", "float64")
"""What a user may ask for."""

IMAGES = ("one", "all")
"""Which images of a pair count, besides None: the nearest one if that is the only one within reach."""

MAX_CELL_AXES = 3
"""Maximum number of axes that have cells."""

MIN_CELL_POINTS = 1000
"""Minimum number of points for which cells pay."""

MAX_CELL_SHARE = 0.9
"""Maximum share of all pairs, as a rough estimate, for which cells are tried: sorting points is cheap."""

SHORT_CALLS = 1.5
"""Predicted time of all pairs, in calls without any, up to which cells are not tried."""

CELL_REACH = 2.0
"""Lengths of the reach that pairs may span, to either side of a point together."""

NEAREST_SHARE = 0.49
"""Share of a period below which no second image of a pair can be within reach, rounding included."""

MAX_GUARDED = 1e15
"""Maximum extent of points for which float32 about centres has a bound of its error."""

MIN_GUARDED = 1e-15
"""The least edge above 0 for which it has one."""


@dataclass(frozen=True)
class PairPlan:
    """How pairs are counted.

    Attributes
    ----------
    device : str
        ``"cpu"`` or ``"cuda:N"``.
    kernel : {"brute", "cells", "float64"}
        All pairs in float32, with those near an edge decided in float64; the same for pairs of near cells;
        all pairs in float64.
    candidates : float
        Pairs whose distance is computed.
    seconds : float
        Predicted time.
    bytes : int
        Predicted memory of the device.
    reason : str

    Examples
    --------
    >>> print(PairPlan("cpu", "brute", 499500.0, 2e-4, 48000, "few points"))
    cpu, brute: 4.995e+05 candidates, about 0 ms, 48 kB: few points
    """

    device: str
    kernel: str
    candidates: float
    seconds: float
    bytes: int
    reason: str

    def __str__(self) -> str:
        size, length = f"{self.candidates:.4g} candidates", time_text(self.seconds)
        return f"{self.device}, {self.kernel}: {size}, about {length}, {size_text(self.bytes)}: {self.reason}"


class Prepared(NamedTuple):
    """A plan, and the counter that carries it out."""

    plan: PairPlan
    counter: Counter


class Question(NamedTuple):
    """What is to be counted.

    Attributes
    ----------
    a, b : Points
        The sets; b is None for one set.
    bins : Bins
    images : {"nearest", "all"}
        Which images kernels count.
    """

    a: Points
    b: Points | None
    bins: Bins
    images: str

    @property
    def pairs(self) -> int:
        """Number of all pairs of points."""
        n = len(self.a)
        return n * (n - 1) // 2 if self.b is None else n * len(self.b)

    @property
    def points(self) -> int:
        """Number of points of both sets."""
        return len(self.a) + (0 if self.b is None else len(self.b))


def images_of(a: Points, bins: Bins, images: str | None) -> str:
    """Return which images kernels count; raise for a reach that ``images`` does not allow."""
    if images not in (None, *IMAGES):
        hint = did_you_mean(nearest(str(images), IMAGES))
        raise ParameterError(f"images: found {images!r}{hint}, expected one, all or None")
    if images is None and bins.reach > a.half_period:
        raise ParameterError(
            f"images: found None for a largest edge of {bins.reach:g}, beyond half the shortest period, "
            f"{a.half_period:g}; expected images='one' (the nearest image of each pair) or images='all'"
        )
    if images != "all" or not a.box.any() or bins.reach < NEAREST_SHARE * 2.0 * a.half_period:
        return "nearest"
    if bins.reach == np.inf:
        raise ParameterError("edges: found an infinite edge, expected finite ones for images='all'")
    check_images(a.box, bins)
    return "all"


def near_share(question: Question) -> float:
    """Return a rough share of the pairs that cells leave: what their volume is of that of all points."""
    if not question.points or not 1 <= question.a.shape[1] <= MAX_CELL_AXES:
        return 1.0
    spans = _spans(question)
    if not np.isfinite(spans).all():
        return 1.0
    reach = max(question.bins.reach, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(spans > 0.0, CELL_REACH * reach / spans, 1.0)
    return float(np.prod(np.minimum(shares, 1.0)))


def _spans(question: Question) -> Any:
    """Return the extent of all points on each axis, at most a period."""
    sets = [each for each in (question.a, question.b) if each is not None and len(each)]
    with np.errstate(over="ignore"):
        low, high = (
            pick([each.extents[end] for each in sets], axis=0) for end, pick in enumerate((np.min, np.max))
        )
        spans = high - low
    box = question.a.box
    return np.where(box > 0.0, np.minimum(spans, box), spans)


def why_float64(question: Question) -> str:
    """Return why kernels in float32 have no bound of their error here; "" if they have one."""
    if question.images == "all":
        return "every image within reach counts"
    if question.points and question.a.shape[1]:
        spans = _spans(question)
        if not (spans <= MAX_GUARDED).all():
            return f"points are {spans.max():.3g} apart, too far for float32"
    edges = question.bins.edges
    least = edges[edges > 0.0].min(initial=np.inf)
    if least < MIN_GUARDED:
        return f"an edge of {least:.3g} is too small for float32"
    return ""


def expected_work(question: Question, asked: str, threads: int | None) -> Work:
    """Predict the work of a count from the extent of the points, before they are placed."""
    share, candidates = near_share(question), {"brute": float(question.pairs)}
    if asked == "float64" or why_float64(question):
        candidates = {"float64": float(question.pairs)}
    elif asked == "cells" or (asked == "auto" and not _why_all_pairs(question, share)):
        cells = question.pairs * min(1.0, share * CELL_MARGIN ** question.a.shape[1])
        candidates = {"cells": cells} | (candidates if asked == "auto" else {})
    words = question.a.shape[1], question.bins.count, question.points, threads
    return min((pair_work(kernel, each, *words) for kernel, each in candidates.items()), key=_cpu_seconds)


def _cpu_seconds(work: Work) -> float:
    return work.cpu_seconds


def _why_all_pairs(question: Question, share: float) -> str:
    """Return why cells are not tried; "" if they are."""
    if question.points < MIN_CELL_POINTS:
        return "few points"
    return "most pairs are near enough to count" if share > MAX_CELL_SHARE else ""


def prepare(passes: PairPasses, question: Question, asked: str, threads: int | None) -> Prepared:
    """Decide by which kernel to count on a device, and prepare it.

    Raises
    ------
    ParameterError
        If the plan that was asked for cannot count this.
    HostMemoryError, DeviceMemoryError
        If it needs more memory than is free.
    """
    guard = why_float64(question)
    if asked in ("brute", "cells") and guard:
        raise ParameterError(f"plan: found {asked!r}, expected float64 or auto: {guard}")
    if asked == "cells" and not 1 <= question.a.shape[1] <= MAX_CELL_AXES:
        raise ParameterError(f"plan: found 'cells' for {question.a.shape[1]} axes, expected 1 to 3")
    if asked == "cells" and question.bins.reach == np.inf:
        raise ParameterError("plan: found 'cells' for an infinite edge, expected brute, float64 or auto")
    if asked != "auto" or guard:
        return _prepare_kernel(passes, question, "float64" if guard else asked, threads, guard or "as given")
    why = _why_all_pairs(question, near_share(question))
    if why:
        return _prepare_kernel(passes, question, "brute", threads, why)
    call, seconds = _seconds(passes, question, "brute", float(question.pairs), threads)
    if seconds < SHORT_CALLS * call:
        return _prepare_kernel(passes, question, "brute", threads, "all pairs take less than a try of cells")
    cells = _prepare_kernel(passes, question, "cells", threads, "")
    if cells.plan.seconds < seconds:
        why = f"{cells.plan.candidates / max(1, question.pairs):.2%} of the pairs are in near cells"
        return Prepared(replace(cells.plan, reason=why), cells.counter)
    return _prepare_kernel(passes, question, "brute", threads, "cells would leave most pairs")


def _prepare_kernel(
    passes: PairPasses, question: Question, kernel: str, threads: int | None, reason: str
) -> Prepared:
    axes, bins = question.a.shape[1], question.bins.count
    needed = passes.memory(kernel, question.points, axes, bins, threads)
    passes.require(needed, f"counting {question.points} points in {bins} bins")
    a = question.a.placed(passes)
    b = None if question.b is None else question.b.placed(passes)
    counter = passes.counter(a, b, question.bins.counted, kernel, question.images, threads)
    _, seconds = _seconds(passes, question, kernel, counter.candidates, threads)
    plan = PairPlan(passes.device, kernel, counter.candidates, seconds, needed, reason)
    return Prepared(plan, counter)


def _seconds(
    passes: PairPasses, question: Question, kernel: str, candidates: float, threads: int | None
) -> tuple[float, float]:
    """Return the predicted time of a call without candidates and points, and that of the call."""
    found = rate(passes, kernel, question.a.shape[1], question.bins.count, question.points, candidates)
    return found.call, found.seconds(question.points, candidates, passes.worth(threads_of(threads)))
