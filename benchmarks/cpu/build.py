"""Time of each part of the build and of the tests, from fresh clones with empty caches.

    python -m benchmarks.cpu.build [--out FILE]

Clones the last commit of this checkout. Nothing is there that an earlier build made: objects, what the tests
compile and pip's downloads go to a cache of their own. The wheels of PETSc are the user's; their build has a
clone of its own. nvcc is used if there is one. It takes half an hour on two cores, which must be idle; the
results file is written after each part. The exit status is 1 if a part failed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import report

ROOT = Path(__file__).parents[2]
NO_CUDA = {"BMRM_CUDA": "off"}
TESTS = "cd tests && BMRM_REQUIRE_PETSC=1 ../.venv/bin/python -m pytest -q -n 2"
# What runs in a clone of its own, in this order: the parts with their commands, and the environment.
CLONES: list[tuple[list[tuple[str, str]], dict[str, str]]] = [
    (
        [
            ("package and tools, with nvcc", "make .venv/dev.stamp"),
            ("`make architectures`", "make architectures"),
            ("PETSc, from its wheels", "make .venv/test.stamp"),
            ("`make lint`", "make lint"),
            ("`make typecheck`", "make typecheck"),
            ("`make stubs`", "make stubs"),
            ("the tests", TESTS),
            ("`make versions`", "make versions"),
        ],
        {},
    ),
    ([("`make demo`", "make demo")], NO_CUDA),
    ([("`pip install .`", "python3 -m venv .venv && .venv/bin/pip install -q .")], NO_CUDA),
    ([("package and tools, without nvcc", "make .venv/dev.stamp")], NO_CUDA),
    ([("PETSc, compiled", "python3 -m venv .venv && VENV=.venv scripts/petsc.sh")], {"BMRM_WHEELS": "petsc"}),
]


SECTIONS = """
## The build

From fresh clones with empty caches, by `{command}`, {date}, {machine[cpu]}, {machine[cores]} cores:

[parts] where status in 0
part = {part} | minutes = {seconds:.1f min} | processor minutes = {cpu_seconds:.1f min}
"""


def measure(command: str, folder: Path, environ: dict[str, str]) -> dict:
    """Run a command; return its status, its wall time and the processor time of all it started."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    status = subprocess.run(command, shell=True, cwd=folder, env=environ).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"status": status, "seconds": time.perf_counter() - start, "cpu_seconds": cpu}


def main() -> int:
    """Measure all parts and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "build.json")
    options = parser.parse_args()
    nvcc = shutil.which("nvcc", path=f"/usr/local/cuda/bin{os.pathsep}{os.environ['PATH']}")
    wheels = {"BMRM_WHEELS": os.environ.get("BMRM_WHEELS", os.path.expanduser("~/.cache/bmrm/wheels"))}
    rows: list[dict] = []
    for parts, environ in CLONES:
        with tempfile.TemporaryDirectory() as folder:
            clone, cache = Path(folder) / "bmrm", {"XDG_CACHE_HOME": str(Path(folder) / "cache")}
            subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
            for part, command in parts:
                found = measure(command, clone, {**os.environ, **wheels, **cache, **environ})
                rows.append({"part": part, **found})
                print(f"{part}: {found['seconds']:.0f} s, status {found['status']}", flush=True)
                report.write(options.out, SECTIONS, nvcc=nvcc is not None, parts=rows)
    return int(any(row["status"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
