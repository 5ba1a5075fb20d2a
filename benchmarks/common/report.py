"""Writes a results file: the numbers, what ran, when and where, the aims, and what pages show of them."""

from __future__ import annotations

import compileall
import datetime
import importlib
import json
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

import bmrm
from benchmarks.common.sections import parse
from bmrm.base.threads import processor_name

RESULTS = Path(__file__).parents[1] / "results"


def as_installed() -> None:
    """Compile the package's bytecode as pip does; without it, each start from a checkout pays for that."""
    compileall.compile_dir(Path(bmrm.__file__).parent, quiet=1)


def optional(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def version(name: str) -> str:
    """Return the version of a module that may not be installed."""
    return str(getattr(optional(name), "__version__", "-"))


def command() -> str:
    """Return the command that is running, with the names of its files but not their folders."""
    program = Path(sys.argv[0])
    module = f"benchmarks.{program.parent.name}.{program.stem}"
    return shlex.join(["python", "-m", module, *(Path(a).name for a in sys.argv[1:])])


def aim(name: str, value: float, bound: float, unit: str = "", *, below: bool = False) -> dict[str, Any]:
    """Say whether a result reaches an aim: at least the bound, or below it."""
    passed = value < bound if below else value >= bound
    return {"name": name, "value": value, "bound": bound, "unit": unit, "below": below, "passed": passed}


def line(aim: dict[str, Any]) -> str:
    """Return one line for one aim."""
    sign = "<" if aim["below"] else ">="
    verdict = "pass" if aim["passed"] else "FAIL"
    value = f"{aim['value']:.3g}{aim['unit']}"
    return f"{verdict}  {aim['name']}: {value} ({sign} {aim['bound']:g}{aim['unit']})"


def late(result: bmrm.Result) -> str:
    """Return what a table adds to the time of a solve that was stopped: its relative gap."""
    return "" if result.status == "converged" else f" ({result.gap / result.objective:.0e})"


def write(target: str | Path, sections: str, /, **numbers: Any) -> None:
    """Write a results file. The aims, if there are any, are among the numbers, as ``aims``."""
    machine = {
        "cpu": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    report = {
        "command": command(),
        "date": datetime.date.today().isoformat(),
        "machine": machine,
        "sections": parse(sections),
        **numbers,
    }
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {target}")
