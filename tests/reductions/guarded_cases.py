# ruff: noqa: B007, F821, SIM108 (loop variables are not read; annotations name sizes; branches are meant)
"""Row functions whose indices only a condition keeps inside, and integers near the end of 64 bits.

Each is a case with the arguments of its calls. ``ERROR`` says that a call must name an index outside.
"""

from typing import Any, NamedTuple

import numpy as np

from bmrm.reductions import Reduction, local, reduction

ERROR = "an index outside"
FAR = 100_000_000_000
X = np.arange(200.0).reshape(50, 4) / 4 - 10
P = np.arange(5.0)


class Case(NamedTuple):
    reduction: Reduction
    words: dict[str, Any]
    expected: Any
    """`ERROR`, the results, or None for those of the plain loop."""


CASES: dict[str, Case] = {}


def case(expected=None, **words):
    """Make a case of a row function."""

    def made(function):
        CASES[function.__name__] = Case(reduction(function), words, expected)
        return CASES[function.__name__].reduction

    return made


# --- the same index for all rows, under a condition on the row


@case(p=P, k=FAR)
def in_a_branch(x, p, k: int, out):
    v = 0.0
    if x[0] > 1e9:
        v = p[k]
    out += v


@case(p=P, k=-FAR)
def in_the_other_branch(x, p, k: int, out):
    v = 1.0
    if x[0] < 1e9:
        v = 0.5
    else:
        v = p[k]
    out += v


@case(p=P, k=FAR)
def in_a_conditional_expression(x, p, k: int, out):
    out += p[k] if x[0] > 1e9 else 0.0


@case(p=P, k=FAR)
def under_two_conditions(x, p, k: int, out):
    out += (p[k] if x[1] > 1e9 else p[1]) if x[0] > 0 else (0.25 if k > 0 else p[k])


@case(p=P, k=FAR)
def after_and(x, p, k: int, out):
    if x[0] > 1e9 and p[k] > 0:
        out += 1


@case(p=P, k=FAR)
def after_or(x, p, k: int, out):
    if x[0] < 1e9 or p[k] > 0:
        out += 1


@case(p=P, k=FAR)
def in_a_chain(x, p, k: int, out):
    out += 3.0 < -x[0] < p[k] if x[0] > 1e9 else x[0] < -1e9 < p[k]


@case(p=P, k=FAR)
def of_a_local_array(x, p, k: int, out):
    q = local(4)
    out += q[k] if x[0] > 1e9 else p[0]


@case(k=FAR)
def of_the_row(x, k: int, out):
    out += x[k] if x[0] > 1e9 else x[1]


@case(p=np.ones((5, 3)), k=FAR)
def of_a_matrix(x, p, k: int, out):
    out += (p[k, 1] + p[1, k] + p[k, k]) if x[0] > 1e9 else p[0, 0]


@case(p=np.ones((5, 3)) > 0, k=FAR)
def of_truth_values(x, p, k: int, out):
    out += p[k, 1] if x[0] > 1e9 else p[0, 0]


@case(p=P, k=FAR)
def in_a_loop(x, p, k: int, out):
    for j in range(k, k + 2):
        out += p[j] if x[0] > 1e9 else 0.5


@case(p=P, k=FAR)
def in_a_loop_of_each_row(x, p, k: int, out):
    for j in range(int(x[0])):
        if x[1] > 1e9:
            out += p[k + j]
        else:
            out += 0.5


@case(p=P, k=FAR)
def in_nested_conditions(x, p, k: int, out, sums: 5):
    if x[0] > 0:
        if x[1] > 1e9:
            sums[k] += p[k]
        v = 0.25
        if x[2] > 1e9:
            v = p[k]
        out += v
    sums[0] += p[0]


@case(p=P, k=FAR)
def in_a_power(x, p, k: int, out):
    out += (p[k] + 1.0) ** 2 if x[0] > 1e9 else 0.5


@case(p=np.ones((5, 4)), k=FAR)
def in_a_loop_without_iterations(x, p: ("k", "d"), k: int, sums: ("k", "d")):
    at = int(abs(x[0])) % len(p)
    for f in range(0):
        sums[at, f] += p[k, f] * x[f]
    sums[at, 1] += 1


@case(ERROR, p=np.ones((5, 4)), k=FAR)
def in_columns_of_a_parameter(x, p: ("k", "d"), k: int, sums: ("k", "d")):
    at = int(abs(x[0])) % len(p)
    for f in range(len(x)):
        sums[at, f] += p[k, f] * x[f]


@case(ERROR, p=P, k=FAR)
def for_one_row(x, p, k: int, out):
    out += p[k] if x.index == 37 else 0.0


@case(ERROR, p=P, k=-1)
def below_zero(x, p, k: int, out):
    if x[0] > 0:
        out += p[k]


@case(ERROR, p=P, k=1)
def with_a_sign(x, p, k: int, out):
    out += p[-k]


# --- bounds that hold only where a condition does


@case(p=P, n=np.array([7, 2, 1, 0, 3]))
def of_lanes_that_wait(x, p, n: 5, out, sums: 5):
    j = 0
    if x[0] > 0:
        j = 4
        for i in range(int(x[1]) % 3):
            sums[n[j - 4 + i // 3] % len(p)] += p[j - 4]
            out += p[j - 4] + n[j - 4]


@case(p=P, n=np.arange(5))
def by_an_index_that_is_read(x, p, n: 5, out, best: 5, who: 5):
    if x[0] > 3:
        j = 4
        for i in range(int(x[1]) % 4):
            if x[2] < best[n[j - 4] % 5]:
                best[n[j - 4] % 5], who[n[j - 4] % 5] = x[2], n[j - 4]
    out += p[0]


# --- numbers that wrap at 64 bits


@case(ERROR, p=P, n=64)
def doubled_until_it_wraps(x, p, n: int, out):
    h = 0
    for i in range(n):
        h = h + h + 1
    out += p[min(h, len(p) - 1)]


@case(p=P, n=62)
def doubled_until_before(x, p, n: int, out):
    h = 0
    for i in range(n):
        h = h + h + 1
    out += p[min(h, len(p) - 1)]


@case(ERROR, n=64)
def written_after_a_wrap(x, n: int, hist: 5):
    h = 0
    for i in range(n):
        h = h + h + 1
    hist[min(h, len(hist) - 1)] += 1


@case(ERROR, p=P, m=2**63 - 1)
def a_divisor_that_wraps(x, p, m: int, out):
    out += p[min((int(x[0]) - 100) % (m + 1), len(p) - 1)]


@case(ERROR, p=P)
def a_divisor_that_wraps_in_the_text(x, p, out):
    out += p[min((int(x[0]) - 100) % (9223372036854775807 + 1), len(p) - 1)]


@case(ERROR, p=P, k=-(2**63))
def an_absolute_value_that_wraps(x, p, k: int, out):
    out += p[min(abs(k), len(p) - 1)]


@case(ERROR, p=P, k=2**62)
def a_product_that_wraps(x, p, k: int, out):
    for i in range(3):
        out += p[min(max(k, 0) * i, len(p) - 1)]


@case(ERROR, p=P, k=63)
def a_shift_that_wraps(x, p, k: int, out):
    out += p[min(1 << k, len(p) - 1)]


@case(ERROR, p=P, k=2**62)
def a_number_of_rows_that_wraps(x, p, k: int, out):
    out += p[min((x.index % 4) * max(k, 1), len(p) - 1)]


@case(ERROR, p=P, n=2**63 - 1)
def a_counter_plus_one(x, p, n: int, out):
    for i in range(n - 1, n):
        out += p[min(i + 2, len(p)) - 1]


@case(ERROR, p=P)
def an_infinite_number(x, p, out):
    out += p[min(int(x[0] * 1e300 + 1e301) + 1, len(p) - 1)]


@case((100.0, -(2**63)), p=P, k=-(2**63))
def the_least_number(x, p, k: int, out, least):
    out += p[(k // -1) % len(p)] + p[(k % -1)]
    least = min(least, k // (x.index % 2 - 2))


# --- counters near the end of 64 bits


@case((np.int64(100),), n=2**63 - 1)
def a_counter_that_would_wrap(x, n: int, out):
    for i in range(0, n, 4611686018427387904):
        out += 1


@case((np.int64(100),), n=-(2**63))
def a_counter_that_would_wrap_below(x, n: int, out):
    for i in range(-1, n, -6148914691236517205):
        out += 1


@case()
def counters_of_rows(x, out, last: "d"):
    for i in range(9223372036854775800 - x.index % 3, 9223372036854775807, 3):
        out += i % 5
        last[i % len(last)] += 1
    for i in range(x.index - 9223372036854775807, -9223372036854775800 + x.index % 9, 5):
        out += 1


@case()
def lanes_that_wait_for_long(x, out):
    for i in range(9223372036854775807 - x.index % 2, 9223372036854775807 - 20 * (x.index % 3)):
        out += 1


@case(p=P, k=FAR)
def in_a_while(x, p, k: int, out):
    i = 0
    while i < 3:
        i += 1
        if x[0] > 1e9:
            out += p[k + i]


@case(p=P)
def of_lanes_that_have_left(x, p, out):
    i = int(x[0])
    while i < 5:
        if i < 0:
            break
        out += p[i] * i
        i += 1
    out += p[i] > 0 if 0 <= i < 5 else -1


@case(p=P, k=FAR)
def after_a_continue(x, p, k: int, out):
    for j in range(k, k + 3):
        if x[0] < 1e9:
            continue
        out += p[j]


def element_if_there(p, i):
    if i < 0 or i >= len(p):
        return -1.0
    return p[i]


@case(p=P, k=FAR)
def of_a_function_that_returns_early(x, p, k: int, out):
    out += element_if_there(p, int(x[0])) + element_if_there(p, k) + element_if_there(x, -k)


@case(ERROR, p=P)
def in_a_while_that_goes_too_far(x, p, out):
    i = x.index % 3
    while p[i] < 9.0:
        i += 1
    out += i


@case(ERROR, p=np.array([2**62, 1]))
def a_stride_that_wraps_from_one_to_the_next(x, p: 2, out):
    for i in range(len(p)):
        for j in range(len(p)):
            out += p[min(max(p[0], 0) * 2 * i + j, 1)]


# --- truth values


@case((np.int64(0), np.float64(P[0] * 9 + P[1] * 41)), p=P)
def a_truth_value_as_an_index(x, p, none, out):
    t = x[0] < 0
    none += p[t] < 0
    out += p[x[0] >= -1] if x.index < 99 else p[True]


# --- loops that several printers have in other forms


@case((np.zeros(4), np.zeros((4, 4))))
def products_that_end_where_a_number_wraps(x, total: ("d",), cross: ("d", "d")):
    for f in range(min(len(x), 9223372036854775807 + 1)):
        total[f] += x[f]
        for g in range(min(len(x), 9223372036854775807 + f + 1)):
            cross[f, g] += x[f] * x[g]


@case(n=0, p=P, k=FAR)
def rows_of_a_result_in_a_loop_without_iterations(x, n: int, p, k: int, sums: (5, "d"), most: (5, "d")):
    at = int(x[0])
    for f in range(min(max(n, 0), len(x))):
        sums[at + k, f] += x[f]
    for f in range(min(max(n, 0), len(x))):
        e = x[f] + 1
        most[at + k, f] = max(most[at + k, f], e)
    sums[1, 1] += p[1]


@case(ERROR, n=2, p=P, k=FAR)
def rows_of_a_result_in_a_loop_with_iterations(x, n: int, p, k: int, sums: (5, "d")):
    for f in range(min(max(n, 0), len(x))):
        sums[int(x[0]) + k, f] += x[f]
    sums[1, 1] += p[1]
