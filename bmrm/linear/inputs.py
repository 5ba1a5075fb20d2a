"""The inputs of `solve`: its options, and its data as a `Dataset`, a `Shard` or `Examples`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from numpy.typing import DTypeLike

from bmrm.base.arguments import flag, refuse
from bmrm.base.suggestions import suggest
from bmrm.distributed.weight_layout import check_weight_layout, resolve_weight_layout, why_not_owned
from bmrm.errors import ParameterError
from bmrm.linear.regularizers import DEFAULT_LAM, NAMES
from bmrm.losses import PARAMETERS, Loss, Structured
from bmrm.matrix.dataset import Dataset
from bmrm.matrix.examples import Examples
from bmrm.matrix.row_weights import ClassWeight

OF_DATA = (
    *("sample_weight", "class_weight", "offset", "groups"),
    *("device", "dtype", "threads", "gpu_mem", "cpu_share"),
)
"""Options of `solve` that are arguments of `Dataset`, besides X and y."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Options:
    """The options of `solve`, except data, ranks and loss; see there."""

    reg: str
    lam: float  # not used if C is given
    C: float | None
    l1_ratio: float | None
    positive: bool
    feature_lambda: Any
    prior: Any
    sample_weight: Any
    class_weight: ClassWeight | None
    offset: Any
    groups: Any
    fit_intercept: bool
    penalize_intercept: bool
    intercept_scaling: float
    tol: float
    tol_kind: str
    max_iter: int
    max_time: float
    warm_start: Any
    solver: str
    cuts_per_pass: int | str
    max_cuts: int | None
    device: str
    dtype: DTypeLike | None
    threads: int | None
    gpu_mem: int | str | None
    cpu_share: float | None
    weights: str
    callback: Any
    verbose: int

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Options:
        """Return the options among the arguments of `solve`, with the default of lam."""
        given = {field.name: arguments[field.name] for field in fields(cls)}
        if given["lam"] is None:
            given["lam"] = DEFAULT_LAM
        elif given["C"] is not None:
            raise ParameterError("lam, C: found both, expected one of them")
        return cls(**given)


def check_keywords(names: Iterable[str], caller: str) -> None:
    """Raise for keywords that are neither arguments of `solve` nor parameters of any loss."""
    known = [*(field.name for field in fields(Options)), "X", "y", "loss", "comm", *PARAMETERS, "costs"]
    for name in names:
        if name not in known:
            raise ParameterError(
                f"{name}: no argument of {caller} and no parameter of a loss{suggest(name, known)}"
            )


def local_rows(X: Any, y: Any, comm: Any) -> tuple[Any, Any, Any]:
    """Return the rows of a PETSc matrix in this process, and its ranks; return other data unchanged."""
    if not type(X).__module__.startswith("petsc4py"):
        return X, y, comm
    from bmrm.distributed.petsc_rows import local_rows as rows_of

    return rows_of(X, y, comm)


def make_group(X: Any, comm: Any, options: Mapping[str, Any]) -> Any:
    """Return the ranks that were given, as a `Group`; raise if they were given different options."""
    group = X.group if isinstance(X, Dataset) else comm
    if group is None:
        return comm
    from bmrm.distributed.group import Group
    from bmrm.distributed.options import check_alike

    group = group if isinstance(group, Group) else Group(group)
    check_alike(group, options)
    return comm if isinstance(X, Dataset) else group


def choose_weight_layout(
    weights: str,
    X: Any,
    reg: str,
    *,
    positive: bool,
    feature_lambda: Any,
    prior: Any,
    comm: Any,
    device: str,
) -> str:
    """Return how ranks keep the weights, "auto" if that is left open; raise if the layout is not possible."""
    check_weight_layout(weights)
    positive = flag("positive", positive)
    if not isinstance(reg, str):
        refuse("reg", reg, f"one of {', '.join(NAMES)}")
    why_not = why_not_owned(reg, positive=positive, feature_lambda=feature_lambda)
    if isinstance(X, Dataset):
        if weights != "auto":
            raise ParameterError("weights: give it to the Shard, not to solve")
        return resolve_weight_layout(
            "owned" if X.owned else "replicated", why_not, whole_cuts=False, columns=1, device=device
        )
    if comm is None:
        if weights != "auto":
            raise ParameterError("weights: needs comm, found one process")
        return "replicated"
    whole_cuts = feature_lambda is not None or prior is not None
    shape: tuple[int, ...] = getattr(X, "shape", ())
    columns = shape[1] if len(shape) > 1 else 1
    return resolve_weight_layout(weights, why_not, whole_cuts=whole_cuts, columns=columns, device=device)


def make_dataset(loss: Loss, X: Any, y: Any, options: Options, comm: Any, weights: str) -> Dataset | Examples:
    """Return the training data; raise if an option is given twice, or belongs to another kind of data."""
    given = {name: getattr(options, name) for name in OF_DATA}
    if isinstance(loss, Structured):
        if comm is not None:
            raise ParameterError(f"loss {loss.name}: trains in one process; leave comm out")
        return _examples(loss, X, y, given)
    if isinstance(X, Examples):
        raise ParameterError(f"loss {loss.name}: takes a matrix, found examples of a structured loss")
    if not isinstance(X, Dataset):
        if comm is None:
            return Dataset(X, y, tol=options.tol, **given)
        from bmrm.distributed import Shard

        return Shard(X, y, tol=options.tol, comm=comm, weights=weights, **given)
    device = None if options.device == "auto" else options.device
    for name, value in ({"y": y} | given | {"device": device, "comm": comm}).items():
        if value is not None:
            raise ParameterError(f"{name}: give it to the Dataset, not to solve")
    return X


def _examples(loss: Structured, X: Any, y: Any, given: Mapping[str, Any]) -> Examples:
    """Return examples for a structured loss; ``given`` are the options `OF_DATA`."""
    on_cpu = given["device"] in ("auto", "cpu")
    if any(given[name] is not None for name in ("class_weight", "offset", "groups", "dtype")) or not on_cpu:
        raise ParameterError(
            "loss structured: takes no class_weight, offset, groups or dtype, and no device but the CPU"
        )
    if isinstance(X, Dataset):
        raise ParameterError("loss structured: takes inputs and outputs, found a Dataset")
    if not isinstance(X, Examples):
        return Examples(X, y, loss.n_features, sample_weight=given["sample_weight"])
    if y is not None or given["sample_weight"] is not None:
        raise ParameterError("y, sample_weight: give them to the Examples, not to solve")
    if X.shape[1] != loss.n_features:
        raise ParameterError(
            f"oracle: found n_features {loss.n_features}, expected the examples' {X.shape[1]}"
        )
    return X
