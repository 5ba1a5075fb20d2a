# ruff: noqa: B007, F821 (loop variables are not read; annotations name sizes)
"""Row functions that take years, each with another kind of loop."""

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


@reduction
def of_lanes(x, p: "k", sums: ("d", "k")):
    for j in range(len(p)):
        sums[x.index % len(x), j] += x[0]


@reduction
def ranked(x, p: "k", sums: ("d", "k")):
    for j in range(len(p)):
        a = p[j] - x[0]
        sums[x.index % len(x), j] += a * a


@reduction
def butterfly(x, p: "k", sums: ("k", "k")):
    for j in range(len(p)):
        for m in range(len(p)):
            sums[j, m] += (x[0] * p[j]) * (x[1] * p[m])


@reduction
def vector(x, p: "k", sums: "k"):
    for j in range(len(p)):
        sums[j] += p[j] * x[0]


@reduction
def best(x, p: "k", out):
    least = 1e30
    for j in range(len(p)):
        a = (p[j] - x[0]) * (p[j] - x[1])
        if a < least:
            least = a
    out += least


@reduction
def products(x, p: "k", sums: ("d", "d")):
    for f in range(len(x)):
        for g in range(len(x)):
            sums[f, g] += x[f] * x[g] * p[0]


@reduction
def alone(x, n: int, p: "k", out):
    i = 0
    while i < n:
        i = (i + 1) % 8
    out += i


@reduction
def together(x, n: int, p: "k", out):
    i = 0
    while i < n:
        i += 1
        if x[0] > i:
            continue
        out += i


def next_of(i):
    while i < 0:
        i += 7
    return (i + 1) % 1000


@reduction
def until_left(x, n: int, p: "k", out):
    i = x.index
    while True:
        i = next_of(i)
        if i > n:
            break
        out += p[i % len(p)]


FOR_LONG_PARAMETERS = (of_lanes, ranked, butterfly, best, vector, products)
FUNCTIONS = (constant, uniform, by_row, nested, stored, columns, alone, together, until_left)


def arguments_of(function):
    """Rows and parameters with which a function takes years."""
    X = np.ones((20_000, 9))
    words = {"n": 2**62, "p": np.ones(3000 if function is nested else 3)}
    return scipy.sparse.csr_array(X) if function is stored else X, words
