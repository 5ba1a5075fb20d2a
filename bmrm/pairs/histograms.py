"""Histograms of the distances of all pairs of points, and numbers of pairs within radii: exact.

A distance is the root of d2 = ((d_0^2 + d_1^2) + d_2^2) + ..., where d_k is the difference of the coordinates
as float64, and on a periodic axis d - L rint(d / L), each operation rounded once. Counts are those of
`numpy.histogram` of these distances: for every device, plan and instruction set, and any number of threads
and ranks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmrm.base.answers import Answer
from bmrm.base.interrupts import interruptible
from bmrm.base.suggestions import check_choice
from bmrm.base.vectors import Indices, Vector
from bmrm.errors import DataError, HostMemoryError, Interrupted, ParameterError, escape_unprintable
from bmrm.matrix.gpu.placement import Placement, place, with_fall_back
from bmrm.pairs.edges import CLOSED, Bins, read_bins, read_radii
from bmrm.pairs.images import own_images
from bmrm.pairs.passes import Counted, count_tasks
from bmrm.pairs.plan import (
    IMAGES,
    PLANS,
    PairPlan,
    Prepared,
    Question,
    expected_work,
    images_of,
    prepare,
)
from bmrm.pairs.points import Points, read_points, read_threads
from bmrm.pairs.work import MIN_SHARED_SECONDS

if TYPE_CHECKING:
    from typing import Self

    from bmrm.matrix.gpu.work import Work

_MEMBERS = {
    **dict.fromkeys(("edges", "totals", "box"), "f8"),
    **dict.fromkeys(("counts", "pairs"), "i8"),
    **dict.fromkeys(("words", "plan"), "U"),
}
"""Arrays of a file, and what they hold: float64, int64 or text."""


@dataclass(frozen=True, eq=False, repr=False)
class Histogram(Answer):
    """Numbers of pairs by distance.

    Attributes
    ----------
    counts : ndarray of int64, shape (bins,)
    edges : ndarray of float64, shape (bins + 1,)
    pairs : int
        Pairs of points that were considered, whatever their distance.
    rechecked : float
        Share of the candidates that were decided in float64.
    plan : PairPlan or None
        How they were counted; None for a sum of unlike plans.
    closed : {"last", "left", "right"}
    images : {"one", "all"} or None
    box : ndarray of float64
        Lengths of the axes; 0 for an open one.
    candidates : float
        Pairs whose distance was computed.
    share : float
        Share of the work that was done: 1, or less after Ctrl-C.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import pairs
    >>> found = pairs.histogram(np.arange(4.0)[:, None], edges=[0, 1, 2, 3])
    >>> found.counts, found.pairs
    (array([0, 3, 3]), 6)
    """

    counts: Indices
    edges: Vector
    pairs: int
    rechecked: float
    plan: PairPlan | None
    closed: str
    images: str | None
    box: Vector
    candidates: float
    share: float = 1.0

    @property
    def ordered(self) -> Indices:
        """Twice the counts: the numbers of ordered pairs of one set."""
        return 2 * self.counts

    _numbers = ("pairs", "candidates", "rechecked", "share", "closed", "images")

    def _title(self) -> str:
        low, high = self.edges[0], self.edges[-1]
        return f"Histogram: {len(self.counts)} bins from {low:g} to {high:g}, {self.counts.sum()} pairs"

    def _columns(self) -> Mapping[str, Any]:
        return {"from": self.edges[:-1], "to": self.edges[1:], "count": self.counts}

    def __add__(self, other: Any) -> Histogram:
        """Return the sum of two histograms of the same bins, as of frames or of parts of a set."""
        if not isinstance(other, Histogram):
            return NotImplemented
        for name in ("edges", "closed", "images", "box"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if not np.array_equal(mine, theirs):
                raise ParameterError(f"+: found histograms with other {name}, expected the same")
        candidates = self.candidates + other.candidates
        rechecked = self.rechecked * self.candidates + other.rechecked * other.candidates
        done = self.share * self.pairs + other.share * other.pairs
        return replace(
            self,
            counts=self.counts + other.counts,
            pairs=self.pairs + other.pairs,
            rechecked=rechecked / candidates if candidates else 0.0,
            plan=self.plan if self.plan == other.plan else None,
            candidates=candidates,
            share=done / max(1, self.pairs + other.pairs) if min(self.share, other.share) < 1.0 else 1.0,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an npz file, whole or not at all.

        Parameters
        ----------
        path : str or path

        Raises
        ------
        OSError
            If it cannot be written.

        Examples
        --------
        >>> import os, tempfile
        >>> from bmrm import pairs
        >>> found = pairs.histogram([[0.0], [1.0]], edges=[0, 2])
        >>> path = os.path.join(tempfile.mkdtemp(), "one.npz")
        >>> found.save(path)
        >>> pairs.Histogram.load(path).counts
        array([1])
        """
        from bmrm.base.atomic import atomic_write

        plan = "" if self.plan is None else json.dumps(asdict(self.plan))
        with atomic_write(path) as file:
            np.savez(
                file,
                allow_pickle=False,
                edges=self.edges,
                counts=self.counts,
                totals=np.array([self.candidates, self.rechecked, self.share]),
                pairs=np.array(self.pairs),
                words=np.array([self.closed, self.images or ""]),
                box=self.box,
                plan=np.array(plan),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` has written.

        Parameters
        ----------
        path : str or path

        Returns
        -------
        Histogram

        Raises
        ------
        DataError
            If the file is damaged or of another kind.
        OSError
            If it cannot be read.

        Examples
        --------
        >>> from bmrm import pairs
        >>> pairs.Histogram.load("no such file")
        Traceback (most recent call last):
        FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
        """
        from bmrm.io.formats import detect_format, read_npz_arrays
        from bmrm.io.sources import open_source

        name = escape_unprintable(os.fspath(path))
        with open_source(os.fspath(path)) as source:
            try:
                kind = detect_format(source)
                if kind != "npz":
                    raise DataError(f"found {kind}, expected an npz file of a histogram")
                return cls(**_checked(read_npz_arrays(source, tuple(_MEMBERS))))
            except (DataError, HostMemoryError) as error:
                raise type(error)(f"{name}: {error}") from None


def _checked(arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the attributes of a histogram from the arrays of a file; raise `DataError` for unfit ones."""
    missing = [name for name in _MEMBERS if name not in arrays]
    if missing:
        raise DataError(f"found no array {missing[0]!r}, expected those of a histogram")
    edges, counts, totals, box = (arrays[name] for name in ("edges", "counts", "totals", "box"))
    words, pairs, plan = arrays["words"], arrays["pairs"], arrays["plan"]
    bins = counts.size
    shapes = {"edges": (bins + 1,), "counts": (bins,), "totals": (3,), "box": (box.size,), "words": (2,)}
    fits = all(
        arrays[name].shape == shapes.get(name, ())
        and arrays[name].dtype.newbyteorder("<").str[1:].startswith(kind)
        for name, kind in _MEMBERS.items()
    )
    if not fits or not bins or (counts < 0).any() or not np.isfinite(totals).all() or pairs < 0:
        raise DataError("found arrays of other types, shapes or numbers, expected those of a histogram")
    closed, images = words.tolist()
    if closed not in CLOSED or images not in ("", *IMAGES) or not (edges[1:] > edges[:-1]).all():
        raise DataError("found other bins, expected increasing edges and known ends")
    if not ((box >= 0.0) & (box < np.inf)).all():
        raise DataError("found a box of other lengths, expected numbers of at least 0")
    return {
        "counts": counts,
        "edges": edges,
        "pairs": int(pairs),
        "rechecked": float(totals[1]),
        "plan": _plan_of(plan.item()),
        "closed": closed,
        "images": images or None,
        "box": box,
        "candidates": float(totals[0]),
        "share": float(totals[2]),
    }


def _plan_of(text: str) -> PairPlan | None:
    if not text:
        return None
    kinds = {"device": str, "kernel": str, "candidates": float, "seconds": float, "bytes": int, "reason": str}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or {name: type(value) for name, value in found.items()} != kinds:
        raise DataError("found another plan, expected that of a histogram")
    return PairPlan(**found)


class PairCall(NamedTuple):
    """The checked arguments of a call."""

    question: Question
    placement: Placement
    work: Work
    threads: int | None
    plan: str
    images: str | None


def histogram(
    x: Any,
    y: Any = None,
    *,
    edges: Any,
    images: str | None = None,
    closed: str = "last",
    device: str | None = None,
    threads: int | None = None,
    plan: str = "auto",
    progress: Callable[[float], object] | None = None,
    comm: Any = None,
) -> Histogram:
    """Count the pairs of points by their distance.

    Counts equal those of `numpy.histogram` of the distances in float64, whatever the plan, the device, and
    the number of threads and ranks.

    Parameters
    ----------
    x : array, shape (n, d), or Points
        Alone: each pair i < j once.
    y : array, shape (m, d), or Points, optional
        All pairs of a point of x with one of y.
    edges : array, shape (bins + 1,)
        Increasing.
    images : {"one", "all"}, optional
        On periodic axes: the nearest image of each pair at any distance; or every image within reach, also
        those of a point itself, once per pair of opposite images. None is right up to half the shortest
        period, and an error beyond.
    closed : {"last", "left", "right"}, default "last"
        Bins are [e_k, e_k+1), the last one [e_m-1, e_m], as NumPy has them; "left": the last one too is open
        at its end; "right": (e_k, e_k+1].
    device : {"auto", "cpu", "cuda", "cuda:N"}, optional
        By default that of the points, or else "auto".
    threads : int, optional
        Maximum number of threads.
    plan : {"auto", "brute", "cells", "float64"}, default "auto"
        How to count; see `PairPlan`. No count depends on it.
    progress : callable, optional
        Gets the share of the candidates that are done, from time to time.
    comm : mpi4py.MPI.Comm or PETSc.Comm, optional
        Ranks that count together, each with its own points; all get the counts of the points of all.

    Returns
    -------
    Histogram

    Raises
    ------
    DataError
        If points are not finite numbers, or x and y have other numbers of columns.
    ParameterError
        For edges that do not increase, or an edge beyond half the shortest period without ``images``.
    HostMemoryError, DeviceMemoryError
        If it needs more memory than is free; nothing is counted then.
    Interrupted
        For Ctrl-C; ``result`` is the histogram so far, ``share`` of it says how much of the work is done.

    Examples
    --------
    >>> import numpy as np
    >>> from bmrm import pairs
    >>> x = np.random.default_rng(0).random((1000, 3))
    >>> found = pairs.histogram(x, edges=np.linspace(0, np.sqrt(3), 101))
    >>> int(found.counts.sum()) == found.pairs == 1000 * 999 // 2
    True
    """
    points = read_points(x, y, device, threads, comm)
    call = check_call(points, read_bins(edges, closed), images, plan, device=device, threads=threads)
    return carry_out(call, progress)


def count(
    x: Any,
    y: Any = None,
    *,
    radius: Any,
    images: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    plan: str = "auto",
    progress: Callable[[float], object] | None = None,
    comm: Any = None,
) -> Any:
    """Count the pairs of points whose distance is at most a radius.

    Parameters
    ----------
    x, y, images, device, threads, plan, progress, comm
        As for `histogram`.
    radius : float or array
        At least 0.

    Returns
    -------
    int, or ndarray of int64 with the shape of ``radius``

    Raises
    ------
    DataError, ParameterError, HostMemoryError, DeviceMemoryError
        As `histogram`.
    Interrupted
        For Ctrl-C; ``result`` is a `Histogram` of what lies between the radii, so far.

    Examples
    --------
    >>> from bmrm import pairs
    >>> pairs.count([[0.0], [1.0], [3.0]], radius=1.0)
    1
    >>> pairs.count([[0.0], [1.0], [3.0]], radius=[0.5, 1.0, 3.0])
    array([0, 1, 3])
    """
    bins, which, is_single = read_radii(radius)
    points = read_points(x, y, device, threads, comm)
    call = check_call(points, bins, images, plan, device=device, threads=threads)
    found = carry_out(call, progress)
    within = np.cumsum(found.counts)[which]
    return int(within[0]) if is_single else within


def explain(
    x: Any,
    y: Any = None,
    *,
    edges: Any,
    images: str | None = None,
    closed: str = "last",
    device: str | None = None,
    threads: int | None = None,
    plan: str = "auto",
    comm: Any = None,
) -> str:
    """Explain how `histogram` would count; nothing is counted.

    Parameters
    ----------
    x, y, edges, images, closed, device, threads, plan, comm
        As for `histogram`.

    Returns
    -------
    str
        Where and why there, then the plan: kernel, candidates, predicted time and memory, and why.

    Examples
    --------
    >>> from bmrm import pairs
    >>> print(pairs.explain([[0.0], [1.0]], edges=[0, 2], device="cpu"))
    device  cpu: as given
    plan    cpu, brute: 1 candidates, about 0 ms, ...: few points
    pairs   1 of 2 points, 1 bins from 0 to 2
    """
    points = read_points(x, y, device, threads, comm)
    return explain_call(
        check_call(points, read_bins(edges, closed), images, plan, device=device, threads=threads)
    )


def explain_call(call: PairCall) -> str:
    """Explain how a call would be carried out."""
    prepared, placement = prepare_call(call)
    question, bins = call.question, call.question.bins
    return (
        f"{placement}\nplan    {prepared.plan}\npairs   {question.pairs} of {question.points} points, "
        f"{bins.count} bins from {bins.edges[0]:g} to {bins.edges[-1]:g}"
    )


def check_call(
    points: tuple[Points, Points | None],
    bins: Bins,
    images: str | None,
    plan: str,
    *,
    device: str | None = None,
    threads: int | None = None,
) -> PairCall:
    """Check the arguments that have to do with each other, and decide where to count."""
    check_choice("plan", plan, PLANS)
    a, b = points
    question = Question(a, b, bins, images_of(a, bins, images))
    threads = _threads(a, threads)
    there = a.gpu if b is None or a.gpu is not None else b.gpu
    work = expected_work(question, plan, threads)
    placement = place(device or a.device, there, work, group=a.group)
    return PairCall(question, placement, work, threads, plan, images)


def _threads(a: Points, threads: int | None) -> int | None:
    if threads is not None:
        return read_threads(threads)
    return a.group.cores if a.threads is None and a.group is not None else a.threads


def prepare_call(call: PairCall) -> tuple[Prepared, Placement]:
    """Place the points, and decide how to count; on the CPU if a GPU that was chosen is too small.

    A device is chosen by the extent of the points. On the CPU the points of each cell then say how many
    candidates there are: the time of the plan decides, and a count that is much longer moves to a GPU.
    """
    prepared, placement = _prepare_at(call, call.placement)
    if placement.chosen and placement.gpu is None and call.question.a.group is None:
        placement = place("auto", work=call.work._replace(cpu_seconds=prepared.plan.seconds))
        if placement.gpu is not None:
            prepared, placement = _prepare_at(call, placement)
    placement.log()
    return prepared, placement


def _prepare_at(call: PairCall, placement: Placement) -> tuple[Prepared, Placement]:
    group = call.question.a.group

    def on_host() -> Prepared:
        from bmrm.pairs.cpu import HostPairs

        return prepare(HostPairs(), call.question, call.plan, call.threads)

    def on_gpu(number: int) -> tuple[Prepared, str]:
        from bmrm.pairs.gpu import DevicePairs

        return prepare(DevicePairs(number), call.question, call.plan, call.threads), ""

    if group is None:
        return with_fall_back(placement, on_host, on_gpu)
    with group.together():
        return with_fall_back(placement, on_host, on_gpu)


@interruptible
def carry_out(call: PairCall, progress: Callable[[float], object] | None = None) -> Histogram:
    """Count; raise `Interrupted` with the histogram so far after Ctrl-C."""
    prepared, _ = prepare_call(call)
    bins, group = len(call.question.bins.counted) - 1, call.question.a.group
    threads = call.threads if prepared.plan.seconds > MIN_SHARED_SECONDS else 1
    found = count_tasks(prepared.counter, bins, threads, group, progress)
    result = _result(call, prepared.plan, found)
    if found.share < 1.0:
        raise Interrupted(result)
    return result


def _result(call: PairCall, plan: PairPlan, found: Counted) -> Histogram:
    question, bins = call.question, call.question.bins
    counts = found.counts
    if bins.takes_all:
        if found.share == 1.0 and question.a.shape[1]:  # also pairs whose squared distance overflows
            counts[-1] = question.pairs - counts[:-1].sum()
        counts = counts[1:]
    if call.images == "all" and question.b is None:
        counts = counts + own_images(len(question.a), question.a.box, bins)
    return Histogram(
        counts=counts,
        edges=bins.edges,
        pairs=question.pairs,
        rechecked=found.rechecked / found.candidates if found.candidates else 0.0,
        plan=plan,
        closed=bins.closed,
        images=call.images,
        box=question.a.box,
        candidates=found.candidates,
        share=found.share,
    )
