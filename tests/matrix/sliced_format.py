"""The sliced format of `_cuda` built on the host, and the shares of blocks, by `sliced_format.cpp`."""

import ctypes
import functools
import shutil

import compiled
import numpy as np
import pytest

from bmrm.matrix._cuda import KERNELS

SOURCES = ["tests/matrix/sliced_format.cpp", "src_cuda/formats/sliced.cpp", "src_cuda/formats/shares.cpp"]
SCALARS = ("tile", "shared", "gathered", "by_count", "index_bytes", "direct", "shared_elements")
ENTRY = np.dtype([("row", np.int64), ("col", np.int64), ("value", np.float64)])
RUN = np.dtype([("items", np.uint32), ("tile", np.uint32), ("cost", np.float64)])
Sink = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)


class PlanOfC(ctypes.Structure):
    """``bb_plan`` of ``api/blackbox.h``."""

    _fields_ = [(name, ctypes.c_int32) for name in ("kernel", "lanes", "cap", "tiles")]
    _fields_ += [("tile", ctypes.c_int64)]


@functools.cache
def library() -> ctypes.CDLL:
    """The compiled functions; skips the test if there is no compiler."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    return ctypes.CDLL(str(compiled.library(SOURCES, ["-O1", "-Isrc_common", "-Isrc_cuda"])))


def address(array):
    return None if array is None else ctypes.c_void_p(array.ctypes.data)


def _built(indptr, indices, data, shape, plan, x):
    """Arrays of the format by name, and the product with x."""
    arrays = [np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(indices, np.int32)]
    arrays.append(None if data is None else np.ascontiguousarray(data, np.float64))
    found, y = {}, np.empty(shape[0])

    def keep(name, data, size):
        found[name.decode()] = ctypes.string_at(data, size) if size else b""

    status = library().sliced_format(
        *map(address, arrays), *map(ctypes.c_int64, shape),
        ctypes.byref(PlanOfC(KERNELS.index(plan.kernel), *plan[1:])), address(x), address(y), Sink(keep),
    )  # fmt: skip
    if status == 1:
        raise ValueError("plan: tile or cap out of range")
    assert status == 0, "padding holds a value, or a value goes nowhere"
    return found, y


def product(indptr, indices, data, shape, plan, x):
    """A x by way of the sliced format of a plan."""
    return _built(indptr, indices, data, shape, plan, np.ascontiguousarray(x, np.float64))[1]


def build(indptr, indices, data, shape, plan):
    """Build the sliced format of a plan.

    Returns
    -------
    dict
        The fields of ``SlicedFormat``; ``items`` has a row (offset, shape, slices, dest) per item, and
        ``entries`` the nonzeros that the format holds, as (row, column, value).
    """
    found, _ = _built(indptr, indices, data, shape, plan, np.zeros(shape[1]))
    scalars = np.frombuffer(found.pop("scalars"), np.int64).tolist()
    entries = np.frombuffer(found.pop("entries"), ENTRY).tolist()
    values = np.frombuffer(found.pop("values"), np.float64)
    arrays = {name: np.frombuffer(held, np.uint32) for name, held in found.items()}
    arrays["items"] = arrays["items"].reshape(-1, 4)
    return dict(zip(SCALARS, scalars, strict=True)) | arrays | {"values": values, "entries": entries}


def share_out(runs, tiles, fill, blocks):
    """Shares of blocks as (begin, end, of_tile, tile), for runs of (items, tile, cost)."""
    runs, shares = np.array(runs, RUN), np.empty((blocks, 4), np.uint32)
    library().share_out(
        address(runs), ctypes.c_int64(len(runs)), ctypes.c_int32(tiles), ctypes.c_double(fill),
        ctypes.c_int32(blocks), address(shares),
    )  # fmt: skip
    return [tuple(share) for share in shares.tolist()]
