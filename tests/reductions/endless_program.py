# ruff: noqa: B007, F821 (loop variables are not read; annotations name sizes)
"""Run passes that take years, on as many threads as are given; a test interrupts each of them."""

import sys

import numpy as np
import scipy.sparse

from bmrm.reductions import reduction


@reduction
def constant(x, n: int, p: "k", out):
    for i in range(1_000_000_000_000_000):
        out += x[0] > i % 7


@reduction
def uniform(x, n: int, p: "k", out):
    for i in range(n):
        out += x[0] > i % 7


@reduction
def by_row(x, n: int, p: "k", out):
    for i in range(n + int(x[0])):
        out += x[0] > i % 7


@reduction
def nested(x, n: int, p: "k", out):
    for i in range(len(p)):
        for j in range(len(p)):
            for m in range(len(p)):
                for f in range(len(x)):
                    out += x[f] * (i ^ j ^ m) > 3


@reduction
def stored(x, n: int, p: "k", out):
    for f, v in x.stored():
        for i in range(n):
            out += v > i % 7


@reduction
def columns(x, n: int, p: "k", sums: ("k", "d")):
    for i in range(n):
        at = i % len(p)
        for f in range(len(x)):
            sums[(at + x.index) % len(p), f] += x[f]


threads, X = int(sys.argv[1]), np.ones((20_000, 9))
for endless in (constant, uniform, by_row, nested, stored, columns):
    words = {"n": 2**62, "p": np.ones(3000 if endless is nested else 3)}
    rows = scipy.sparse.csr_array(X) if endless is stored else X
    endless(rows[:0], device="cpu", **words)  # compiles it
    print("starts", flush=True)
    try:
        endless(rows, threads=threads, device="cpu", **words)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
few = {"n": 2, "p": np.ones(2), "threads": threads, "device": "cpu"}
print(uniform(X, **few).out, flush=True)
