"""Exit codes, and the one place where an exception becomes a line on stderr and a code."""

from __future__ import annotations

import contextlib
import enum
import errno
import io
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

from bmrm._version import __version__
from bmrm.base.interrupts import HELD
from bmrm.base.threads import requested_threads
from bmrm.cli.signals import Interrupts
from bmrm.errors import BmrmError, DataError, ParameterError, escape_unprintable

_BLAS_ROOM = 1 << 28
"""Bytes of address space for each thread of OpenBLAS, below which it gets one: it ends the process where it
finds no room for their buffers."""

Body = Callable[[Sequence[str], Interrupts], int]
"""A command without its name: what it is given on its command line, and who watches signals."""


class Exit(enum.IntEnum):
    """What the commands return to the shell."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    BAD_DATA = 3
    LIMIT = 4
    DEVICE_MEMORY = 5
    INTERRUPTED = 130


COMMON_MEANINGS = {
    Exit.FAILURE: "failure while running: an output could not be written, memory ran out, …",
    Exit.USAGE: "bad usage: an option out of its range or a combination that makes no sense",
    Exit.BAD_DATA: "bad data, labels, weights or model file",
}
TRAIN_MEANINGS = {
    Exit.OK: "success: converged",
    **COMMON_MEANINGS,
    Exit.LIMIT: "a limit was hit before convergence (iterations, time, precision); the model is written",
    Exit.DEVICE_MEMORY: "out of GPU memory",
    Exit.INTERRUPTED: "interrupted (Ctrl-C or SIGTERM); the best model so far is written",
}
PREDICT_MEANINGS = {
    Exit.OK: "success",
    **COMMON_MEANINGS,
    Exit.INTERRUPTED: "interrupted (Ctrl-C or SIGTERM); nothing is written",
}
BENCH_MEANINGS = {
    Exit.OK: "success",
    **COMMON_MEANINGS,
    Exit.DEVICE_MEMORY: "out of GPU memory",
    Exit.INTERRUPTED: "interrupted (Ctrl-C)",
}


SIGNALS = (signal.SIGINT, signal.SIGTERM)


def epilog(meanings: Mapping[Exit, str]) -> str:
    """List exit codes for the end of ``--help``."""
    return "exit codes:\n" + "\n".join(f"  {int(code):<4} {text}" for code, text in meanings.items())


def run(program: str, body: Body, argv: Sequence[str], *, last: bool = False) -> int:
    """Run a command's body; say what went wrong in one line, and return the exit code.

    Signals wait, but where the body lets them strike. With ``last`` the process ends behind it, and they are
    ignored from there on; those that have waited since `bmrm.cli.start` arrive first.
    """
    with Interrupts(mode=HELD, last=last) as interrupts:
        if last:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        try:
            return _run(program, body, argv, interrupts)
        except (Exception, KeyboardInterrupt) as error:
            interrupts.mode = HELD
            return explain(program, error, argv)


def _run(program: str, body: Body, argv: Sequence[str], interrupts: Interrupts) -> int:
    _prepare_streams()
    # Read when the compiled core is loaded. A waiting OpenMP thread spins for milliseconds by default; on a
    # machine with other work it then keeps the core from the very thread that it waits for.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if requested_threads(os.environ) is None:  # else the library of OpenMP would complain on its own
        os.environ.pop("OMP_NUM_THREADS", None)
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY and most < _BLAS_ROOM * (1 + len(os.sched_getaffinity(0))):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    def warn(text: Warning | str, *_: object) -> None:
        _complain(program, f"warning: {text}", Exit.OK)

    with warnings.catch_warnings():
        warnings.showwarning = warn  # type: ignore[assignment]
        try:
            code = _version(program) if "--version" in options_of(argv) else int(body(argv, interrupts))
        except SystemExit as stop:  # argparse, after --help
            code = stop.code if isinstance(stop.code, int) else Exit.OK
    sys.stdout.flush()
    return code


def leave(code: int) -> int:
    """End the process with an exit code.

    All that matters is on disk by then. A thread that an interrupt has left behind must not be met by the
    end of the interpreter, and where a GPU was in use the system takes the driver's memory back faster than
    the driver does. A process of an MPI job has to take its leave of the others.
    """
    if "mpi4py" in sys.modules or ("bmrm.matrix._cuda" not in sys.modules and threading.active_count() == 1):
        return code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def options_of(argv: Sequence[str]) -> Sequence[str]:
    """Return the words before ``--``; those behind it are files, whatever they look like.

    Examples
    --------
    >>> options_of(["-q", "--", "--version"])
    ['-q']
    """
    return argv[: argv.index("--")] if "--" in argv else argv


def _prepare_streams() -> None:
    """Open closed standard streams, before another file takes their numbers; let stdout take any name."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr is


def explain(program: str, error: BaseException, argv: Sequence[str]) -> int:
    """Say in one line on stderr what went wrong, and return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return _complain(program, "interrupted, nothing written", Exit.INTERRUPTED)
    if isinstance(error, BrokenPipeError):
        _drop_stdout()
        return Exit.FAILURE
    if isinstance(error, BmrmError):
        return _complain(program, str(error), error.exit_code)
    if short := _shortage(error):
        return _complain(program, short, Exit.FAILURE)
    if isinstance(error, OSError):
        _drop_stdout()  # it may be what is full: the interpreter's last flush must not fail once more
        return _complain(program, _os_error_text(error), Exit.FAILURE)
    if any(word.partition("=")[0] == "--verbose" for word in options_of(argv)):
        import traceback

        traceback.print_exception(error)
    text = f"unexpected {type(error).__name__}: {error} (--verbose shows the traceback)"
    return _complain(program, text, Exit.FAILURE)


def _shortage(error: BaseException) -> str | None:
    """Say that memory ran out, in whatever way that shows; None for another error."""
    if "can't start new thread" in str(error):
        return "out of memory, or of threads, to start one; --threads takes fewer, ulimit -a shows the limits"
    loading = isinstance(error, ImportError) and "failed to map segment" in str(error)
    if isinstance(error, MemoryError) or loading or getattr(error, "errno", None) == errno.ENOMEM:
        return "out of memory; --dry-run tells what the data will take"
    return None


def _version(program: str) -> int:
    # Before the body, whose imports take longer than all of this.
    print(f"{program} {__version__}")
    return Exit.OK


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn the `OSError` of an input file into a `DataError`: it is the input that is bad."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise
        raise DataError(_os_error_text(error, path)) from error


def check_apart(output: str, others: Mapping[str, str | None]) -> None:
    """Raise where a file to be written is also another one of the command; the others go by what they are."""
    if os.path.exists(output) and not os.path.isfile(output):
        return  # what goes to a terminal or to /dev/null replaces nothing
    for what, other in others.items():
        if other is not None and _same_file(output, other):
            raise ParameterError(
                f"{escape_unprintable(output)}: is {what} itself, choose another file to write"
            )


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


def _os_error_text(error: OSError, path: str | None = None) -> str:
    name = error.filename if error.filename is not None else path
    reason = error.strerror or str(error)
    return reason if name is None else f"{escape_unprintable(str(name))}: {reason}"


def _complain(program: str, text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        print(f"{program}: {escape_unprintable(' '.join(text.split()))}", file=sys.stderr)
    return code


def _drop_stdout() -> None:
    """Let the interpreter's last flush go nowhere: whoever reads our output has left, or is full."""
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
