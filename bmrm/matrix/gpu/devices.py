"""What the package knows of GPUs: whether there is one, whether a problem pays there, how fast it is.

Nothing here touches a driver before a function is called that has to.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from bmrm.errors import BmrmError
from bmrm.matrix.gpu import cache as device_cache

WORTH_A_GPU = 5_000_000
"""Stored values from which ``device="auto"`` takes a GPU.

In a fresh process the driver's start and the upload must pay off too: with an H200 beside 16 cores they do
from here on (``benchmarks/gpu/thesis_ch5.py`` counts how often).
"""

NARROW, NARROW_WORTH_A_GPU = 1024, 80_000_000
"""Columns up to which a solve takes a handful of passes on either, and the stored values from which a GPU
pays then."""

FLOAT32_RESOLUTION = 1e-5
"""Share of the objective below which products summed in float32 hide a gap."""

OLDEST = (7, 5)
"""Compute capability of the oldest device that there is code for."""

_constants: dict[int, dict[str, float]] = {}


def backend() -> ModuleType:
    """Return `bmrm.matrix._cuda`.

    Raises
    ------
    BmrmError
        If the package was built without it.
    """
    try:
        from bmrm.matrix import _cuda
    except ImportError:
        raise BmrmError("device='cuda': this build has no CUDA support; use device='cpu'") from None
    return _cuda


def gpu() -> dict[str, Any] | None:
    """Return what `bmrm.matrix._cuda.device_info` says of the GPU, None where there is none to use."""
    try:
        cuda = backend()
        found: dict[str, Any] | None = cuda.device_info(0) if cuda.device_count() else None
    except BmrmError:
        return None
    return found if found is not None and (found["major"], found["minor"]) >= OLDEST else None


def constants(device: int = 0) -> dict[str, float]:
    """Return what `bmrm.matrix._cuda.measure` says of a device, measured once for each kind of device.

    Parameters
    ----------
    device : int, default 0

    Returns
    -------
    dict
        Seconds and rates. `bmrm.matrix.gpu.cache` keeps them; where it cannot, each process measures.

    Raises
    ------
    BmrmError
        If there is no such device, or it fails.
    """
    if device not in _constants:
        cuda = backend()
        name = cuda.device_info(device)["name"]
        known = device_cache.read(name).constants
        if known is None:
            known = cuda.measure(device)
            device_cache.keep_constants(name, known)
        _constants[device] = known
    return _constants[device]
