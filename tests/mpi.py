"""Programs on several ranks of MPI, by the mpiexec next to this Python, or the one on the path."""

import atexit
import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import bmrm

PROBLEM = """
import sys
import numpy as np
import scipy.sparse as sp
from mpi4py import MPI
from turns import by_one

import bmrm
from bmrm.distributed import Group, Shard

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
rng = np.random.default_rng(3)
m, d = {rows}, 61
X = sp.random_array((m, d), density=0.15, format="csr", rng=rng)
y = np.where(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(m) > 0, 2.0, 1.0)
y[: m // 3] = 1.0  # the first of three ranks has one class only
s = rng.random(m)
s[: m // 3] = 0.0  # and no weight
# Ranks of different sizes.
bounds = [m * r * (r + 1) // (size * (size + 1)) for r in range(size + 1)]
first, last = bounds[rank], bounds[rank + 1]
mine = slice(first, last)
"""
"""The start of a program on ranks of different sizes: `rows` rows, of which each has its own."""

LIMIT = 60  # seconds; a job that hangs is killed, and its test fails
FAILURE_LIMIT = 10.0  # seconds for the other ranks of a job after one has failed
ENDING = 5.0  # seconds until ranks that were given no other program have ended
DIED = -1
"""In place of the exit code of a rank that ended the job."""


PREPARED = (
    "scipy.sparse", "scipy.linalg", "bmrm.cli.graph", "bmrm.cli.predict", "bmrm.cli.train",
    "bmrm.graph.graph", "bmrm.graph.page_rank", "bmrm.linear.backends.local",
    "bmrm.linear.bundle.inner_model", "bmrm.linear.models.checkpoint", "bmrm.linear.solve", "bmrm.losses",
)  # fmt: skip
"""What the programs of ranks import: modules that neither start MPI nor threads."""


def environment() -> dict[str, str]:
    """Return the environment of a rank."""
    # One thread per rank: two ranks on two cores, as CI has them.
    here = Path(__file__).parent
    folders = [Path(bmrm.__file__).parents[1], here, here / "ranks", os.environ.get("PYTHONPATH")]
    path = os.pathsep.join(map(str, filter(None, folders)))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def listen(folder: str) -> socket.socket:
    """Return a socket to which other processes connect, in a folder."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(os.path.join(folder, "server"))
    listener.listen(64)
    return listener


@cache
def server() -> str:
    """Start the process from which ranks are forked; return its address."""
    folder = tempfile.TemporaryDirectory(prefix="bmrm-ranks-")
    listener = listen(folder.name)
    address, number = listener.getsockname(), listener.fileno()
    process = subprocess.Popen(
        [sys.executable, Path(__file__).parent / "ranks" / "server.py", str(number), *PREPARED],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=[number],
        env=environment(),
    )
    listener.close()

    @atexit.register
    def end() -> None:
        process.communicate()
        folder.cleanup()

    return address


def start(ranks: int, *words: object, forked: bool = True, **keywords) -> subprocess.Popen[str]:
    """Start Python on a number of ranks, with the package under test, which forked ranks have imported."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    mpiexec = shutil.which("mpiexec", path=path) or "mpiexec"
    fork = ["-IS", Path(__file__).parent / "ranks" / "rank.py", server()] if forked else []
    return subprocess.Popen(
        [mpiexec, "-n", str(ranks), sys.executable, *map(str, [*fork, *words])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        **keywords,
    )


class Crew:
    """Ranks that run one program after another, each as if it had a job of its own (``ranks/crew.py``)."""

    def __init__(self, ranks: int) -> None:
        with tempfile.TemporaryDirectory(prefix="bmrm-crew-") as folder, listen(folder) as listener:
            listener.settimeout(LIMIT)
            self.job = start(ranks, Path(__file__).parent / "ranks" / "crew.py", listener.getsockname())
            self.ranks = [listener.accept()[0] for _ in range(ranks)]
        atexit.register(self.end)

    def run(self, words: list[str], folder: str) -> subprocess.CompletedProcess[str]:
        """Run a program; ranks that wait for one that has failed are killed."""
        job = json.dumps({"words": words, "folder": folder, "environ": environment()}).encode()
        codes: list[int] = []
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            for rank in self.ranks:
                socket.send_fds(rank, [job], [out.fileno(), err.fileno()])
            busy, until = set(self.ranks), time.monotonic() + LIMIT
            while busy and (ready := select.select(busy, (), (), max(0.0, until - time.monotonic()))[0]):
                busy.difference_update(ready)
                codes += [int(rank.recv(16) or DIED) for rank in ready]
                if any(codes):
                    until = min(until, time.monotonic() + FAILURE_LIMIT)
            if busy or DIED in codes:
                self.end()
            if not any(codes) and busy:
                raise subprocess.TimeoutExpired(words, LIMIT)
            texts = [os.pread(file.fileno(), 1 << 24, 0).decode() for file in (out, err)]
        code = next(filter(None, codes), 0)
        if code == DIED:
            code = self.job.returncode or 1
        return subprocess.CompletedProcess(words, code, *texts)

    def end(self) -> None:
        """End the job; ranks that are in a program are killed."""
        atexit.unregister(self.end)
        crews.pop(len(self.ranks))
        for rank in self.ranks:
            rank.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            finish(self.job, ENDING)


crews: dict[int, Crew] = {}
"""Crews by their numbers of ranks."""


def run(
    ranks: int, *words: object, own_job: bool = False, cwd: object = None, **keywords: bool
) -> subprocess.CompletedProcess[str]:
    """Run Python on a number of ranks to its end.

    Programs share a job, unless they may end ranks or need new processes.
    """
    if own_job or keywords:
        return finish(start(ranks, *words, cwd=cwd, **keywords))
    if ranks not in crews:
        crews[ranks] = Crew(ranks)
    return crews[ranks].run(list(map(str, words)), str(cwd or os.getcwd()))


def succeed(ranks: int, *words: object, **keywords) -> None:
    """Run Python on a number of ranks, and expect that it succeeds."""
    done = run(ranks, *words, **keywords)
    assert done.returncode == 0, done.stderr


def finish(process: subprocess.Popen[str], limit: float = LIMIT) -> subprocess.CompletedProcess[str]:
    """Wait for a job, up to a limit."""
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
