"""``bmrm-train`` on several ranks: one voice, one exit code.

Rank 0 speaks and writes; the others compute. A failure that all ranks have is told once. One that a rank has
alone is told by that rank, and ends the job on all of them. Until all have come together nobody could be
told, and a rank that Ctrl-C ended would be waited for without end: signals that come earlier wait.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import explain, run
from bmrm.cli.launch import alone, rank
from bmrm.cli.signals import Interrupts
from bmrm.errors import BmrmError, ParameterError

if TYPE_CHECKING:
    from bmrm.cli.options import TrainOptions
    from bmrm.distributed import Group

Body = Callable[[Sequence[str], Interrupts, "Group | None"], int]


def run_on_ranks(program: str, body: Body, argv: Sequence[str], *, last: bool) -> int:
    """Run a command's body on every rank; return the same exit code on each."""

    def guarded(words: Sequence[str], interrupts: Interrupts) -> int:
        try:
            from mpi4py import MPI

            from bmrm.distributed import Group
        except ImportError as error:
            if alone():  # a batch system that starts every program this way
                return body(words, interrupts, None)
            raise BmrmError(f"several ranks need mpi4py, which cannot be imported: {error}") from None
        group = Group(MPI.COMM_WORLD)

        def report(error: BaseException) -> int:
            sys.stderr = sys.__stderr__
            return explain(f"{program}: rank {group.rank}", error, words)

        group.report = report
        with group.guarded():
            interrupts.check()
            return body(words, interrupts, group)

    with _muted() if rank() else contextlib.nullcontext():
        return run(program, guarded, argv, last=last)


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


def together(group: Group | None) -> AbstractContextManager[Any]:
    """Make a failure of the block on any rank one of all ranks."""
    return contextlib.nullcontext() if group is None else group.together()


def is_first(group: Group | None) -> bool:
    """Whether this process is the one that writes."""
    return group is None or group.rank == 0


def check(options: TrainOptions, group: Group) -> None:
    """Raise for options that have no meaning on several ranks, or are not the same on all."""
    from bmrm.distributed.options import check_alike

    for name, given in (("folds", options.folds), ("cache", options.cache)):
        if given:
            raise ParameterError(f"--{name}: goes without MPI only; leave mpiexec out")
    free = ("threads", "device", "gpu-mem", "json", "quiet", "verbose")
    shared = {name: value for name, value in options.as_dict().items() if name not in free}
    check_alike(group, shared, "--")
