"""Time of each part of the build and of the tests, from fresh clones with empty caches.

    python -m benchmarks.cpu.build [--out FILE]

Clones the last commit of this checkout. Nothing is there that an earlier build made: objects, wheels of PETSc
and pip's downloads go to a cache of their own. nvcc is used if there is one. It takes most of an hour on two
cores, which must be idle; the results file is written after each part.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.common import report

ROOT = Path(__file__).parents[2]
NO_CUDA = {"BMRM_CUDA": "off"}
TESTS = "cd tests && BMRM_REQUIRE_PETSC=1 ../.venv/bin/python -m pytest -q -n 2"
# What runs in a clone of its own: the names of the parts, their commands, and the environment.
CLONES = {
    "demo": ([("`make demo`", "make demo")], NO_CUDA),
    "install": (
        [("`pip install .`", "python3 -m venv .venv && .venv/bin/pip install -q .")],
        NO_CUDA,
    ),
    "no_cuda": ([("package and tools, without nvcc", "make .venv/dev.stamp")], NO_CUDA),
    "cuda": (
        [
            ("package and tools, with nvcc", "make .venv/dev.stamp"),
            ("PETSc", "make .venv/test.stamp"),
            ("`make lint`", "make lint"),
            ("`make typecheck`", "make typecheck"),
            ("`make stubs`", "make stubs"),
            ("the tests", TESTS),
            ("`make versions`", "make versions"),
            ("`make test` once more", "make test"),
        ],
        {},
    ),
}


def measure(command: str, folder: Path, environ: dict[str, str]) -> dict:
    """Run a command that must succeed, and return its wall time and the processor time of all it started."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, shell=True, check=True, cwd=folder, env=environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.perf_counter() - start, "cpu_seconds": cpu}


def main() -> None:
    """Measure all parts and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=report.RESULTS / "build.json")
    options = parser.parse_args()
    nvcc = shutil.which("nvcc", path=f"/usr/local/cuda/bin{os.pathsep}{os.environ['PATH']}")
    rows: list[dict] = []
    for name, (parts, environ) in CLONES.items():
        with tempfile.TemporaryDirectory() as folder:
            clone, cache = Path(folder) / "bmrm", Path(folder) / "cache"
            subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
            for part, command in parts:
                found = measure(command, clone, {**os.environ, "XDG_CACHE_HOME": str(cache), **environ})
                rows.append({"clone": name, "part": part, **found})
                report.write(options.out, nvcc=nvcc is not None, parts=rows)


if __name__ == "__main__":
    main()
