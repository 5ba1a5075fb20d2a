"""bmrm: certified training of regularised linear models by bundle methods.

Names are loaded on first use, so that a command that needs few of them starts fast.
"""

from bmrm._version import __version__

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

    from bmrm.calibration import calibrate
    from bmrm.dataset import Dataset
    from bmrm.io.model import Model
    from bmrm.io.svmlight import load_svmlight
    from bmrm.lam_path import Path, path
    from bmrm.result import Progress, Result
    from bmrm.selection import Selection, select
    from bmrm.training import solve

_HOMES = {
    "Dataset": "bmrm.dataset",
    "Model": "bmrm.io.model",
    "Path": "bmrm.lam_path",
    "Progress": "bmrm.result",
    "Result": "bmrm.result",
    "Selection": "bmrm.selection",
    "calibrate": "bmrm.calibration",
    "load_svmlight": "bmrm.io.svmlight",
    "path": "bmrm.lam_path",
    "select": "bmrm.selection",
    "solve": "bmrm.training",
}

__all__ = [
    "Dataset",
    "Model",
    "Path",
    "Progress",
    "Result",
    "Selection",
    "__version__",
    "calibrate",
    "load_svmlight",
    "path",
    "select",
    "solve",
]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'bmrm' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
