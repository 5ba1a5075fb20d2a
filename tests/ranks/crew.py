"""Ranks that run one program after another, each with the output and the folder of its own (``mpi.py``).

To start Python and MPI takes most of the time of a short program. A rank waits without a core for the next
one. What a program replaces in the package is as before for the next program. The job ends with its input.

The argument is the address of a listening socket.
"""

import json
import os
import signal
import socket
import sys
import traceback
from types import ModuleType
from typing import Any

from server import execute

WORDS = 1 << 20
"""Maximum length of what comes for a program."""


def names() -> list[tuple[type | ModuleType, dict[str, Any]]]:
    """Return what the names of the modules and classes of the package stand for."""
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == "bmrm"]
    found: dict[int, type | ModuleType] = {id(module): module for module in modules}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__.startswith("bmrm"):
                found[id(value)] = value
    return [(space, dict(vars(space))) for space in found.values()]


def restore(before: list[tuple[type | ModuleType, dict[str, Any]]]) -> None:
    """Let names stand for what they did; a program that has set another number has replaced nothing."""
    for space, held in before:
        now = vars(space)
        new = [name for name in now.keys() - held if isinstance(now[name], (int, float))]
        assert not new, f"{space.__name__} has no {new}"
        for name, value in held.items():
            if now.get(name) is not value:
                setattr(space, name, value)


def run(words: list[str]) -> int:
    """Run a program; return its exit code."""
    try:
        execute(words)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return int(end.code or 0)
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    launcher = {name: value for name, value in os.environ.items() if name.startswith(("PMI", "HYDRA", "MPI"))}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
        caller.connect(sys.argv[1])
        while True:
            sent, fds, *_ = socket.recv_fds(caller, WORDS, 2)
            if not sent:
                return
            job = json.loads(sent)
            for fd, own in zip(fds, (1, 2), strict=True):
                os.dup2(fd, own)
                os.close(fd)
            os.chdir(job["folder"])
            os.environ.clear()
            os.environ.update(job["environ"] | launcher)
            before = names()
            code = run(job["words"])
            sys.stdout.flush()
            sys.stderr.flush()
            restore(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            caller.send(str(code).encode())


main()
