"""The checkpoint: a model file that also holds the cuts, so that training can continue from it.

Besides the tensors of a model (``model_file.py``) it has those of the active cuts, which have a multiplier
alpha above 0: ``cuts.gradients`` of shape (cuts, columns), ``cuts.offsets`` and ``cuts.alpha`` (float64),
``cuts.blocks`` (int32), and the fields of `bmrm.linear.objective.running_error.Blur`. The active cuts carry
the whole lower bound; the others add nothing to it and are left out. A second key of the metadata,
``bmrm_checkpoint``, describes the problem of the cuts, including checksums of the data
(`bmrm.matrix.checksums`).

Bound and cuts are used only for exactly this problem, and only if the file is unchanged: its checksum
(``content.py``) is verified before either is used. Of a file of an earlier version, which has no checksums,
only the weights are used.

Blocks are blocks of rows of the whole data, so a checkpoint can be used on any number of ranks.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from bmrm.errors import DataError, ParameterError
from bmrm.io.tensors import Tensors, open_tensors
from bmrm.linear.models import content, model_file
from bmrm.linear.models.model import Model, load_checked

if TYPE_CHECKING:
    from bmrm.linear.bundle.store import StoredCuts

CHECKPOINT_VERSION = 1
_KEY = "bmrm_checkpoint"
LAM_TOLERANCE = 1e-9
"""Relative difference up to which two lam are equal: it may come from summing weights in another order."""


@dataclass(frozen=True)
class Problem:
    """The problem whose risk the cuts of a checkpoint bound, apart from the loss and penalty of its model."""

    # Size of the data
    n_samples: int
    nnz: int
    blocks: int  # number of blocks of rows with separate cuts
    free_intercept: bool  # whether an unpenalised intercept was minimised out
    intercept_scaling: float | None  # value of the constant column of a penalised intercept
    checksums: Mapping[str, str] | None = None
    """Checksums of the data, see `bmrm.linear.warm_start.of_data`, and of the penalty's vectors. None if they
    are not known; then the cuts are not used."""
    stored: str = "float64"  # the type in which the values of X were stored
    resolution: float = 0.0  # see `bmrm.matrix.resident.PlacedMatrix`
    radius: float | None = None
    """Distance from the prior mean up to which the bound covers features without a penalty; None for any
    distance."""
    merges: int = 0  # number of times that cuts were merged; each merge adds one rounding error
    # The certificate of exactly this problem. (The certificate of the model may be for the values before
    # rounding to float32.) None if not known.
    objective: float | None = None
    lower_bound: float | None = None


class _ChangedError(Exception):
    """A file has changed."""


class Checkpoint:
    """A state of training in a file.

    Pass it to `bmrm.solve` as ``warm_start`` to continue from its weights, its bound, its cuts and its
    number of iterations, on any number of ranks. The cuts stay in the file until they are needed.

    Parameters
    ----------
    path : str
    model : Model
        The best iterate, with its certificate.
    problem : Problem
    checksum : str or None
        Checksum of the file's content; None for files of earlier versions.

    Examples
    --------
    >>> import os, tempfile, numpy as np, bmrm
    >>> from bmrm.linear.models.checkpoint import Checkpoint, save
    >>> from bmrm.linear.warm_start import problem_of
    >>> X, y = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]), [1, 1, -1]
    >>> first = bmrm.solve(X, y, lam=0.1, max_iter=2)
    >>> path = os.path.join(tempfile.mkdtemp(), "state")
    >>> save(path, bmrm.Model.from_result(first), problem_of(first), first.bundle.working())
    >>> bmrm.solve(X, y, lam=0.1, warm_start=Checkpoint.load(path)).status
    'converged'
    """

    def __init__(self, path: str, model: Model, problem: Problem, checksum: str | None) -> None:
        self.path, self.model, self.problem, self.checksum = path, model, problem, checksum

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read everything except the cuts.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        Checkpoint

        Raises
        ------
        DataError
            If the file is not a checkpoint, is truncated or damaged, or has a newer format.
        OSError
            If the file cannot be read.
        """
        name = os.fspath(path)
        model, checksum, metadata = load_checked(name)
        text = metadata.get(_KEY)
        if text is None:
            raise DataError(
                f"{name}: found a model without cuts, expected a checkpoint (--warm-start accepts a model)"
            )
        try:
            found = json.loads(text)
            version = found.pop("version")
            problem = Problem(**found)
            if not _is_sound(problem):
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise DataError(f"{name}: damaged description of the checkpoint") from None
        if version != CHECKPOINT_VERSION:
            raise DataError(f"{name}: found checkpoint version {version!r}, expected {CHECKPOINT_VERSION}")
        return cls(name, model, problem, checksum)

    def cuts(self, first: int, last: int) -> StoredCuts:
        """Read some columns of the cuts.

        Parameters
        ----------
        first, last : int
            The columns ``first`` to ``last - 1``.

        Returns
        -------
        StoredCuts

        Raises
        ------
        DataError
            If the arrays contradict each other or hold impossible values, or the file has changed.
        """
        from bmrm.linear.bundle.store import StoredCuts
        from bmrm.linear.objective.running_error import Blur

        try:
            with open_tensors(self.path) as file:
                if not self._is_unchanged(file):
                    raise _ChangedError
                n, width = file.shape("cuts.gradients", "F64", 2)
                if not 0 <= first <= last <= width:
                    raise DataError("too few columns")
                gradients = file.read_columns("cuts.gradients", first, last)
                offsets, alpha = (file.read(f"cuts.{name}", "F64", 1) for name in ("offsets", "alpha"))
                blocks = file.read("cuts.blocks", "I32", 1)
                blur = Blur(*(file.read(f"cuts.{name}", "F64", 1) for name in Blur._fields))
        except _ChangedError:
            raise DataError(f"{self.path}: has changed since it was loaded") from None
        except DataError as error:
            raise DataError(f"{self.path}: damaged cuts ({error})") from None
        features = self.model.n_features + (self.problem.intercept_scaling is not None)
        columns = features * math.prod(self.model.w.shape[1:])
        sound = (
            width == columns
            and all(array.shape == (n,) for array in (offsets, alpha, blocks, *blur))
            and all(np.isfinite(array).all() for array in (gradients, offsets, alpha))
            and all((array >= 0.0).all() for array in blur)
            and self.problem.blocks <= n  # each block has a cut, so an untrusted number cannot take memory
            and ((blocks >= 0) & (blocks < self.problem.blocks)).all()
            and (alpha >= 0.0).all()
            # The multipliers of each block add up to 1; otherwise there would be no bound.
            and np.allclose(np.bincount(blocks, alpha, self.problem.blocks), 1.0, rtol=0.0, atol=1e-9)
        )
        if not sound:
            raise DataError(f"{self.path}: damaged cuts")
        return StoredCuts(gradients, offsets, blocks, alpha, blur)

    def _is_unchanged(self, file: Tensors) -> bool:
        try:
            return content.check(file) == self.checksum
        except DataError:
            return False

    def check(self, problem: Problem, n_features: int, loss: Any, reg: Any) -> None:
        """Raise for the first difference between a problem and that of the checkpoint.

        Parameters
        ----------
        problem : Problem
        n_features : int
        loss : Loss
        reg : Regularizer

        Raises
        ------
        ParameterError
            If the options or the sizes differ.
        DataError
            If the data or the vectors of the penalty differ.
        """
        model = self.model
        now = {
            "loss": (model.loss, loss.name),
            "parameters of the loss": (dict(model.loss_params), loss.params),
            "reg": (model.reg, reg.name),
            "parameters of reg": (dict(model.reg_params), reg.params),
            "features": (model.n_features, n_features),
        }
        for name in ("n_samples", "blocks", "free_intercept", "intercept_scaling"):
            now[name.replace("_", " ")] = getattr(self.problem, name), getattr(problem, name)
        if abs(model.lam - reg.lam) > LAM_TOLERANCE * reg.lam:
            now["lam"] = (model.lam, reg.lam)
        for what, (then, here) in now.items():
            if then != here:
                raise ParameterError(
                    f"{self.path}: the checkpoint is for a problem with {what} {then}, found {here}"
                )
        if self.problem.checksums is not None and problem.checksums is not None:
            self._check_data(self.problem.checksums, problem)

    def _check_data(self, then: Mapping[str, str], problem: Problem) -> None:
        now = problem.checksums or {}
        different = [name for name in {**then, **now} if then.get(name) != now.get(name)]
        if not different:
            return
        types = ""
        if "X" in different and self.problem.stored != problem.stored:
            types = f" (X stored as {self.problem.stored} there, as {problem.stored} here)"
        raise DataError(
            f"{self.path}: the checkpoint is for other data: found a different checksum of "
            f"{', '.join(different)}{types}; "
            "a warm start from its weights accepts any data with as many features"
        )

    def doubt(self, *, own_loss: bool) -> str:
        """Return why bound and cuts cannot be trusted even for the same problem.

        Parameters
        ----------
        own_loss : bool
            Whether the loss is a user's function.

        Returns
        -------
        str
            Empty if they can be trusted.
        """
        if self.checksum is None or self.problem.checksums is None:
            return "it has no checksums, like all files of earlier versions"
        return "a loss in Python has no checksum" if own_loss else ""


def _is_sound(problem: Problem) -> bool:
    """Return whether the fields of a file's description have the right types and ranges."""
    counts = problem.n_samples, problem.nnz, problem.blocks, problem.merges
    scaling = problem.intercept_scaling
    sums, resolution, radius = problem.checksums, problem.resolution, problem.radius
    return (
        (sums is None or (isinstance(sums, dict) and all(map(_is_checksum, sums.values()))))
        and problem.stored in ("float32", "float64")
        and (_is_finite(resolution) and resolution >= 0)
        and (radius is None or (_is_finite(radius) and radius > 0))
        and all(known is None or _is_finite(known) for known in (problem.objective, problem.lower_bound))
        and all(type(count) is int and count >= 0 for count in counts)
        and 1 <= problem.blocks <= problem.n_samples
        and type(problem.free_intercept) is bool
        and (scaling is None or (_is_finite(scaling) and scaling > 0))
    )


def _is_finite(number: object) -> bool:
    """Return whether it is a finite number; raise OverflowError for an int that float64 cannot hold."""
    return type(number) in (int, float) and math.isfinite(cast("float", number))


def _is_checksum(digits: object) -> bool:
    return isinstance(digits, str) and re.fullmatch("[0-9a-f]{16}", digits) is not None


def save(path: str | os.PathLike[str], model: Model, problem: Problem, cuts: StoredCuts) -> None:
    """Write a checkpoint, whole or not at all.

    The cuts are those of `Bundle.working`, with all columns.

    Raise `OSError` if the folder cannot be written or the disk is full.
    """
    tensors: dict[str, npt.NDArray[Any]] = {
        f"cuts.{name}": np.ascontiguousarray(array)
        for name, array in {**cuts._asdict(), **cuts.blur._asdict()}.items()
        if name != "blur"
    }
    note = json.dumps({"version": CHECKPOINT_VERSION, **asdict(problem)})
    description, own = model.file_parts()
    model_file.write(path, description, {**tensors, **own}, {_KEY: note})
