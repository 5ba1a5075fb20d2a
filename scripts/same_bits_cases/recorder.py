"""What is recorded of a case, and the recorder that runs one after the other."""

from __future__ import annotations

import hashlib
import json
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import bmrm
from bmrm.errors import BmrmError

Fields = dict[str, Any]
Run = Callable[..., Fields]

SAMPLE = 32
"""Number of entries of an array that are recorded, to show how far two arrays are apart."""

OFTEN = 5.0
"""Seconds after which the file is written again."""


def public(name: str, *modules: str) -> Any:
    """Return a name from the first of the modules that has it: some names have moved."""
    for module in modules:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise ImportError(f"found no {name} in {', '.join(modules)}")


def digest(content: bytes) -> str:
    """Return a short digest."""
    return hashlib.sha256(content).hexdigest()[:32]


def bits(values: Any) -> Fields:
    """Return shape, type, a digest of all bits and some of the entries of an array."""
    array = np.asarray(values)
    flat = np.ascontiguousarray(array).ravel()
    return {
        "shape": list(array.shape),
        "type": array.dtype.str,
        "digest": digest(flat.tobytes()),
        "sample": flat[:: max(1, -(-len(flat) // SAMPLE))].tolist(),
    }


def of_file(path: Path) -> Fields:
    """Return digest and notes of a file, in which safetensors writes the notes in a random order."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8:end])
        notes = {key: json.loads(text) for key, text in header.pop("__metadata__").items()}
    except (ValueError, TypeError, KeyError, AttributeError):  # it is text
        return {"digest": digest(content)}
    for note in notes.values():
        note.pop("checksum", None)  # of the notes too, as they are written
    return {"notes": notes, "tensors": header, "content": {"digest": digest(content[end:])}}


def of_prediction(predicted: Any) -> Fields:
    """Return the bits of an array, or a digest of a list: the labels of each row, or outputs."""
    if isinstance(predicted, np.ndarray):
        return bits(predicted)
    return {"rows": len(predicted), "digest": digest(json.dumps(predicted, default=float).encode())}


def of_result(result: Any, X: Any = None) -> Fields:
    """Return all of a result that a rebuild must not change, with the predictions of some rows."""
    found = {
        "w": bits(result.w),
        "b": bits(result.intercept),
        "objective": float(result.objective),
        "lower_bound": float(result.lower_bound),
        "status": str(result.status),
        "passes": int(result.n_iter),
        "cuts": len(result.bundle),
        "lam": float(result.lam),
        "parts": sorted(result.timings),
        "history": bits([[row["objective"], row["lower_bound"]] for row in result.history]),
    }
    if result.thresholds is not None:
        found["thresholds"] = bits(result.thresholds)
    if X is not None:
        if result.loss.task != "structured":
            found["margins"] = bits(result.decision_function(X))
        found["predictions"] = of_prediction(result.predict(X))
    return found


def joined(parts: Mapping[str, Fields]) -> Fields:
    """Return the fields of several results, each name after that of its result."""
    return {f"{part}.{name}": value for part, fields in parts.items() for name, value in fields.items()}


class Recorder:
    """Runs cases one by one and keeps their fields; one that fails is kept as the type of its exception.

    Parameters
    ----------
    about : dict
        What the file says of the run.
    path : Path or None
        Where to write; None on ranks that do not.
    common : dict
        Options of all solves: where they run.
    only : str or None
        A regular expression; cases with other names are left out.
    prefix : str
        Of the names of the cases.
    comm : mpi4py.MPI.Comm or None
        Ranks that run each case together; a field says whether all of them have found the same.
    """

    def __init__(
        self,
        about: Fields,
        path: Path | None,
        common: Fields,
        *,
        only: str | None = None,
        prefix: str = "",
        comm: Any = None,
    ) -> None:
        self.about, self.path, self.common, self.prefix, self.comm = about, path, common, prefix, comm
        self.only = re.compile(only or "")
        self.cases: dict[str, Fields] = {}
        self.seconds: Counter[str] = Counter()
        self._written = time.perf_counter()

    def case(self, name: str, run: Run, *arguments: Any, **keywords: Any) -> None:
        """Run a case, a function with its arguments, and keep the fields that it returns."""
        name = self.prefix + name
        if name in self.cases:
            raise ValueError(f"two cases are called {name}")
        if not self.only.search(name):
            return
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fields = run(*arguments, **keywords)
        except Exception as error:
            fields = {"error": type(error).__name__}
            if not isinstance(error, (BmrmError, ImportError)):  # the case itself may be at fault
                traceback.print_exc()
        if self.comm is not None:
            fields["alike"] = len(set(self.comm.allgather(json.dumps(fields)))) == 1
        self.cases[name] = fields
        now = time.perf_counter()
        self.seconds[name.rpartition("/")[0]] += now - began
        if now - self._written > OFTEN:  # what follows may end the process
            self.write()

    def write(self) -> None:
        """Write the file, if there is one."""
        self._written = time.perf_counter()
        if self.path is not None:
            about = {**self.about, "seconds": dict(self.seconds)}
            self.path.write_text(json.dumps({"about": about, "cases": self.cases}, indent=1) + "\n")

    def solve(self, name: str, *arguments: Any, **options: Any) -> None:
        """Run a case of one solve; its arguments are those of `solved`."""
        self.case(name, self._solve, *arguments, **options)

    def _solve(self, problem: Any, loss: Any, **options: Any) -> Fields:
        return of_result(self.solved(problem, loss, **options), problem.X)

    def solved(self, problem: Any, loss: Any, **options: Any) -> Any:
        """Solve on a `Problem` with the options of all solves and others."""
        given = {**problem.given(loss), **problem.options, **self.common, **options}
        return bmrm.solve(problem.X, **given)
