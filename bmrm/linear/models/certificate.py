"""What a model says of its training: how far it is from the optimum, and of which data it was."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Certificate:
    """How far a model's objective is from the optimum.

    Attributes
    ----------
    objective : float
        J(w) = lam Omega(w) + R(w) of the model, in float64.
    lower_bound : float
        No w has a smaller J; ``-inf`` if nothing is known.
    status : str
        ``converged``, ``max_iter``, ``max_time``, ``interrupted``, ``precision``, or ``running`` in a
        checkpoint.
    n_iter : int
        Number of iterations.
    tol, tol_kind : float, str
        The requested tolerance, relative (``rel``) or absolute (``abs``).
    dtype : {"float32", "float64"}, or None
        The type in which values were stored; None if it is not known.
    rounding : float, default 0
        How far objective and bound have been moved apart, so that they hold for the values before they were
        rounded to ``dtype``.

    Examples
    --------
    >>> Certificate(0.5, 0.4, "max_iter", 7, 1e-3, "rel").gap
    0.09999999999999998
    """

    objective: float
    lower_bound: float
    status: str
    n_iter: int
    tol: float
    tol_kind: str
    dtype: str | None = None
    rounding: float = 0.0

    @property
    def gap(self) -> float:
        """Objective minus lower bound: the objective is above the optimum by at most this."""
        return self.objective - self.lower_bound


@dataclass(frozen=True)
class TrainingData:
    """What a model was trained on.

    Attributes
    ----------
    rows, features, values : int
        The size of X; ``values`` is the number of stored ones.
    text_checksum : str or None
        That of `bmrm.io.Data`; None if X was not one file of text, or if this is not known.

    Examples
    --------
    >>> TrainingData(1000, 20, 5000).text_checksum is None
    True
    """

    rows: int
    features: int
    values: int
    text_checksum: str | None = None
