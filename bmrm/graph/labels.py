"""Labels of nodes: what users call a node, and its number in the graph.

Integer labels ascend, as the ids of most files do. Other labels have the order of their first appearance.
Nodes without labels of their own have the labels 0 to n - 1, which take no memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.base.arguments import has_masked, is_missing, is_on_device
from bmrm.errors import DataError, ParameterError
from bmrm.io import edges

MAX_NODES = 2**31 - 1
"""Numbers of nodes have 32 bits, which halves what a product reads."""

MAX_SHOWN_CHARS = 40
"""Of a label that a message quotes."""


class NodeLabels:
    """The labels of the nodes of a graph, by number.

    Parameters
    ----------
    values : range, ndarray of int64, ascending, or list
    """

    def __init__(self, values: range | NDArray[Any] | list[Any]) -> None:
        self.values = values
        self._numbers: dict[Any, int] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, number: int) -> Any:
        found = self.values[number]
        return found.item() if isinstance(found, np.generic) else found

    def take(self, numbers: Iterable[int]) -> list[Any]:
        """Return the labels of some nodes."""
        return [self[int(number)] for number in numbers]

    def to_list(self) -> list[Any]:
        """Return all labels as Python objects."""
        return self.values.tolist() if isinstance(self.values, np.ndarray) else list(self.values)

    def to_array(self) -> NDArray[Any]:
        """Return all labels as an array; of objects if they are neither integers nor text."""
        if isinstance(self.values, (range, np.ndarray)):
            return np.asarray(self.values, np.int64)
        if all(type(value) is str for value in self.values):
            return np.array(self.values)
        array = np.empty(len(self.values), object)
        array[:] = self.values
        return array

    def find(self, label: Any) -> int | None:
        """Return the number of a node; None if there is no such node."""
        if isinstance(self.values, list):
            if self._numbers is None:
                self._numbers = {value: number for number, value in enumerate(self.values)}
            try:
                return self._numbers.get(label)
            except TypeError:  # not hashable, so no label
                return None
        if isinstance(label, (bool, np.bool_)) or not isinstance(label, (int, np.integer)):
            return None
        if isinstance(self.values, range):
            return int(label) if 0 <= label < len(self.values) else None
        place = int(np.searchsorted(self.values, label)) if -(2**63) <= label < 2**63 else len(self.values)
        return place if place < len(self.values) and self.values[place] == label else None

    def number(self, what: str, label: Any) -> int:
        """Return the number of a node, or raise `ParameterError` if there is no such node."""
        found = self.find(label)
        if found is None:
            raise ParameterError(f"{what}: found {quote(label)}, expected a node of the graph")
        return found


def quote(label: Any) -> str:
    """Return a label on one line, shortened, for a message."""
    text = " ".join(repr(label.item() if isinstance(label, np.generic) else label).split())
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}..."


def number_nodes(
    source: Any, target: Any, threads: int | None = None
) -> tuple[NDArray[Any], NDArray[Any], NodeLabels]:
    """Give numbers to the nodes that occur in edges.

    Parameters
    ----------
    source, target : array_like, shape (edges,)
        Integers or text.
    threads : int, optional

    Returns
    -------
    source, target : ndarray of int32
    labels : NodeLabels
    """
    one, other = as_ids("source", source), as_ids("target", target)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _number_integers(one, other, threads)
    return number_objects(one, other)


def check_labels(labels: Any, n: int | None) -> NodeLabels:
    """Convert given labels of the nodes 0 to n - 1; raise unless they are all different."""
    given = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if n is not None and len(given) != n:
        raise DataError(f"labels: found {len(given)}, expected {n}, one per node")
    try:
        different = len(set(given)) == len(given)
    except TypeError as fault:
        raise DataError(f"labels: {fault}; expected hashable labels") from None
    if not different:
        first = {label: place for place, label in reversed(list(enumerate(given)))}
        twice = next(label for place, label in enumerate(given) if first[label] != place)
        raise DataError(f"labels: found {quote(twice)} twice, expected different labels")
    return NodeLabels(given)


def as_ids(what: str, given: Any) -> Any:
    """Return integer ids as an array, where they are, and other labels as a list."""
    if is_on_device(given):
        return given
    if has_masked(given):
        raise DataError(f"{what}: found masked values, expected an id in each place")
    if isinstance(given, np.ndarray) and given.dtype == object and given.ndim == 1:
        given = given.tolist()
    array = given if isinstance(given, np.ndarray) else np.asarray(given)
    if array.ndim == 1 and array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise DataError(f"{what}: found the id {array.max()}, expected at most 2^63 - 1")
    if array.ndim == 1 and array.dtype.kind in "iu":
        return array
    if array.ndim == 1 and array.dtype.kind in "UO":
        return array.tolist() if isinstance(given, np.ndarray) else list(given)
    if array.size == 0 and array.ndim == 1:
        return np.zeros(0, np.int64)
    raise DataError(f"{what}: found {array.ndim} dimensions of {array.dtype}, expected integers or text")


def _number_integers(
    source: NDArray[Any], target: NDArray[Any], threads: int | None
) -> tuple[NDArray[np.int32], NDArray[np.int32], NodeLabels]:
    if len(source) != len(target):
        raise DataError(
            f"edges: found {len(source)} sources and {len(target)} targets, expected equal numbers"
        )
    one, other, ids = edges.number_nodes(source, target, threads=threads)
    if ids is None:
        return one, other, NodeLabels(range(edges.extent((one, other), threads)[1] + 1))
    return one, other, NodeLabels(ids)


def number_objects(source: Any, target: Any) -> tuple[NDArray[Any], NDArray[Any], NodeLabels]:
    """Give numbers to the nodes that occur, in the order of their first appearance.

    ``source`` and ``target`` are lists, or arrays of integers.
    """
    source, target = (end if isinstance(end, list) else np.asarray(end).tolist() for end in (source, target))
    numbers: dict[Any, int] = {}
    both = np.empty((2, len(source)), np.int64)
    try:
        for e, (one, other) in enumerate(zip(source, target, strict=True)):
            both[0, e] = numbers.setdefault(one, len(numbers))
            both[1, e] = numbers.setdefault(other, len(numbers))
    except TypeError as fault:
        raise DataError(f"edges: {fault}; expected integers or text as nodes") from None
    for label in numbers:
        if is_missing(label):
            raise DataError(f"edges: found the id {quote(label)}, expected integers or text")
    return narrow(both[0], len(numbers)), narrow(both[1], len(numbers)), NodeLabels(list(numbers))


def narrow(numbers: NDArray[Any], n: int) -> NDArray[np.int32]:
    """Convert the numbers of nodes to int32 in C order; raise `DataError` for too many nodes."""
    check_count(n)
    return np.ascontiguousarray(numbers, np.int32)


def check_count(n: int) -> None:
    """Raise `DataError` for too many nodes."""
    if n > MAX_NODES:
        raise DataError(f"edges: found {n} nodes, expected at most {MAX_NODES}")
