"""The results of the parts of a pass, combined in their order, on one rank or on several.

The results of a part are one vector of 8-byte numbers, which ranks hand on as it is; those of all parts are a
matrix, of which each result has some columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bmrm.base.vectors import Vector
from bmrm.formulas.analysis.layout import NO_ROW
from bmrm.formulas.language.tree import Argument
from bmrm.formulas.run.binding import Call
from bmrm.formulas.run.merge import combine_arrays


class Results:
    """Results of some parts, each with a row of its own in every array."""

    def __init__(self, call: Call, count: int) -> None:
        self.call = call
        self.matrix = np.empty((count, sum(place.size for place in call.places)))
        self.arrays: dict[str, NDArray[Any]] = {}
        self.best_rows: dict[str, NDArray[np.int64]] = {}
        """Row index of each extremum: of equal values the first row counts."""
        for place in call.places:
            columns = self.matrix[:, place.first : place.first + place.size].view(place.dtype)
            found = columns.reshape(count, *place.shape)
            found[...] = NO_ROW if place.is_row else place.argument.identity
            (self.best_rows if place.is_row else self.arrays)[place.argument.name] = found

    def combined(self) -> Results:
        """Return the parts of all ranks, combined in their order."""
        if len(self.matrix) == 1 and self.call.rows.group is None:
            return self
        found = Results(self.call, 1)
        taken = [a for a in self.call.program.arguments.values() if a.name in self.arrays and not a.leader]

        def step(before: Vector | None) -> Vector:
            if before is not None:
                found.matrix[0] = before
            for argument in taken:
                for part in range(len(self.matrix)):
                    found.take(argument, self, part)
            return np.asarray(found.matrix[0])

        found.matrix[0] = self.call.rows.in_turn(found.matrix.shape[1], step)
        return found

    def one(self, part: int = 0) -> dict[str, NDArray[Any]]:
        """Return the results of one part."""
        return {name: array[part, ...] for name, array in self.arrays.items()}

    def take(self, argument: Argument, others: Results, part: int) -> None:
        """Combine a result of another part into the first part here."""
        name = argument.name
        old, new = self.arrays[name][0, ...], others.arrays[name][part, ...]
        operator = argument.combined_by
        if not operator.keeps_row:
            combine_arrays(operator, old, new)
            return
        rows, theirs = self.best_rows[name][0, ...], others.best_rows[name][part, ...]
        better = operator.is_better(new, old) | ((new == old) & (theirs < rows))
        np.copyto(old, new, where=better)
        np.copyto(rows, theirs, where=better)
        for other in self.call.program.arguments.values():
            if other.leader == name:
                mine = self.arrays[other.name][0, ...]
                np.copyto(mine, others.arrays[other.name][part, ...], where=better)


def output_type(argument: Argument, real: type[np.floating[Any]]) -> type[np.generic]:
    """Return the type of a result of which each row has its own."""
    return {"real": np.float64 if argument.wide else real, "int": np.int64, "bool": np.uint8}[argument.type]


def make_outputs(call: Call, rows: int) -> dict[str, NDArray[Any]]:
    """Make the results of which each row has its own, as they are before a row writes them."""
    found = {}
    for argument in call.program.outputs():
        shape, kind = (rows, *call.shape(argument)), output_type(argument, call.real)
        start = argument.identity
        found[argument.name] = np.full(shape, start, kind) if start else np.zeros(shape, kind)
    return found


Pass: TypeAlias = tuple[Results, dict[str, NDArray[Any]]]
"""What a pass over the rows of one rank gives: results of parts, and values of its rows."""


def over_ranks(call: Call, run: Callable[[], Pass]) -> dict[str, Any]:
    """Run a pass over the local rows, and combine the parts of all ranks; an error of one ends all."""
    with call.rows.together():
        results, outputs = run()
    return finished(call, results.combined(), outputs)


def finished(call: Call, results: Results, outputs: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Give the results the types that users see, in the order of the arguments."""
    made: dict[str, Any] = {}
    found = results.one()
    for argument in call.program.results():
        name = argument.name
        if argument.axes:
            made[name] = outputs[name].view(np.bool_) if argument.type == "bool" else outputs[name]
            continue
        value = found[name]
        if argument.type == "real" and not argument.rounds:
            with np.errstate(over="ignore"):
                value = value.astype(call.real)
        made[name] = value if argument.dims else value[()]
    return made
