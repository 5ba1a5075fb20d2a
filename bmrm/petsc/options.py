"""Options of the solver and of matrices from PETSc's database, for programs that take them from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from petsc4py import PETSc

from bmrm.base.suggestions import did_you_mean, nearest
from bmrm.errors import ParameterError
from bmrm.losses import PARAMETERS

_Reader = Callable[["PETSc.Options", str], Any]


def _text(database: PETSc.Options, name: str) -> str:
    return str(database.getString(name))


def _number(database: PETSc.Options, name: str) -> float:
    return float(database.getReal(name))


def _count(database: PETSc.Options, name: str) -> int:
    return int(database.getInt(name))


def _flag(database: PETSc.Options, name: str) -> bool:
    return bool(database.getBool(name, True))


def _cuts(database: PETSc.Options, name: str) -> int | str:
    return "auto" if _text(database, name) == "auto" else _count(database, name)


# From options to keywords of `bmrm.solve` and the functions that read them.
_KEYWORDS: dict[str, tuple[str, _Reader]] = {
    "loss": ("loss", _text),
    "reg": ("reg", _text),
    "l1_ratio": ("l1_ratio", _number),
    "positive": ("positive", _flag),
    "lambda": ("lam", _number),
    "cost": ("C", _number),
    "class_weight": ("class_weight", _text),
    "intercept": ("fit_intercept", _flag),
    "penalize_intercept": ("penalize_intercept", _flag),
    "intercept_scaling": ("intercept_scaling", _number),
    "tol": ("tol", _number),
    "tol_kind": ("tol_kind", _text),
    "max_iter": ("max_iter", _count),
    "max_time": ("max_time", _number),
    "solver": ("solver", _text),
    "cuts_per_pass": ("cuts_per_pass", _cuts),
    "max_cuts": ("max_cuts", _count),
    "weights": ("weights", _text),
    "device": ("device", _text),
    "dtype": ("dtype", _text),
    "threads": ("threads", _count),
    "gpu_mem": ("gpu_mem", _text),
    "verbose": ("verbose", _count),
    **{name: (name, _number) for name in PARAMETERS},
}

# The same for `bmrm.petsc.resident_mat`; the type is PETSc's own option.
_OF_MATRICES: dict[str, tuple[str, _Reader]] = {
    "device": ("device", _text),
    "dtype": ("dtype", _text),
    "threads": ("threads", _count),
    "gpu_mem": ("gpu_mem", _text),
    "tune": ("tune", _text),
    "type": ("type", _text),
}


def options(prefix: str = "bmrm_") -> dict[str, Any]:
    """Read keywords of `bmrm.solve` from PETSc's options database.

    Parameters
    ----------
    prefix : str, default ``"bmrm_"``
        The prefix of the options: ``-bmrm_loss logistic -bmrm_lambda 1e-4 -bmrm_tol 1e-6 …``. The names are
        those of the keywords, including the parameters of losses (``-bmrm_tau``), except for ``lambda``
        (``lam``), ``cost`` (``C``) and ``intercept`` (``fit_intercept``). A flag without a value is true.

    Returns
    -------
    dict
        Only the options that were given.

    Raises
    ------
    ParameterError
        For an unknown option with the prefix, or a value that should be a number and is not.

    Examples
    --------
    >>> from petsc4py import PETSc
    >>> from bmrm.petsc import options
    >>> database = PETSc.Options()
    >>> database["demo_lambda"], database["demo_loss"] = 0.5, "logistic"
    >>> options("demo_")
    {'lam': 0.5, 'loss': 'logistic'}
    """
    return _read(prefix, _KEYWORDS)


def mat_options(prefix: str) -> dict[str, Any]:
    """Read keywords of `bmrm.petsc.resident_mat` from the options of a matrix with a prefix.

    Examples
    --------
    >>> PETSc.Options()["coarse_mat_python_threads"] = 2
    >>> mat_options("coarse_")
    {'threads': 2}
    """
    found = _read(f"{prefix}mat_python_", _OF_MATRICES)
    found.pop("type", None)
    return found


def _read(prefix: str, known: dict[str, tuple[str, _Reader]]) -> dict[str, Any]:
    database = PETSc.Options(prefix)
    found: dict[str, Any] = {}
    for name in sorted(database.getAll()):
        if name not in known:
            hint = did_you_mean(f"-{prefix}{other}" for other in nearest(name, known))
            raise ParameterError(
                f"-{prefix}{name}: found no such option{hint}, expected one of {', '.join(known)}"
            )
        keyword, read = known[name]
        try:
            found[keyword] = read(database, name)
        except PETSc.Error:
            raise ParameterError(
                f"-{prefix}{name}: found {_text(database, name)!r}, expected a number"
            ) from None
    return found
