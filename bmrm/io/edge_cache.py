"""A binary cache next to edge text: edges and labels in a form that needs no parsing.

Name, key and safety are those of the cache of SVMlight text (`bmrm.io.cache`). What is read must be what text
can give: numbers of nodes in range, no more nodes than ends of edges, integer ids that ascend, names that
differ and have no control characters, finite weights.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmrm.io import _edges, _text
from bmrm.io.array_file import FAULTS, UnusableError, read_arrays, require_size
from bmrm.io.cache import SUFFIX, store_arrays
from bmrm.io.edge_data import Edges
from bmrm.io.regular import open_own_file
from bmrm.io.sources import Source

MAGIC = b"bmrmEDG\x00"
VERSION = 2  # of the layout; caches of other versions are written again

_ARRAY_DTYPES = {
    "sources": ("<i4",),
    "targets": ("<i4",),
    "weights": ("<f8",),
    "ids": ("<i8",),
    "names": ("|u1",),  # UTF-8, one per line
}

_FORBIDDEN = np.zeros(256, bool)  # bytes of names; between them are the ends of lines
_FORBIDDEN[[*range(ord(" ")), 0x7F]] = True
_FORBIDDEN[ord("\n")] = False


def load(path: str, key: dict[str, int], options: dict[str, Any], threads: int) -> Edges | None:
    """Read the cache of ``path``; return None if there is none that is valid and matches."""
    began = time.perf_counter()
    wanted = {"version": VERSION, "source": key, "options": options}
    try:
        with open_own_file(path + SUFFIX) as (file, status):
            header, arrays = read_arrays(file, status.st_size, MAGIC, _ARRAY_DTYPES, wanted, _limits, threads)
        edges = _assemble(header, arrays, options["weights"])
    except (OSError, UnusableError, _text.ChangedError, *FAULTS):
        return None
    edges.seconds["cache"] = time.perf_counter() - began
    return edges


def _limits(header: Any) -> dict[str, int]:
    n_nodes = require_size(header["n_nodes"])
    if n_nodes > _edges.MAX_NODES:
        raise UnusableError
    return {"sources": n_nodes, "targets": n_nodes}


def _assemble(header: Any, arrays: dict[str, NDArray[Any]], wanted: bool | None) -> Edges:
    sources, targets, weights = arrays["sources"], arrays["targets"], arrays.get("weights")
    labels, n_nodes = _labels(arrays), header["n_nodes"]
    if len(targets) != len(sources) or n_nodes > 2 * len(sources):
        raise UnusableError
    if labels is not None and len(labels) != n_nodes:
        raise UnusableError
    if wanted is not None and bool(wanted) != (weights is not None):
        raise UnusableError
    has_header, directed, unread = header["has_header"], header["directed"], header["unread"]
    if (
        not isinstance(has_header, bool)
        or not isinstance(unread, bool)
        or directed not in (None, True, False)
    ):
        raise UnusableError
    if weights is not None and (len(weights) != len(sources) or not np.isfinite(weights).all()):
        raise UnusableError
    return Edges(sources, targets, weights, labels, n_nodes, has_header, directed, unread, from_cache=True)


def _labels(arrays: dict[str, NDArray[Any]]) -> NDArray[Any] | None:
    ids, names = arrays.get("ids"), arrays.get("names")
    if ids is not None:
        if names is not None or (ids[1:] <= ids[:-1]).any():
            raise UnusableError
        return ids
    if names is None:
        return None
    if _FORBIDDEN[names].any():
        raise UnusableError
    found = names.tobytes().decode().split("\n") if len(names) else []
    if "" in found or len(set(found)) != len(found):
        raise UnusableError
    labels = np.empty(len(found), object)
    labels[:] = found
    return labels


def store(source: Source, edges: Edges, key: dict[str, int], options: dict[str, Any], threads: int) -> None:
    """Write the cache of a regular file; if that fails, warn once and continue."""
    began = time.perf_counter()
    header = {"version": VERSION, "source": key, "options": options}
    header |= {"n_nodes": edges.n_nodes, "has_header": edges.has_header}
    header |= {"directed": edges.directed, "unread": edges.unread}
    arrays: dict[str, NDArray[Any]] = {"sources": edges.sources, "targets": edges.targets}
    if edges.weights is not None:
        arrays["weights"] = edges.weights
    if edges.labels is not None and edges.labels.dtype.hasobject:
        arrays["names"] = np.frombuffer("\n".join(edges.labels.tolist()).encode(), np.uint8)
    elif edges.labels is not None:
        arrays["ids"] = edges.labels
    store_arrays(source, MAGIC, header, arrays, threads)
    edges.seconds["cache"] = time.perf_counter() - began
