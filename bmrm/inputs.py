"""What `solve` is given to train on, as a `Dataset` of this process or of several ranks, or as `Examples`."""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike

from bmrm.dataset import Dataset
from bmrm.errors import ParameterError
from bmrm.losses import Loss, Structured
from bmrm.structured import Examples
from bmrm.weights import ClassWeight


def taken_in(
    loss: Loss,
    X: Any,
    y: Any,
    sample_weight: Any,
    class_weight: ClassWeight | None,
    groups: Any,
    device: str,
    dtype: DTypeLike | None,
    threads: int | None,
    gpu_mem: int | str | None,
    tol: float,
    comm: Any,
) -> Dataset | Examples:
    """Return what `solve` trains on; raise for what goes with another kind of data, or is given twice."""
    if isinstance(loss, Structured):
        if comm is not None:
            raise ParameterError(f"loss {loss.name}: trains in one process; leave comm out")
        return _examples(loss, X, y, sample_weight, class_weight, groups, device, dtype)
    if isinstance(X, Examples):
        raise ParameterError(f"loss {loss.name}: takes a matrix, found examples of a structured loss")
    if not isinstance(X, Dataset):
        where: dict[str, Any] = {}
        kind: type[Dataset] = Dataset
        if comm is not None:
            from bmrm.distributed import Shard

            kind, where = Shard, {"comm": comm}
        return kind(
            X,
            y,
            **where,
            groups=groups,
            sample_weight=sample_weight,
            class_weight=class_weight,
            device=device,
            dtype=dtype,
            threads=threads,
            gpu_mem=gpu_mem,
            tol=tol,
        )
    given = {
        "y": y,
        "device": None if device == "auto" else device,
        "sample_weight": sample_weight,
        "class_weight": class_weight,
        "groups": groups,
        "dtype": dtype,
        "threads": threads,
        "gpu_mem": gpu_mem,
        "comm": comm,
    }
    for name, value in given.items():
        if value is not None:
            raise ParameterError(f"{name}: give it to the Dataset, not to solve")
    return X


def _examples(
    loss: Structured,
    X: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Any,
    groups: Any,
    device: str,
    dtype: Any,
) -> Examples:
    if class_weight is not None or groups is not None or device not in ("auto", "cpu") or dtype is not None:
        raise ParameterError(
            "loss structured: takes no class_weight, no groups, no device but the CPU, and no dtype"
        )
    if isinstance(X, Dataset):
        raise ParameterError("loss structured: takes inputs and outputs, found a Dataset")
    if not isinstance(X, Examples):
        return Examples(X, y, loss.n_features, sample_weight=sample_weight)
    if y is not None or sample_weight is not None:
        raise ParameterError("y, sample_weight: give them to the Examples, not to solve")
    if X.shape[1] != loss.n_features:
        raise ParameterError(
            f"oracle: found n_features {loss.n_features}, expected the examples' {X.shape[1]}"
        )
    return X
