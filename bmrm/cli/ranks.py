"""A command on several ranks: one output, one exit code.

Only rank 0 prints and writes. A failure common to all ranks is reported once. A failure of a single rank is
reported by that rank, and ends the job on all of them. Before all ranks have joined the group, no rank can
inform the others, and they would wait forever for a rank ended by Ctrl-C; so signals wait until then.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import explain, run, run_command
from bmrm.cli.launch import alone, launched, rank
from bmrm.cli.signals import CommandInterrupts
from bmrm.errors import BmrmError, ParameterError

if TYPE_CHECKING:
    from bmrm.cli.train_options import TrainOptions
    from bmrm.distributed import Group

Body = Callable[[Sequence[str], CommandInterrupts, "Group | None"], int]


def run_command_on_ranks(program: str, body: Body, argv: Sequence[str] | None) -> int:
    """Run a command as `run_command` does, on the ranks that an MPI launcher has started, if one has."""
    return run_command(program, body, argv, run_on_ranks if launched() else run)


def run_on_ranks(program: str, body: Body, argv: Sequence[str], last: bool) -> int:
    """Run a command's body on every rank; return the same exit code on each."""

    def guarded(words: Sequence[str], interrupts: CommandInterrupts) -> int:
        try:
            from mpi4py import MPI

            from bmrm.distributed import Group
        except ImportError as error:
            if alone():  # a batch system that starts every program through MPI
                return body(words, interrupts, None)
            reason = "pip install mpi4py" if error.name == "mpi4py" else error
            raise BmrmError(f"several ranks need mpi4py: {reason}") from None
        group = Group(MPI.COMM_WORLD)

        def report(error: BaseException) -> int:
            sys.stderr = sys.__stderr__
            return explain(f"{program}: rank {group.rank}", error, words)

        group.report = report
        with group.guarded():
            interrupts.check()
            return body(words, interrupts, group)

    with _muted() if rank() else contextlib.nullcontext():
        return run(program, guarded, argv, last)


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


def fail_together(group: Group | None) -> AbstractContextManager[Any]:
    """Turn a failure on any rank inside the block into a failure of all ranks."""
    return contextlib.nullcontext() if group is None else group.together()


def is_first(group: Group | None) -> bool:
    """Return whether this process is the one that writes."""
    return group is None or group.rank == 0


def check(options: TrainOptions, group: Group) -> None:
    """Raise for options that have no meaning on several ranks, or that differ between ranks."""
    from bmrm.distributed.options import check_alike

    table = {name: getattr(options, name) for name in ("label", "labels", "drop")}
    for name, given in {"folds": options.folds, "cache": options.cache, **table}.items():
        if given:
            raise ParameterError(f"--{name}: only without MPI; start the command without mpiexec")
    if options.storage == "dense":
        raise ParameterError("--storage dense: only without MPI; each rank reads sparse rows")
    may_differ = ("threads", "device", "gpu-mem", "json", "quiet", "verbose")
    shared = {name: value for name, value in options.as_dict().items() if name not in may_differ}
    check_alike(group, shared, "--")
