"""Exit codes, and the one place that converts an exception to a line on stderr and an exit code."""

from __future__ import annotations

import contextlib
import enum
import errno
import glob
import io
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

from bmrm.base.interrupts import HELD
from bmrm.base.version import __version__
from bmrm.cli.launch import launched, rank
from bmrm.cli.signals import CommandInterrupts
from bmrm.errors import (
    BmrmError,
    DataError,
    DeviceMemoryError,
    HostMemoryError,
    ParameterError,
    escape_unprintable,
)

_BLAS_THREAD_BYTES = 1 << 28
"""Address space per thread of OpenBLAS, for its buffers. With less it gets one thread, because it ends the
process if it cannot allocate them."""

GPU_MODULES = ("bmrm.matrix._cuda", "bmrm_cuda13._cuda")
"""Modules of which one is loaded if a GPU may have been used."""

Body = Callable[[Sequence[str], CommandInterrupts], int]
"""The function of a command: takes the words of the command line and the signal handler, returns the code."""


class Exit(enum.IntEnum):
    """The exit codes of the commands."""

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
GRAPH_MEANINGS = {
    Exit.OK: "success: converged",
    **COMMON_MEANINGS,
    Exit.LIMIT: "a limit was hit before convergence (iterations, time, precision); the scores are written",
    Exit.INTERRUPTED: "interrupted (Ctrl-C or SIGTERM); the scores so far are written",
}
CLUSTER_MEANINGS = {
    Exit.OK: "success: converged, or labels by given centres",
    **COMMON_MEANINGS,
    Exit.LIMIT: "a limit was hit before convergence (iterations, time, precision); results are written",
    Exit.INTERRUPTED: "interrupted (Ctrl-C or SIGTERM); the best result so far is written",
}
PAIRS_MEANINGS = {
    Exit.OK: "success: pairs are counted, neighbours or densities found, or the plan is printed",
    **COMMON_MEANINGS,
    Exit.DEVICE_MEMORY: "out of GPU memory",
    Exit.INTERRUPTED: "interrupted (Ctrl-C or SIGTERM); the counts so far are written",
}
INFO_MEANINGS = {Exit.OK: "success", **COMMON_MEANINGS, Exit.INTERRUPTED: "interrupted (Ctrl-C)"}
FRONT_MEANINGS = {
    Exit.OK: "success",
    Exit.FAILURE: "a file could not be written: no file is written",
    Exit.USAGE: "bad usage, or DIR has such files: no file is written",
    Exit.INTERRUPTED: "interrupted (Ctrl-C)",
}
BENCH_MEANINGS = {
    Exit.OK: "success",
    **COMMON_MEANINGS,
    Exit.DEVICE_MEMORY: "out of GPU memory",
    Exit.INTERRUPTED: "interrupted (Ctrl-C)",
}


SIGNALS = (signal.SIGINT, signal.SIGTERM)

_PREDICTING = ("bmrm-train", "bmrm-graph")
"""The programs that predict the memory they need, with ``--dry-run``."""


def epilog(meanings: Mapping[Exit, str]) -> str:
    """Return the list of exit codes for the end of ``--help``."""
    return "exit codes:\n" + "\n".join(f"  {int(code):<4} {text}" for code, text in meanings.items())


def run(program: str, body: Body, argv: Sequence[str], last: bool) -> int:
    """Run a command's body, report an error in one line, and return the exit code.

    Signals wait, except while the body lets them through. With ``last`` the process ends afterwards:
    signals that were blocked since `bmrm.cli.start` arrive first, and later ones are ignored.
    """
    with CommandInterrupts(mode=HELD, last=last) as interrupts:
        if last:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        try:
            return _run(program, body, argv, interrupts)
        except (Exception, KeyboardInterrupt) as error:
            interrupts.mode = HELD
            return explain(program, error, argv)


def _run(program: str, body: Body, argv: Sequence[str], interrupts: CommandInterrupts) -> int:
    _prepare_streams()
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _BLAS_THREAD_BYTES * (1 + len(os.sched_getaffinity(0))):
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


def run_command(
    program: str, body: Callable[..., int], argv: Sequence[str] | None, runner: Callable[..., int] = run
) -> int:
    """Run a command, and return the exit code, which its ``--help`` explains.

    ``argv`` are the words after the program's name; for None they are those of ``sys.argv``, and the process
    may end here. ``runner`` calls the body.
    """
    if argv is None:
        return leave(runner(program, body, sys.argv[1:], True))
    return runner(program, body, list(argv), False)


def run_on_first_rank(program: str, body: Callable[..., int], argv: Sequence[str] | None) -> int:
    """Run a command that knows no MPI: under a launcher of MPI the first rank alone does all, and writes."""
    if launched() and rank() > 0:
        return Exit.OK
    return run_command(program, body, argv)


def leave(code: int) -> int:
    """End the process with an exit code.

    All output is on disk by now. A thread that an interrupt left running must not meet the shutdown of the
    interpreter, and if a GPU was used, the system frees the driver's memory faster than the driver does. A
    process of an MPI job returns instead, because it must finalise MPI.
    """
    uses_gpu = any(name in sys.modules for name in GPU_MODULES)
    if "mpi4py" in sys.modules or not (uses_gpu or threading.active_count() > 1):
        return code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def options_of(argv: Sequence[str]) -> Sequence[str]:
    """Return the words before ``--``; the words after it are files, whatever they look like.

    Examples
    --------
    >>> options_of(["-q", "--", "--version"])
    ['-q']
    """
    return argv[: argv.index("--")] if "--" in argv else argv


class _Closed(io.RawIOBase):
    """The stdout of a process that was started without one: writing is an error, so that nothing is lost."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> NoReturn:
        raise OSError(errno.EBADF, "found it closed, expected it open", "standard output")


def _prepare_streams() -> None:
    """Let no output be lost unseen: of a closed stdout, or of one without a buffer.

    Closed streams are opened before other files get their numbers. An unbuffered text stream ignores that the
    system wrote only a part (PYTHONUNBUFFERED); so stdout gets a buffer, which is flushed after each line.
    Stdout also prints any file name, as stderr does.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        os.open(os.devnull, os.O_WRONLY)  # stays open, so that no other file gets the number of stdout
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Closed()), "utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        if isinstance(sys.stdout.buffer, io.RawIOBase):
            file = open(sys.stdout.fileno(), "wb", closefd=False)  # noqa: SIM115
            sys.stdout = io.TextIOWrapper(file, sys.stdout.encoding, line_buffering=True)
        sys.stdout.reconfigure(errors="backslashreplace")


def explain(program: str, error: BaseException, argv: Sequence[str]) -> int:
    """Print the error in one line on stderr, and return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return _complain(program, "interrupted, nothing written", Exit.INTERRUPTED)
    if isinstance(error, BrokenPipeError):
        _drop_stdout()
        return Exit.FAILURE
    if short := _shortage(program, error):
        return _complain(program, short, Exit.FAILURE)
    if isinstance(error, BmrmError):
        return _complain(program, str(error), error.exit_code)
    if isinstance(error, OSError):
        _drop_stdout()  # stdout may be the full device: the interpreter's last flush must not fail again
        return _complain(program, _os_error_text(error), Exit.FAILURE)
    if any(word.partition("=")[0] == "--verbose" for word in options_of(argv)):
        import traceback

        traceback.print_exception(error)
    text = f"unexpected {type(error).__name__}: {error} (--verbose shows the traceback)"
    return _complain(program, text, Exit.FAILURE)


def _shortage(program: str, error: BaseException) -> str | None:
    """Return a message if main memory ran out, which shows in several ways; None for any other error."""
    if "can't start new thread" in str(error):
        return "out of memory or threads; --threads starts fewer, ulimit -a shows the limits"
    loading = isinstance(error, ImportError) and "failed to map segment" in str(error)
    short = isinstance(error, MemoryError) and not isinstance(error, DeviceMemoryError)
    if short or loading or getattr(error, "errno", None) == errno.ENOMEM:
        text = str(error) if isinstance(error, HostMemoryError) else "out of memory"
        predicts = program.split(":")[0] in _PREDICTING and "--dry-run" not in text
        return text + ("; --dry-run shows how much memory the data need" if predicts else "")
    return None


def _version(program: str) -> int:
    # Before the body, whose imports take longer than everything here.
    print(f"{program} {__version__}")
    return Exit.OK


@contextlib.contextmanager
def reading(path: str, advice_on_patterns: str = "") -> Iterator[None]:
    """Convert the `OSError` of an input file to a `DataError`, with advice if a missing file is a pattern."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise
        text = _os_error_text(error, path)
        if error.errno == errno.ENOENT and glob.has_magic(path):
            text += advice_on_patterns
        raise DataError(text) from error


def check_apart(output: str, others: Mapping[str, str | None]) -> None:
    """Raise if the file to be written is one of the other files, which are given by what they are."""
    if os.path.exists(output) and not os.path.isfile(output):
        return  # writing to a terminal or to /dev/null replaces nothing
    for what, other in others.items():
        if other is not None and _same_file(output, other):
            raise ParameterError(
                f"{escape_unprintable(output)}: is {what} itself, choose another file to write"
            )


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one does not exist yet
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
    """Discard the interpreter's last flush: stdout is closed, or full, or its reader has left."""
    if isinstance(getattr(getattr(sys.stdout, "buffer", None), "raw", None), _Closed):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    with contextlib.suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
