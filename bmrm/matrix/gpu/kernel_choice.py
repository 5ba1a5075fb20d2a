"""The kernels of a matrix on a GPU, as an object for the next `bmrm.Operator` of the same matrix.

It names the kind of GPU and has a fingerprint of the matrix, so that a choice of another matrix or device is
an error and not a slow product. Whether the kernels suit the matrix is checked in CUDA code, as for any plan.
Its file is untrusted input: a JSON object of bounded size.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bmrm.base import arguments
from bmrm.base.atomic import atomic_write
from bmrm.errors import DataError, ParameterError
from bmrm.matrix.gpu.cache import MAX_RECORD_BYTES, Plan, Plans, is_plan
from bmrm.matrix.gpu.explain import plan_text


@dataclass(frozen=True)
class KernelChoice:
    """The kernels that a kind of GPU uses for a matrix.

    Attributes
    ----------
    device : str
        Name of the kind of GPU.
    matrix : str
        Fingerprint of the matrix: its shape, types and a sample of its entries.
    normal, transposed : dict
        Plans of the products X w and X' r.

    Examples
    --------
    >>> split = {"kernel": "split", "lanes": 0, "cap": 0, "tiles": 0, "tile": 0}
    >>> print(KernelChoice("Abacus 9", "00c0ffee", split, {**split, "kernel": "sliced", "cap": 8}))
    Abacus 9: X w by split, X^T r by sliced cap 8
    """

    device: str
    matrix: str
    normal: Plan
    transposed: Plan

    def __str__(self) -> str:
        return f"{self.device}: X w by {plan_text(self.normal)}, X^T r by {plan_text(self.transposed)}"

    def plans(self, device: str, matrix: str) -> Plans:
        """Return the plans for a matrix on a device; raise `ParameterError` if they are of others."""
        if self.device != device:
            raise ParameterError(f"choice: found one for {self.device}, expected one for {device}")
        if self.matrix != matrix:
            raise ParameterError("choice: found one of another matrix or type, expected one of this X")
        return self.normal, self.transposed

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the choice to a file, whole or not at all."""
        with atomic_write(path) as file:
            file.write(json.dumps(asdict(self), indent=1).encode() + b"\n")


def choice_in_use(report: Mapping[str, Any], fingerprint: str) -> KernelChoice:
    """Return the choice of a matrix from its report (`bmrm.matrix._cuda.Matrix.report`)."""
    normal, transposed = chosen_plans(report)
    return KernelChoice(report["device"]["name"], fingerprint, normal, transposed)


def chosen_plans(report: Mapping[str, Any]) -> Plans:
    """Return the plans in use; without a transpose that of X stands for both."""
    of = [report["normal"], report["transposed"] or report["normal"]]
    normal, transposed = (found["candidates"][found["chosen"]]["plan"] for found in of)
    return normal, transposed


def read_choice(given: Any) -> KernelChoice | None:
    """Return a choice that is given itself, or by the name of its file; None for None.

    Raise `OSError` if the file cannot be read, `DataError` if it holds no choice, `ParameterError` for
    another object.
    """
    if given is None or isinstance(given, KernelChoice):
        return given
    if not isinstance(given, (str, os.PathLike)):
        arguments.refuse("choice", given, "an operator's choice, or the name of a file of save_choice")
    with open(given, "rb") as file:
        text = file.read(MAX_RECORD_BYTES + 1)
    try:
        found = json.loads(text) if len(text) <= MAX_RECORD_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not _is_choice(found):
        raise DataError(f"{os.fspath(given)!s}: found no choice of kernels, expected a file of save_choice")
    return KernelChoice(**found)


def _is_choice(found: dict[str, Any]) -> bool:
    return (
        set(found) == {"device", "matrix", "normal", "transposed"}
        and all(isinstance(found[name], str) for name in ("device", "matrix"))
        and is_plan(found["normal"])
        and is_plan(found["transposed"])
    )
