"""Programs on several ranks of MPI, by the mpiexec beside this Python, or that on the path."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import bmrm

LIMIT = 60  # seconds; a job that hangs is killed, and its test fails


def start(ranks: int, *words: object, **keywords) -> subprocess.Popen[str]:
    """Start Python on so many ranks, with the package that is under test."""
    # One thread a rank: two ranks on two cores, as CI has them.
    path = os.pathsep.join(filter(None, (str(Path(bmrm.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    environ = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    beside = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    mpiexec = shutil.which("mpiexec", path=beside) or "mpiexec"
    return subprocess.Popen(
        [mpiexec, "-n", str(ranks), sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        **keywords,
    )


def run(ranks: int, *words: object, **keywords) -> subprocess.CompletedProcess[str]:
    """Run Python on so many ranks to its end."""
    process = start(ranks, *words, **keywords)
    return finish(process)


def finish(process: subprocess.Popen[str], limit: float = LIMIT) -> subprocess.CompletedProcess[str]:
    """Wait for a job, not for ever."""
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def script(folder: Path, code: str) -> Path:
    """Write a program."""
    path = folder / "program.py"
    path.write_text(code)
    return path
