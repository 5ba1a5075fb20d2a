"""scikit-learn-intelex, Intel's extension of scikit-learn, as a peer where it is installed."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from benchmarks.common import report


def module(name: str, threads: int) -> Any:
    """Return its module that stands for one of scikit-learn's, on some threads; None if it is not there."""
    found = report.optional(f"sklearnex.{name}")
    if found is not None:
        report.optional("daal4py").daalinit(threads)
    return found


def version() -> str:
    """Return its version, an empty text if it is not there."""
    found = report.optional("sklearnex")
    return "" if found is None else importlib.metadata.version("scikit-learn-intelex")
