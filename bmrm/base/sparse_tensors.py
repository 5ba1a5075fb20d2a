"""Sparse tensors of PyTorch as scipy's matrices, which share their values.

Nothing here imports PyTorch: a tensor brings its methods.
"""

from __future__ import annotations

from typing import Any

from bmrm.base.arguments import ErrorType, array, is_sparse_tensor
from bmrm.errors import DataError

_COMPRESSED = {
    "torch.sparse_csr": ("crow_indices", "col_indices"),
    "torch.sparse_csc": ("ccol_indices", "row_indices"),
}
"""Methods for the pointers and the indices, by layout."""


def as_scipy(what: str, given: Any, error: ErrorType = DataError) -> Any:
    """Return a sparse tensor as a scipy array of the same layout; return everything else unchanged.

    The values are shared, and the indices if they are of type int32 and compressed. Raise ``error`` for
    tensors on a device, of several matrices, or of blocks.
    """
    if not is_sparse_tensor(given):
        return given
    from scipy.sparse import coo_array, csc_array, csr_array

    layout, shape = str(given.layout), tuple(given.shape)
    if len(shape) != 2:
        raise error(f"{what}: found a sparse tensor of {len(shape)} dimensions, expected 2")
    if layout == "torch.sparse_coo":
        once = given.coalesce()
        values, places = array(what, once.values(), error), array(what, once.indices(), error)
        parts: Any = (values, tuple(places))
    elif layout in _COMPRESSED:
        pointers, indices = (array(what, getattr(given, name)(), error) for name in _COMPRESSED[layout])
        parts = (array(what, given.values(), error), indices, pointers)
    else:
        raise error(f"{what}: found the layout {layout}, expected torch.sparse_csr, _csc or _coo")
    kind = {"torch.sparse_coo": coo_array, "torch.sparse_csc": csc_array}.get(layout, csr_array)
    try:
        found = kind(parts, shape)
        if kind is csc_array:
            found.check_format()  # PyTorch need not have checked indices, and scipy does not convert safely
    except ValueError as fault:
        raise error(f"{what}: {fault}") from None
    return found
