"""GPUs: whether there is one, when it pays off, and how fast it is.

Nothing here touches a driver until a function needs it.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
from types import ModuleType
from typing import Any

from bmrm.base.notices import warn
from bmrm.base.version import __version__
from bmrm.errors import BmrmError, DeviceCodeError, ParameterError
from bmrm.matrix.gpu import cache as device_cache

DEVICES = ("auto", "cpu", "cuda")
"""Names of devices besides ``"cuda:N"``."""

FLOAT32_RESOLUTION = 1e-5
"""Relative gap below which the rounding of float32 sums hides it."""

MIN_COMPUTE_CAPABILITY = (7, 5)
"""Compute capability of the oldest supported device."""

DISTRIBUTION = "bmrm_cuda13"
"""Package of the distribution bmrm-cuda13, which has the compiled backend if the build itself has none."""

_constants: dict[int, dict[str, float]] = {}
_said: set[str] = set()


def parse_device(device: Any) -> int | None:
    """Return the number of the GPU that ``device`` names, None if it names none.

    Raise `ParameterError` if it is not one of "auto", "cpu", "cuda", "cuda:N".

    Examples
    --------
    >>> parse_device("cuda:3"), parse_device("cuda"), parse_device("cpu")
    (3, None, None)
    """
    if isinstance(device, str):
        if device in DEVICES:
            return None
        if re.fullmatch(r"cuda:[0-9]{1,9}", device):
            return int(device.partition(":")[2])
    raise ParameterError(f"device: found {device!r}, expected one of {', '.join(DEVICES)}, cuda:N")


class OtherVersionError(BmrmError):
    """The compiled backend that is installed belongs to another version of the package."""


def import_cuda() -> ModuleType:
    """Import `bmrm.matrix._cuda`, or else the same module of the distribution bmrm-cuda13.

    Raise `BmrmError` if neither is there, and `OtherVersionError` if that distribution is of another version.
    """
    try:
        from bmrm.matrix import _cuda
    except ImportError:
        return _import_distribution()
    return _cuda


def _import_distribution() -> ModuleType:
    try:
        found = importlib.import_module(DISTRIBUTION).__version__
        if found != __version__:
            name = DISTRIBUTION.replace("_", "-")
            raise OtherVersionError(f"found {name} {found}, expected {__version__}, the version of bmrm")
        return importlib.import_module(f"{DISTRIBUTION}._cuda")
    except ImportError:
        raise BmrmError("device='cuda': this build has no CUDA support; use device='cpu'") from None


def gpu(process: int = 0) -> dict[str, Any] | None:
    """Return the driver's description of a GPU.

    If only code for it is missing, or bmrm-cuda13 is of another version, a warning says so, once.

    Parameters
    ----------
    process : int, default 0
        The number of the process on its machine. Processes take the GPUs in turn.

    Returns
    -------
    dict or None
        As of `bmrm.matrix._cuda.device_info`; None if there is no usable GPU.

    Examples
    --------
    >>> import bmrm
    >>> found = bmrm.gpu()
    >>> found is None or found["name"] != ""
    True
    """
    try:
        cuda = import_cuda()
        count = cuda.device_count()
        found: dict[str, Any] | None = cuda.device_info(process % count) if count else None
    except (DeviceCodeError, OtherVersionError) as error:
        if str(error) not in _said:
            _said.add(str(error))
            warn_of_the_cpu(error)
        return None
    except BmrmError:
        return None
    return found if found is not None and (found["major"], found["minor"]) >= MIN_COMPUTE_CAPABILITY else None


def is_started(number: int = 0) -> bool:
    """Return whether this process has a context on a GPU; looks only, and loads no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    flags, active = ctypes.c_uint(), ctypes.c_int()
    failed = driver.cuDevicePrimaryCtxGetState(number, ctypes.byref(flags), ctypes.byref(active))
    return not failed and bool(active.value)


def warn_of_the_cpu(error: BmrmError) -> None:
    """Warn that ``device="auto"`` is the CPU, and why the GPU cannot be used."""
    warn(f"device='auto': {error}; using the CPU")


def constants(device: int = 0) -> dict[str, float]:
    """Return `bmrm.matrix._cuda.measure` of a device, measured once per kind of device.

    They are seconds and rates. `bmrm.matrix.gpu.cache` saves them; if it cannot, each process measures. Raise
    `BmrmError` if the device does not exist, or fails.
    """
    if device not in _constants:
        cuda = import_cuda()
        name = cuda.device_info(device)["name"]
        measured = device_cache.read_record(name).constants
        if measured is None:
            measured = cuda.measure(device)
            device_cache.save_constants(name, measured)
        _constants[device] = measured
    return _constants[device]
