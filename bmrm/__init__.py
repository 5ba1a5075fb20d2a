"""bmrm: certified training of regularised linear models by bundle methods.

Names are loaded on first use, so that a command that needs few of them starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bmrm._version import __version__

if TYPE_CHECKING:
    from bmrm.dataset import Dataset
    from bmrm.io.model import Model
    from bmrm.io.svmlight import load_svmlight
    from bmrm.lam_path import path
    from bmrm.result import Progress, Result
    from bmrm.training import solve

_HOMES = {
    "Dataset": "bmrm.dataset",
    "Model": "bmrm.io.model",
    "Progress": "bmrm.result",
    "Result": "bmrm.result",
    "load_svmlight": "bmrm.io.svmlight",
    "path": "bmrm.lam_path",
    "solve": "bmrm.training",
}

__all__ = ["Dataset", "Model", "Progress", "Result", "__version__", "load_svmlight", "path", "solve"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bmrm' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
