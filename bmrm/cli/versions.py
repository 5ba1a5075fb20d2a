"""What a report of a fault should say: versions, build and machine."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from pathlib import Path

from bmrm.base.threads import processor_name
from bmrm.base.version import __version__
from bmrm.errors import BmrmError

LIBRARIES = (
    "numpy",
    "scipy",
    "safetensors",
    "highspy",
    "scikit-learn",
    "mpi4py",
    "petsc4py",
    "threadpoolctl",
)


def show_versions() -> None:
    """Print the versions, the build and the machine, for a bug report.

    Starts no GPU driver: the GPU is named by the files of the driver, if it is loaded.

    Examples
    --------
    >>> import bmrm
    >>> bmrm.show_versions()  # doctest: +ELLIPSIS
    bmrm ...
    """
    facts = versions()
    width = max(map(len, facts))
    print("\n".join(f"{name:<{width}}  {value}" for name, value in facts.items()))


def versions() -> dict[str, str]:
    """Return what `show_versions` prints, as a mapping from name to value."""
    from bmrm.base.threads import preferred_threads, usable_cores
    from bmrm.matrix import _cpu

    facts = {
        "bmrm": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": platform.platform(),
        "processor": processor_name(),
        "instructions": _cpu.instruction_set(),
        "cores": f"{usable_cores()} usable, {preferred_threads()} threads by default",
        "cuda": _cuda(),
    }
    for library in LIBRARIES:
        try:
            facts[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            facts[library] = "not installed"
    return facts


def _cuda() -> str:
    from bmrm.matrix.gpu.devices import OtherVersionError, import_cuda

    try:
        backend = import_cuda()
    except OtherVersionError as error:
        return f"not built; {error}"
    except BmrmError:
        return "not built"
    how = "built" if backend.__name__.startswith("bmrm.") else "bmrm-cuda13,"
    built = f"{how} for {', '.join(f'{major}.{minor}' for major, minor in backend.built_for())}"
    try:
        driver = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return f"{built}; no driver is loaded"
    names = [
        match[1]
        for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
        if (match := re.search(r"Model:\s*(.+)", path.read_text()))
    ]
    return f"{built}; {', '.join(names) or 'no GPU'}; {driver}"
