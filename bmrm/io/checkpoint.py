"""The checkpoint: a model file that also holds the cuts, so that training can go on from it.

Beside the tensors of a model (``model_file.py``) there are those of the cuts that hold mass:
``cuts.gradients`` of shape (cuts, columns), ``cuts.offsets`` and ``cuts.alpha`` (float64), ``cuts.blocks``
(int32). They carry the whole lower bound; cuts without mass add nothing to it and are left out. A second key
of the metadata, ``bmrm_checkpoint``, says what the cuts were taken of.

Blocks are blocks of rows of the whole data, so a checkpoint serves any number of ranks.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bmrm.errors import DataError, ParameterError
from bmrm.io import model_file
from bmrm.io.model import Model

if TYPE_CHECKING:
    from bmrm.cut_store import Cuts

CHECKPOINT_VERSION = 1
_KEY = "bmrm_checkpoint"
SAME = 1e-9
"""Relative difference below which two lam are the same: it may come of a sum of weights in another order."""


@dataclass(frozen=True)
class Problem:
    """What the cuts of a checkpoint bound, beside the loss and the penalty of its model.

    Attributes
    ----------
    n_samples, nnz : int
        Size of the data.
    blocks : int
        Blocks of rows with cuts of their own.
    free_intercept : bool
        An intercept was minimised out.
    intercept_scaling : float or None
        Value of the constant column of a penalised intercept.
    """

    n_samples: int
    nnz: int
    blocks: int
    free_intercept: bool
    intercept_scaling: float | None


class Checkpoint:
    """A state of training on the disk.

    `bmrm.solve` takes it as ``warm_start`` and goes on from it: with its weights, its cuts and its count of
    iterations, on as many ranks as there are now. The cuts stay in the file until they are asked for.

    Attributes
    ----------
    path : str
    model : Model
        The best iterate, with its certificate.
    problem : Problem

    Examples
    --------
    >>> import os, tempfile, numpy as np, bmrm
    >>> from bmrm.io.checkpoint import Checkpoint, Problem, save
    >>> X, y = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]), [1, 1, -1]
    >>> first = bmrm.solve(X, y, lam=0.1, max_iter=2)
    >>> path = os.path.join(tempfile.mkdtemp(), "state")
    >>> save(path, bmrm.Model.from_result(first), Problem(3, 6, 1, False, None), first.bundle.working())
    >>> bmrm.solve(X, y, lam=0.1, warm_start=Checkpoint.load(path)).status
    'converged'
    """

    def __init__(self, path: str, model: Model, problem: Problem) -> None:
        self.path, self.model, self.problem = path, model, problem

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read all but the cuts.

        Parameters
        ----------
        path : str or path-like

        Returns
        -------
        Checkpoint

        Raises
        ------
        DataError
            The file is no checkpoint, is truncated or damaged, or is of a newer format.
        OSError
            The file cannot be read.
        """
        name = os.fspath(path)
        model = model_file.read(name)
        with model_file.opened(name) as file:
            text = (file.metadata() or {}).get(_KEY)
        if text is None:
            raise DataError(f"{name}: a model without cuts, expected a checkpoint (--warm-start takes it)")
        try:
            found = json.loads(text)
            version = found.pop("version")
            problem = Problem(**found)
            if not _is_sound(problem):
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise DataError(f"{name}: damaged description of the checkpoint") from None
        if version != CHECKPOINT_VERSION:
            raise DataError(f"{name}: found checkpoint version {version!r}, expected {CHECKPOINT_VERSION}")
        return cls(name, model, problem)

    def cuts(self, first: int, last: int) -> Cuts:
        """Read the cuts, in a range of their columns.

        Raises
        ------
        DataError
            Their arrays contradict each other or hold what cannot be.
        """
        from bmrm.cut_store import Cuts

        try:
            with model_file.opened(self.path) as file:
                rows = file.get_slice("cuts.gradients")
                whole = rows.get_shape()
                gradients = np.ascontiguousarray(rows[:, first:last], np.float64)
                offsets, alpha, blocks = (
                    np.asarray(file.get_tensor(f"cuts.{name}")) for name in ("offsets", "alpha", "blocks")
                )
        except (DataError, ValueError, TypeError, IndexError):
            raise DataError(f"{self.path}: damaged cuts") from None
        n = whole[0]
        features = self.model.n_features + (self.problem.intercept_scaling is not None)
        columns = features * math.prod(self.model.w.shape[1:])
        sound = (
            whole == [n, columns]
            and all(array.shape == (n,) for array in (offsets, alpha, blocks))
            and all(np.isfinite(array).all() for array in (gradients, offsets, alpha))
            and blocks.dtype == np.int32
            and self.problem.blocks <= n  # each has a cut, and no memory is taken for more
            and ((blocks >= 0) & (blocks < self.problem.blocks)).all()
            and (alpha >= 0.0).all()
            # The masses of each block add up to 1, or the bound would be none.
            and np.allclose(np.bincount(blocks, alpha, self.problem.blocks), 1.0, rtol=0.0, atol=1e-9)
        )
        if not sound:
            raise DataError(f"{self.path}: damaged cuts")
        return Cuts(gradients, offsets, blocks, alpha)

    def check(self, problem: Problem, n_features: int, loss: Any, reg: Any) -> None:
        """Raise `ParameterError` for the first thing in which a problem is not that of the checkpoint."""
        model = self.model
        now = {
            "loss": (model.loss, loss.name),
            "parameters of the loss": (dict(model.loss_params), loss.params),
            "reg": (model.reg, reg.name),
            "parameters of reg": (dict(model.reg_params), reg.params),
            "features": (model.n_features, n_features),
        }
        old, new = asdict(self.problem), asdict(problem)
        now |= {name.replace("_", " "): (old[name], new[name]) for name in old}
        if abs(model.lam - reg.lam) > SAME * reg.lam:
            now["lam"] = (model.lam, reg.lam)
        for what, (then, here) in now.items():
            if then != here:
                raise ParameterError(f"{self.path}: is of a problem with {what} {then}, found {here}")


def _is_sound(problem: Problem) -> bool:
    """Whether a file's description is one of a problem: of the right types, and within their ranges."""
    counts, scaling = (problem.n_samples, problem.nnz, problem.blocks), problem.intercept_scaling
    return (
        all(type(count) is int and count >= 0 for count in counts)
        and 1 <= problem.blocks <= problem.n_samples
        and type(problem.free_intercept) is bool
        and (scaling is None or (type(scaling) in (int, float) and 0 < scaling < math.inf))
    )


def save(path: str | os.PathLike[str], model: Model, problem: Problem, cuts: Cuts) -> None:
    """Write a checkpoint, whole or not at all.

    Parameters
    ----------
    path : str or path-like
    model : Model
    problem : Problem
    cuts : Cuts
        Of `Bundle.working`, all columns.

    Raises
    ------
    OSError
        The folder cannot be written or the disk is full.
    """
    tensors: dict[str, npt.NDArray[Any]] = {
        f"cuts.{name}": np.ascontiguousarray(array) for name, array in cuts._asdict().items()
    }
    note = json.dumps({"version": CHECKPOINT_VERSION, **asdict(problem)})
    model_file.write(model, path, tensors, {_KEY: note})
