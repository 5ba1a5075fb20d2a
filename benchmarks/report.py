"""What every results file says besides its numbers: the command, the date and the machine."""

from __future__ import annotations

import compileall
import datetime
import json
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

import bmrm

RESULTS = Path(__file__).parent / "results"


def cpu_name() -> str:
    """Model name that Linux reports."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    found = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.machine())


def as_installed() -> None:
    """Compile the package's bytecode, as pip does: a checkout may have none, and each start pays for that."""
    compileall.compile_dir(Path(bmrm.__file__).parent, quiet=1)


def write(target: str | Path, /, **numbers: Any) -> None:
    """Write a results file."""
    machine = {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    # Names of files, not where they lay.
    command = shlex.join(
        ["python", f"benchmarks/{Path(sys.argv[0]).name}", *(Path(a).name for a in sys.argv[1:])]
    )
    report = {"command": command, "date": datetime.date.today().isoformat(), "machine": machine, **numbers}
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {target}")
