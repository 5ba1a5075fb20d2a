"""Suggestions for names and values that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bmrm.errors import ParameterError

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
    "offsets": "offset",
    "exposure": "offset",
    "base_margin": "offset",
    "init_score": "offset",
    "init": "warm_start",
    "dissimilarity": "metric",
    "k": "n_clusters",
    "gpu": "cuda",
    "svm": "hinge",
    "log": "logistic",
    "logloss": "logistic",
    "mse": "squared",
    "mae": "absolute",
    "lasso": "l1",
    "ridge": "l2",
    "full": "covariance_eigh",
    "arpack": "lanczos",
    "algorithm": "svd_solver",
    "n_iter": "iterated_power",
}
"""Arguments and values of other libraries, and what they are called here: similar letters find none."""

_MAX_BEGUN = 3  # names that a message lists because what was found is their beginning
_MAX_CLOSE = 2  # names that a message lists because they are spelt alike
_MIN_SIMILARITY = 0.7  # of `difflib`, from which names are spelt alike


def nearest(name: str, known: Iterable[str], synonyms: Mapping[str, str] = SYNONYMS) -> list[str]:
    """Return the known names that may be meant: those that begin so, else a synonym, else similar ones.

    Examples
    --------
    >>> nearest("--lambd", ["--lambda", "--lambdas", "--loss"])
    ['--lambda', '--lambdas']
    >>> nearest("elasticnet", ["l1", "l2", "elastic_net"]), nearest("lasso", ["l1", "l2", "elastic_net"])
    (['elastic_net'], ['l1'])
    """
    import difflib  # only in errors

    names = list(known)
    begun = [other for other in names if len(name.strip("-")) > 1 and other.startswith(name)]
    if not begun and synonyms.get(name) in names:
        return [synonyms[name]]
    return sorted(begun)[:_MAX_BEGUN] or difflib.get_close_matches(name, names, _MAX_CLOSE, _MIN_SIMILARITY)


def did_you_mean(names: Iterable[str]) -> str:
    """Return the end of a message that suggests names; "" if there are none.

    Examples
    --------
    >>> did_you_mean(["--lambda", "--lambdas"]), did_you_mean([])
    ('; did you mean --lambda or --lambdas?', '')
    """
    listed = " or ".join(names)
    return f"; did you mean {listed}?" if listed else ""


def require_known(
    given: Iterable[str], known: Sequence[str], whose: str, synonyms: Mapping[str, str] = SYNONYMS
) -> None:
    """Raise `ParameterError`, with a suggestion, for the first name that is not known.

    Examples
    --------
    >>> require_known(["max_itr"], ["tol", "max_iter"], "parameter of KMeans")
    Traceback (most recent call last):
    bmrm.errors.ParameterError: max_itr: no parameter of KMeans; did you mean 'max_iter'?
    """
    for name in given:
        if name not in known:
            raise ParameterError(f"{name}: no {whose}{suggest(name, known, synonyms)}")


def suggest(name: str, known: Iterable[str], synonyms: Mapping[str, str] = SYNONYMS) -> str:
    """Return the end of a message that suggests the known Python names that may be meant.

    Examples
    --------
    >>> suggest("max_itr", ["tol", "max_iter"]), suggest("n_jobs", ["threads"]), suggest("xyz", ["tol"])
    ("; did you mean 'max_iter'?", "; did you mean 'threads'?", '')
    """
    return did_you_mean(map(repr, nearest(name, known, synonyms)))


def check_choice(what: str, found: object, known: Sequence[str]) -> None:
    """Raise `ParameterError` for an option that is none of the known ones.

    Examples
    --------
    >>> check_choice("closed", "lef", ("left", "right"))
    Traceback (most recent call last):
    bmrm.errors.ParameterError: closed: found 'lef'; did you mean left?, expected one of left, right
    """
    if found not in known:
        hint = did_you_mean(nearest(str(found), known))
        raise ParameterError(f"{what}: found {found!r}{hint}, expected one of {', '.join(known)}")
