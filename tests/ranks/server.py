"""A process that has imported NumPy, SciPy and bmrm, from which the ranks of the tests are forked.

Each job of the tests would otherwise import them on every rank, which takes most of its time. A rank that
mpiexec starts (``rank.py``) sends its words, environment and file descriptors; its fork runs the program with
them. MPI is not imported here: each fork initialises it. The fork is killed if the rank is, and the rank ends
as the fork does.

The arguments are the number of a listening socket, and the modules to import. The server ends with its input.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys

ROOM = 512
"""Descriptors of the server and of a program are below."""


def serve(listener: socket.socket) -> tuple[dict, list[int]]:
    """Fork a process for each rank until the input ends; in the fork, return what the rank has sent."""
    ranks: dict[int, tuple[int, int, int]] = {}  # by the connection and by the pidfd: pid and both of them
    poll = select.poll()
    for fd in (0, listener.fileno()):
        poll.register(fd, select.POLLIN)
    while True:
        fd, _ = poll.poll()[0]  # only one: what is done for it may close others
        if fd == 0:
            for pid, *_ in ranks.values():
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        elif fd in ranks:
            rank = ranks[fd]
            end(*rank, killed=fd == rank[1])
            for each in rank[1:]:
                poll.unregister(each)
                os.close(each)
                del ranks[each]
        else:
            connection, _ = listener.accept()
            sent, fds, *_ = socket.recv_fds(connection, 1 << 20, ROOM)
            pid = os.fork() if sent else -1  # or it was killed at once
            if pid == 0:
                return json.loads(sent), fds
            for each in fds:
                os.close(each)
            if sent:
                rank = pid, connection.detach(), os.pidfd_open(pid)
                for each in rank[1:]:
                    ranks[each] = rank
                    poll.register(each, select.POLLIN)


def end(pid: int, connection: int, pidfd: int, *, killed: bool) -> None:
    """Wait for a fork, and send its exit code to the rank unless that has been killed."""
    if killed:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        os.write(connection, str(code).encode())


def take_place(numbers: list[int], fds: list[int]) -> None:
    """Give the descriptors the numbers that they have in the rank, and close all others."""
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, ROOM) for fd in fds]
    os.closerange(0, ROOM)
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number)
    os.closerange(ROOM, 2 * ROOM)
    sys.stdin, sys.stdout = (open(fd, mode, closefd=False) for fd, mode in ((0, "r"), (1, "w")))  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def execute(words: list[str]) -> None:
    """Run a program as Python does that is given these words."""
    first, *rest = words
    if first == "-c":
        sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = [first, *rest], os.path.dirname(first)
        runpy.run_path(first, run_name="__main__")


def main() -> None:
    """Import the modules, and become the program of each rank that asks for one."""
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()  # or the first collection of each fork copies everything
    listener = socket.socket(fileno=int(sys.argv[1]))
    job, fds = serve(listener)
    listener.detach()
    take_place(job["fds"], fds)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environ"])
    execute(job["words"])


if __name__ == "__main__":
    main()
