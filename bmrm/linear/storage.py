"""Training on a data file: values are stored as float32 if that is accurate enough, else as float64.

With the type ``auto`` the values of large data are stored as float32 first, for less memory and time. The
reader reports whether this has rounded any value; if so, the certificate of a solve holds for the numbers of
the file all the same (`bmrm.linear.precision`). If it is too wide for the tolerance, the data are read again
as float64, and training continues from its weights. Float64 is used from the start for data that cannot be
read twice, and for losses without such a certificate.

A command decides the type before it reads, and imports the solver meanwhile; so it is imported in functions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import logging
import math
import os
import stat
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from bmrm import losses
from bmrm.base.interrupts import interruptible
from bmrm.base.notices import warn
from bmrm.errors import BmrmError, DataError, Float32Error, Interrupted, ParameterError, escape_unprintable
from bmrm.io import read_data
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.models.model import Model
from bmrm.linear.precision import MAX_ROUNDING_SHARE, bounded, counted_from, with_work_of
from bmrm.linear.solvers.progress import Progress, Status
from bmrm.linear.solvers.settings import absolute_tol
from bmrm.losses import Loss
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.gpu.memory import parse_memory_size
from bmrm.matrix.resident import DEFAULT_TOL
from bmrm.matrix.row_storage import storage_rule
from bmrm.matrix.upload import Landing

if TYPE_CHECKING:
    from bmrm.linear.bundle.bundle import Bundle
    from bmrm.linear.result import Result

AUTO = "auto"
SINGLE = "float32"
DOUBLE = "float64"

MAX_FLOAT64_FILE_BYTES = 1 << 24
"""Files up to this size are stored as float64, because float32 would save too little."""

log = logging.getLogger("bmrm")

Read = TypeVar("Read")


def first_type(
    path: str,
    dtype: str,
    loss: Loss | type[Loss],
    *,
    alone: bool,
    cache: bool,
    start: object = None,
    name: str,
) -> str:
    """Return the type in which values are stored first.

    - ``dtype``: the type asked for, ``name`` that of the option; ``auto`` for a choice
    - ``alone``: one process has all rows
    - ``cache``: the cache of the file is used
    - ``start``: of training: the cuts of a checkpoint belong to values of one type

    Raise `ParameterError` if another type than the checkpoint's is asked for.
    """
    if isinstance(start, Checkpoint) and start.model.certificate is not None:
        found = start.model.certificate.dtype
        if found is not None and dtype not in (AUTO, found):
            raise ParameterError(
                f"{name}: found {dtype}, expected {found} as in {escape_unprintable(start.path)}"
            )
        if found is not None:
            return found
    if dtype != AUTO:
        return dtype
    pays = bounded(loss, alone=alone) and _pays(path) and not (cache and _is_cached_in_full(path))
    return SINGLE if pays else DOUBLE


def _pays(path: str) -> bool:
    """Return whether data are in regular files, which can be read twice, and large enough for float32.

    Errors are reported later by the reader.
    """
    with contextlib.suppress(OSError):
        found = [os.stat(name) for name in _files(path)]
        regular = bool(found) and all(stat.S_ISREG(each.st_mode) for each in found)
        return regular and sum(each.st_size for each in found) > MAX_FLOAT64_FILE_BYTES
    return False


def _files(path: str) -> list[str]:
    """Return the files that match a pattern, or the one file with that name."""
    if path == "-":
        return []
    return [path] if os.path.exists(path) else sorted(glob.glob(path))


def _is_cached_in_full(path: str) -> bool:
    """Return whether the cache has float64 values, which an earlier training needed."""
    from bmrm.io.cache import read_cached_dtype

    return read_cached_dtype(path) == np.float64


def read_as(read: Callable[[str], Read], dtype: str, *, asked: str) -> Read:
    """Read data with values of a type, or of float64 if float32 cannot hold them and was not asked for."""
    try:
        return read(dtype)
    except Float32Error:
        if asked != AUTO:
            raise
    return read(DOUBLE)


class Files:
    """A file, or the files of a pattern, as they are when they are first read."""

    def __init__(self, path: str) -> None:
        self._path, self._states = path, self._found(path)

    @staticmethod
    def _found(path: str) -> list[tuple[int, int]]:
        states = []
        for name in _files(path):
            with contextlib.suppress(OSError):
                status = os.stat(name)
                states.append((status.st_size, status.st_mtime_ns))
        return states

    def check(self, shape: tuple[int, int], expected: tuple[int, int]) -> None:
        """Raise if they, or the shape of what was read, have changed since."""
        if self._found(self._path) != self._states or shape != expected:
            raise DataError(f"{escape_unprintable(self._path)}: has changed since it was first read")


class Training:
    """Training that switches to float64 values if float32 rounds too much.

    - ``data``: the training is to hold the only reference to it, and through it to the matrix
    - ``files``: those that the data were read from
    - ``read``: reads them again as float64; None if the type must stay
    - ``options``: those of `bmrm.solve`, all of those about tolerance and limits among them
    - ``keep``: called with the current result before its data are released
    - ``follow``: called with the data whenever they change, and with None when they are released
    - ``give_up``: called with why the data could not be read again

    Afterwards ``interrupted`` says whether Ctrl-C has ended it.
    """

    def __init__(
        self,
        data: Dataset,
        files: Files,
        read: Callable[[], Dataset] | None,
        options: Mapping[str, Any],
        *,
        keep: Callable[[Result], object] = lambda result: None,
        follow: Callable[[Dataset | None], object] = lambda data: None,
        give_up: Callable[[str], object] = warn,
    ) -> None:
        self._data, self._files, self._read, self._options = data, files, read, dict(options)
        self._callback = self._options.pop("callback", None) or (lambda state: None)
        self._keep, self._follow, self._give_up = keep, follow, give_up
        self._began = time.perf_counter()
        self._hopeless = self.interrupted = False
        self._reached: Result

    def run(self, warm_start: Any = None) -> Result:
        """Train until the problem of the file is solved; if interrupted, return the best result so far."""
        callback = self._watch if self._data.rounded and self._read is not None else self._callback
        self._reached = self._solve(warm_start=warm_start, callback=callback)
        short = self._reached.rounding > 0.0 and self._reached.status == "precision"
        if self._read is not None and (self._hopeless or short):
            self._retrain(self._read)
        return self._reached

    def _solve(self, **changes: Any) -> Result:
        from bmrm.linear.result import Result
        from bmrm.linear.solve import solve

        try:
            return solve(self._data, **{**self._options, **changes})
        except Interrupted as stop:
            if not isinstance(stop.result, Result):
                raise
            self.interrupted = True
            return stop.result

    def _watch(self, state: Progress) -> object:
        """Observe an iteration; return whether to stop, because rounding alone is too large."""
        stop = self._callback(state)
        if state.iteration & (state.iteration - 1) == 0:
            room = absolute_tol(self._options["tol"], self._options["tol_kind"], state.objective)
            self._hopeless = state.bounds().objective - state.objective > MAX_ROUNDING_SHARE * room
        return stop or self._hopeless

    def _remaining(self) -> dict[str, Any] | None:
        """Return the remaining limits; if none remain, set the status and return None."""
        passes = self._options["max_iter"] - self._reached.n_iter
        seconds = self._options["max_time"] - (time.perf_counter() - self._began)
        if passes > 0 and seconds > 0.0:
            return {"max_iter": passes, "max_time": seconds}
        self._end("max_iter" if passes <= 0 else "max_time")
        return None

    def _end(self, status: Status) -> None:
        self.interrupted = self.interrupted or status == "interrupted"
        self._reached = dataclasses.replace(self._reached, status=status)

    def _retrain(self, read: Callable[[], Dataset]) -> None:
        """Read the data again as float64, and continue from the current weights."""
        remaining = self._remaining()
        if remaining is None:
            return
        log.info("float32 rounds the values too much for the tolerance: they are read again as float64")
        shape, began = self._data.shape, time.perf_counter()
        start = self._release()
        try:
            again = read()
            self._files.check(again.shape, shape)
        except (BmrmError, MemoryError) as error:
            self._give_up(f"the model is that of values rounded to float32: {str(error) or 'out of memory'}")
            return
        except KeyboardInterrupt:
            self._end("interrupted")
            return
        self._data, held = again, self._reached
        self._follow(again)
        seconds = time.perf_counter() - began
        callback = counted_from(held.n_iter, self._callback)
        try:
            found = self._solve(warm_start=start, callback=callback, **remaining)
        except KeyboardInterrupt:  # before there is another result
            self._end("interrupted")
            return
        found.timings["reload"] = seconds
        self._reached = self._with_bound(with_work_of(held, found), held.lower_bound)

    def _release(self) -> Model:
        """Release the values and the cuts to make room for other values; return the model."""
        self._keep(self._reached)
        self._follow(None)
        nothing = cast("Bundle", None)
        self._reached = dataclasses.replace(self._reached, bundle=nothing, origin=None, status="precision")
        del self._data
        return Model.from_result(self._reached)

    def _with_bound(self, result: Result, bound: float) -> Result:
        """Return a result with an earlier bound of the same problem, if that bound is better."""
        if bound <= result.lower_bound:
            return result
        gap, status = result.objective - bound, result.status
        tol = absolute_tol(result.tol, result.tol_kind, result.objective)
        if status == "precision" and gap <= tol:
            status = "converged"
        return dataclasses.replace(result, lower_bound=bound, gap=gap, status=status)


OF_READER = ("format", "n_features", "zero_based", "cache", "duplicates", "label", "drop", "labels")
"""Options of `solve_file` that are those of `bmrm.io.read_data`, besides the path, dtype and threads."""

OF_ROWS = (
    *("sample_weight", "class_weight", "offset", "groups"),
    *("device", "threads", "gpu_mem", "cpu_share"),
)
"""Options that are those of `Dataset`."""


@interruptible
def solve_file(
    path: str | os.PathLike[str],
    loss: str | Loss = "hinge",
    *,
    dtype: Literal["auto", "float32", "float64"] = "auto",
    warm_start: Any = None,
    **options: Any,
) -> Result:
    r"""Train on a data file, with a certificate for its numbers: the float64 nearest to its decimals.

    This is what ``bmrm-train`` does. With ``dtype="auto"`` values of more than 16 MiB are stored as float32
    first, and read again as float64 if float32 rounds them too much for the tolerance.

    Parameters
    ----------
    path : str or path-like
        As for `bmrm.io.read_data`, which has the formats.
    loss : str or Loss, default "hinge"
    dtype : {"auto", "float32", "float64"}, default "auto"
        With "float32" values are not read again. If rounding takes more than the tolerance, the status is
        "precision".
    warm_start : Result, Model, Checkpoint or ndarray, optional
        See `bmrm.solve`. A checkpoint continues with values of its type.
    **options
        Those of `bmrm.solve`, except ``X``, ``y``, ``comm`` and ``weights``; and ``format``, ``n_features``,
        ``zero_based``, ``cache``, ``duplicates``, ``label``, ``drop`` and ``labels`` of `bmrm.io.read_data`.
        If ``offset`` is a text, it names a column of a table. ``storage``, "auto" by default, "sparse" or
        "dense", is that of `bmrm.io.read_data`, with the times of this machine and ``device``.

    Returns
    -------
    Result
        Its ``stored`` is the type of the values, ``rounding`` the part of the gap that is for their rounding.

    Raises
    ------
    DataError, OSError, ParameterError
        As `bmrm.io.read_data`, `Dataset` and `bmrm.solve`.
    Interrupted
        As `bmrm.solve`.

    Examples
    --------
    >>> import os, tempfile, bmrm
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("+1 1:0.1 2:1\n-1 1:0.9\n")
    >>> result = bmrm.solve_file(path, "logistic", lam=0.1, dtype="float32")
    >>> result.status, result.stored, 0.0 < result.rounding < 1e-6
    ('converged', 'float32', True)
    """
    from bmrm.linear.inputs import check_keywords

    name = os.fspath(path)
    reading = {key: options.pop(key) for key in OF_READER if key in options}
    asked = options.pop("storage", AUTO)
    of_rows = {key: options.pop(key) for key in OF_ROWS if key in options}
    if isinstance(of_rows.get("offset"), str):
        reading["offset"] = of_rows.pop("offset")
    check_keywords(options, "solve_file")
    parameters = {key: options.pop(key) for key in (*losses.PARAMETERS, "costs") if key in options}
    chosen = losses.get(loss, **parameters)
    limits = {"tol": DEFAULT_TOL, "tol_kind": "rel", "max_iter": 10_000, "max_time": math.inf}
    options = {**limits, **options, "loss": chosen}
    threads, tol = of_rows.get("threads"), options["tol"]
    landing_options = {key: of_rows[key] for key in ("device", "threads") if key in of_rows}

    rule = storage_rule(asked, of_rows.get("device", AUTO))

    def read(kind: str) -> Dataset:
        limit = parse_memory_size(of_rows.get("gpu_mem"))
        with Landing(dtype=kind, tol=tol, gpu_mem=limit, **landing_options) as landing:
            query_id = chosen.needs_groups
            how: dict[str, Any] = {
                "dtype": kind,
                "threads": threads,
                "query_id": query_id,
                "land": landing,
                "storage": rule,
            }
            data = read_data(name, **how, **reading)
            found = Dataset(data, tol=tol, **of_rows)
            if landing.used and isinstance(warm_start, Checkpoint):
                found.take_checksum(data.X)
        return found

    cache = bool(reading.get("cache"))
    first = first_type(name, dtype, chosen, alone=True, cache=cache, start=warm_start, name="dtype")
    files, again = Files(name), (lambda: read(DOUBLE)) if dtype == AUTO else None
    training = Training(read_as(read, first, asked=dtype), files, again, options)
    found = training.run(warm_start)
    if training.interrupted:
        raise Interrupted(found)
    return found
