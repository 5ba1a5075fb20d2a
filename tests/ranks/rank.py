"""A rank that mpiexec starts: its program runs in a fork of a prepared process (``server.py``).

The arguments are the address of the server and the words of Python.
"""

import json
import os
import signal
import socket
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(sys.argv[1])
    fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    fds = [fd for fd in fds if fd != server.fileno() and os.path.exists(f"/proc/self/fd/{fd}")]
    job = {"words": sys.argv[2:], "folder": os.getcwd(), "environ": dict(os.environ), "fds": fds}
    socket.send_fds(server, [json.dumps(job).encode()], fds)
    code = int(server.recv(16) or 1)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
