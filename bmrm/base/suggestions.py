"""Suggestions for names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable

SYNONYMS = {
    "alpha": "lam",
    "lambda_": "lam",
    "n_jobs": "threads",
    "num_threads": "threads",
    "penalty": "reg",
    "regularization": "reg",
    "regularizer": "reg",
    "max_passes": "max_iter",
    "sample_weights": "sample_weight",
    "init": "warm_start",
}
"""Names that other libraries give to arguments; no letters of theirs suggest ours."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the known name that is meant; "" if none is near.

    Examples
    --------
    >>> suggest("max_itr", ["tol", "max_iter"]), suggest("n_jobs", ["threads"]), suggest("xyz", ["tol"])
    ("; did you mean 'max_iter'?", "; did you mean 'threads'?", '')
    """
    import difflib  # only in errors

    names = list(known)
    meant = SYNONYMS.get(name)
    close = [meant] if meant in names else difflib.get_close_matches(name, names, 1)
    return f"; did you mean {close[0]!r}?" if close else ""
