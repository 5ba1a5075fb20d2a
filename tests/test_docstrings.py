"""Docstrings of public names are complete, by numpydoc's own checks of each function, class and method."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

validate = pytest.importorskip(
    "numpydoc.validate", reason="numpydoc is not installed; `make test` installs it"
).validate

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from docs_site import WINGS, has_page, public_names  # noqa: E402

CODES = {"GL07", "GL08", "PR01", "PR02", "RT01", "YD01", "EX01"}
"""Sections in another order; no docstring; parameters that are not described, or not there; no section of
returns, of yields, of examples."""

ARRAYS = re.compile(r"^\w.* : .*(array|matrix|shape|rows|points)", re.IGNORECASE | re.MULTILINE)
"""Parameters of which an example is due."""

OF_PETSC = "bmrm.petsc.Resident."
"""PETSc documents these methods."""


def section(found: object, name: str) -> str:
    """The text under a heading of a docstring."""
    text = (inspect.getdoc(found) or "").partition(f"{name}\n{'-' * len(name)}\n")[2]
    return re.split(r"\n\n\w[\w ]*\n---", text)[0]


def methods_of(cls: type) -> Iterator[str]:
    """The public methods of a class that a class of this package defines."""
    for name, found in inspect.getmembers(cls, callable):
        owner = next((c for c in cls.__mro__ if name in vars(c)), object)
        if not (name.startswith("_") or inspect.isclass(found)) and owner.__module__.startswith("bmrm."):
            yield name


def errors_of(name: str, found: Any) -> dict[str, str]:
    """What numpydoc misses. Of what takes nothing, the first line may say what it returns."""
    errors = {code: text for code, text in validate(name)["errors"] if code in CODES}
    if not {*inspect.signature(found).parameters} - {"self"}:
        errors.pop("RT01", "")
    return errors


def attributes(cls: type) -> set[str]:
    """The attributes that a docstring describes."""
    lines = [line.partition(":")[0] for line in section(cls, "Attributes").splitlines() if line[:1] != " "]
    return {name.strip() for line in lines for name in line.split(",")}


def faults_of(name: str, found: Any) -> dict[str, str]:
    """What is missing of a function or class. Fields may be attributes; a protocol has no constructor."""
    faults = errors_of(name, found)
    fields = getattr(found, "__dataclass_fields__", getattr(found, "_fields", ()))
    if getattr(found, "_is_protocol", False) or (fields and attributes(found) >= {*fields}):
        faults.pop("PR01", "")
    return faults


def faults_of_method(cls: type, name: str) -> dict[str, str]:
    """What is missing of a method. One class describes it for all; the example of a class may show it."""
    owners = [c for c in cls.__mro__ if getattr(vars(c).get(name), "__doc__", None)]
    found = (errors_of(f"{c.__module__}.{c.__qualname__}.{name}", getattr(c, name)) for c in owners)
    faults = min(found, key=len, default={"GL08": "no docstring"})
    shown = any(f".{name}(" in section(c, "Examples") for c in cls.__mro__)
    if shown or not ARRAYS.search(section(getattr(cls, name), "Parameters")):
        faults.pop("EX01", "")
    return faults


@pytest.mark.parametrize("wing", WINGS)
def test_docstrings_of_public_names_are_complete(wing):
    if WINGS[wing]:
        pytest.importorskip(WINGS[wing])
    found = {}
    for name, value in public_names(wing).items():
        if not has_page(value) or name.startswith("bmrm.errors."):  # users make none of these
            continue
        found[name] = faults_of(name, value)
        if inspect.isclass(value):
            found |= {f"{name}.{method}": faults_of_method(value, method) for method in methods_of(value)}
    assert {name: faults for name, faults in found.items() if faults and not name.startswith(OF_PETSC)} == {}
