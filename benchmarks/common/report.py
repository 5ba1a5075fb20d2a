"""Writes a results file: the numbers, and the command, the date and the machine that they are from."""

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

RESULTS = Path(__file__).parents[1] / "results"


def cpu_name() -> str:
    """Return the model name that Linux reports."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    found = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.machine())


def as_installed() -> None:
    """Compile the package's bytecode as pip does; without it, each start from a checkout pays for that."""
    compileall.compile_dir(Path(bmrm.__file__).parent, quiet=1)


def command() -> str:
    """Return the command that is running, with the names of its files but not their folders."""
    program = Path(sys.argv[0])
    module = f"benchmarks.{program.parent.name}.{program.stem}"
    return shlex.join(["python", "-m", module, *(Path(a).name for a in sys.argv[1:])])


def write(target: str | Path, /, **numbers: Any) -> None:
    """Write a results file."""
    machine = {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    report = {"command": command(), "date": datetime.date.today().isoformat(), "machine": machine, **numbers}
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {target}")
