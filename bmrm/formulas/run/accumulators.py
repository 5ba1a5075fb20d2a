"""The results of the parts of a pass, combined in their order, on one rank or on several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.formulas.cpu.lanes import NO_ROW
from bmrm.formulas.language.tree import Argument
from bmrm.formulas.run.binding import Call


class Results:
    """Results of some parts, each with a row of its own in every array."""

    def __init__(self, call: Call, count: int) -> None:
        self.call = call
        self.arrays = {
            a.name: np.full((count, *call.shape(a)), neutral_value(a), accumulated_type(a))
            for a in call.program.results()
            if a.role != "output"
        }
        self.best_rows = {
            a.name: np.full((count, *call.shape(a)), NO_ROW, np.int64)
            for a in call.program.results()
            if a.role in ("argmin", "argmax")
        }
        """Number of the row of each extremum: of equal values the earliest row counts."""

    def combined(self, before: Results | None = None) -> Results:
        """Combine the parts in their order, after the combined parts before them."""
        found = Results(self.call, 1) if before is None else before
        if before is None:
            for mine, theirs in zip(found.all(), self.all(), strict=True):
                mine[0] = theirs[0]
        for name, argument in self.call.program.arguments.items():
            if name in self.arrays and argument.role != "other":
                for part in range(1 if before is None else 0, len(self.arrays[name])):
                    found.take(argument, self, part)
        return found

    def all(self) -> list[NDArray[Any]]:
        """Return all arrays."""
        return [*self.arrays.values(), *self.best_rows.values()]

    def packed(self) -> Vector:
        """Return the bits of the first part as one vector."""
        return np.concatenate(
            [array[0].reshape(-1).view(np.float64) for array in self.all()] or [np.empty(0)]
        )

    def unpack(self, bits: Vector) -> Results:
        """Set the first part from a vector; return these results."""
        start = 0
        for array in self.all():
            size = array[0].size
            array[0] = bits[start : start + size].view(array.dtype).reshape(array.shape[1:])
            start += size
        return self

    def one(self, part: int = 0) -> dict[str, NDArray[Any]]:
        """Return the results of one part."""
        return {name: array[part, ...] for name, array in self.arrays.items()}

    def take(self, argument: Argument, others: Results, part: int) -> None:
        """Combine a result of another part into the first part here."""
        name = argument.name
        old, new = self.arrays[name][0, ...], others.arrays[name][part, ...]
        match argument.role:
            case "sum":
                with np.errstate(all="ignore"):
                    old += new
            case "or":
                old |= new
            case "and":
                old &= new
            case _:
                least = argument.role in ("min", "argmin")
                better = new < old if least else new > old
                if name in self.best_rows:
                    rows, theirs = self.best_rows[name][0, ...], others.best_rows[name][part, ...]
                    better |= (new == old) & (theirs < rows)
                    np.copyto(rows, theirs, where=better)
                    for other in self.call.program.arguments.values():
                        if other.leader == name:
                            mine = self.arrays[other.name][0, ...]
                            np.copyto(mine, others.arrays[other.name][part, ...], where=better)
                np.copyto(old, new, where=better)


def accumulated_type(argument: Argument) -> type[np.generic]:
    """Return the type in which a result is combined."""
    return np.float64 if argument.type == "real" else np.int64


def neutral_value(argument: Argument) -> float | int:
    """Return the value of a result of no rows."""
    real = argument.type == "real"
    match argument.role:
        case "sum" | "or":
            return 0
        case "and":
            return -1
        case "min" | "argmin":
            return np.inf if real else 2**63 - 1
        case "max" | "argmax":
            return -np.inf if real else -(2**63)
    return np.nan if real else -1


def output_type(argument: Argument, real: type[np.floating[Any]]) -> type[np.generic]:
    """Return the type of a result that is one value per row."""
    return {"real": real, "int": np.int64, "bool": np.uint8}[argument.type]


def make_outputs(call: Call) -> dict[str, NDArray[Any]]:
    """Make room for the results that are one value per row."""
    return {
        a.name: np.zeros(call.rows.shape[0], output_type(a, call.real))
        for a in call.program.results()
        if a.role == "output"
    }


Pass: TypeAlias = tuple[Results, dict[str, NDArray[Any]]]
"""What a pass over the rows of one rank gives: results of parts, and values of its rows."""


def over_ranks(call: Call, run: Callable[[], Pass]) -> dict[str, Any]:
    """Run a pass over the rows here, and combine the parts of all ranks; an error of one ends all."""
    ranks = call.rows.ranks
    if ranks is None or ranks.group.size == 1:
        results, outputs = run()
        return finished(call, results.combined(), outputs)
    with ranks.group.together():
        results, outputs = run()

    def fold(before: Vector | None) -> Vector:
        return results.combined(None if before is None else Results(call, 1).unpack(before)).packed()

    length = sum(array[0].size for array in results.all())
    return finished(call, Results(call, 1).unpack(ranks.group.in_turn(length, fold)), outputs)


def finished(call: Call, results: Results, outputs: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Give the results the types that users see, in the order of the arguments."""
    made: dict[str, Any] = {}
    found = results.one()
    for argument in call.program.results():
        name = argument.name
        if argument.role == "output":
            made[name] = outputs[name].view(np.bool_) if argument.type == "bool" else outputs[name]
            continue
        value = found[name]
        if argument.role != "sum" and argument.type == "real":
            with np.errstate(over="ignore"):
                value = value.astype(call.real)
        made[name] = value if argument.dims else value[()]
    return made
