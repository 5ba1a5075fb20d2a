# ruff: noqa: B007, F821, F841 (annotations name sizes; results and counters are not read)
"""What loops become, on a GPU and a CPU, and which sizes are read at run time."""

import numpy as np
import pytest

from benchmarks.reductions.programs import kmeans_step
from bmrm.distributed.reading import read_rows
from bmrm.formulas.analysis.schedule import (
    BestOfGroups,
    Butterfly,
    ColumnLanes,
    Diverging,
    Ranked,
    Uniform,
    VectorColumns,
    explain_loops,
    schedule_cpu,
    schedule_gpu,
)
from bmrm.formulas.language.tree import For, While, statements
from bmrm.reductions import inf, local, reduction


@reduction
def nearest(x, w, centers: ("k", "d"), sums: ("k", "d"), counts: "k", shares: "k"):
    best, at = inf, 0
    for j in range(len(centers)):
        dist = 0.0
        for f in range(len(x)):
            dist += (x[f] - centers[j, f]) ** 2
        if dist < best:
            best, at = dist, j
    for g in range(len(x)):
        sums[at, g] += w * x[g]
    counts[at] += w
    for i in range(len(centers)):
        shares[i] = min(shares[i], centers[i, 0] * best)


@reduction
def several(x, p: "k", low: ("k", "d"), first: (), steps: int):
    at = int(x[0]) % len(p)
    for f in range(len(x)):
        v = x[f]
        low[at, f] = min(low[at, f], v * steps)
    for i in range(int(x[1]) % 5):
        first += p[0]
    total = 0.0
    for j in range(int(x[1]) % 5):
        total += p[0]
    for t in range(3):
        total += t
    first += total


def gpu(function, columns, *, dtype=np.float32, shared_bytes=96 * 1024, **words):
    call = function._binder.bind(read_rows(np.ones((10, columns), dtype)), words)
    size = np.dtype(call.real).itemsize
    return call, schedule_gpu(call.program, call.sizes, size, call.rows.sparse, shared_bytes)


def loops(program, schedule):
    found = [each for each in statements(program.body) if isinstance(each, For)]
    return {each.name.partition(".")[0]: schedule.of(each) for each in found if id(each) in schedule.loops}


def of_nearest(clusters, columns, **how):
    call, schedule = gpu(nearest, columns, w=1.0, centers=np.ones((clusters, columns), np.float32), **how)
    return loops(call.program, schedule), schedule


def test_long_loops_over_centres_have_two_rows_per_lane_and_sums_have_columns_in_lanes():
    found, schedule = of_nearest(64, 16)
    assert schedule.blocked == 3  # two assignments and the loop over the centres
    assert isinstance(found["j"], Uniform)
    assert found["j"].unroll == 2
    assert found["f"] == Uniform(0)
    assert isinstance(found["g"], ColumnLanes)
    assert found["g"].lanes == 16  # a half of the lanes has another row
    assert isinstance(found["i"], Butterfly)
    assert (found["i"].count, found["i"].unrolled) == (16, True)


def test_short_iterations_are_compared_by_groups_that_divide_them():
    found, schedule = of_nearest(44, 2)
    assert isinstance(found["j"], BestOfGroups)
    assert found["j"].best.group == 11
    assert isinstance(found["g"], Ranked)  # two columns are too few for lanes
    ranked = [loop for loop in statements(schedule.facts.program.body) if isinstance(loop, For)]
    assert set(schedule.ranked_by.values()) == {id(loop) for loop in ranked if loop.name.startswith("g")}


def test_loops_whose_iterations_depend_on_the_row_diverge():
    call, schedule = gpu(several, 4, p=np.ones(3), steps=2)
    found = loops(call.program, schedule)
    assert isinstance(found["f"], Ranked)
    assert found["i"] == Diverging(waits=True)
    assert found["j"] == Diverging(waits=False)
    assert found["t"] == Uniform(0)


@reduction
def searching(x, p: "k", sums: ("k", "d"), steps: int, found: int):
    at, low, i = 0, 0.0, 0
    while low < x[0]:
        for f in range(len(x)):
            low += p[f] * x[f]
        at += 1
    for j in range(len(p)):
        if p[j] > x[0]:
            break
        for g in range(len(x)):
            sums[j, g] += x[g]
    while i < steps:
        i += 1
        for m in range(len(p)):
            if p[m] > i:
                break
    found = at + i


def test_loops_that_rows_leave_one_by_one_diverge_and_those_in_them_count_together():
    call, schedule = gpu(searching, 9, p=np.ones(30), steps=2)
    found = loops(call.program, schedule)
    assert found["j"] == Diverging(waits=True)
    assert found["f"] == found["g"] == found["m"] == Uniform(0)
    whiles = [schedule.of(each) for each in statements(call.program.body) if isinstance(each, While)]
    assert whiles == [Diverging(waits=False), Uniform(0)]
    assert set(schedule.looking) == {"rows", "while.1", "while.5"}
    host = schedule_cpu(call.program, 8, contiguous=True)
    assert loops(call.program, host)["g"] == Uniform(0)  # no vectors of columns of rows that take no part
    assert explain_loops(call.program, schedule).startswith("while in line ")


def test_a_cpu_has_vectors_of_columns_only_for_rows_that_are_contiguous():
    program = nearest._binder.bind(
        read_rows(np.ones((10, 4))), {"w": 1.0, "centers": np.ones((3, 4))}
    ).program
    there = loops(program, schedule_cpu(program, 8, contiguous=True))
    assert there["g"] == VectorColumns()
    assert there["j"] == there["f"] == there["i"] == Uniform(0)
    for lanes, contiguous in ((8, False), (1, True)):
        apart = loops(program, schedule_cpu(program, lanes, contiguous=contiguous))
        assert apart["g"] == Uniform(0)


def test_a_size_is_read_at_run_time_unless_something_is_unrolled_by_it():
    for clusters, columns, expected in ((64, 16, set()), (100, 16, {"k"}), (2, 16, set()), (100, 100, {"k"})):
        _, schedule = of_nearest(clusters, columns)
        assert schedule.run_time == expected, (clusters, columns)  # up to 64 shares are unrolled


def test_a_size_of_a_local_array_or_of_a_division_is_a_constant():
    @reduction
    def with_local(x, centers: ("k", "d"), total: ()):
        own = local("k")
        for j in range(len(centers)):
            for f in range(len(x)):
                own[j] += (x[f] - centers[j, f]) ** 2 + abs(x[f])
        total += own[0]

    @reduction
    def with_division(x, centers: ("k", "d"), total: "k"):
        total[int(x[0]) % len(centers)] += 1

    @reduction
    def with_neither(x, centers: ("k", "d"), total: "k"):
        total[min(max(int(x[0]), 0), len(centers) - 1)] += 1

    found = [
        gpu(each, 16, centers=np.ones((50, 16)))[1].run_time
        for each in (with_local, with_division, with_neither)
    ]
    assert found == [set(), set(), {"k"}]


def test_places_in_shared_memory_are_multiples_of_16_bytes_if_that_fits():
    k, room = 5, 8 * 8 * (5 * 3 + 5 + 5)
    for more, unit, warps in ((0, 1, 8), (8 * 8 * 3, 2, 8), (-1, 2, 4)):
        memory = of_nearest(k, 3, shared_bytes=room + more)[1].memory
        assert (memory.unit, memory.warps, memory.shared_results) == (unit, warps, True)
        assert memory.slice_items == (25 if unit == 1 else 28)
    text = nearest.source("cuda", np.ones((10, 3)), w=1.0, centers=np.ones((100, 3)))
    assert "(char*)shared + 16 * table.at[" in text


@pytest.mark.parametrize(("columns", "most"), [(16, 3), (2, 21)])
def test_a_search_over_k_prints_few_texts_for_a_gpu_and_one_for_a_cpu(columns, most):
    function, X = reduction(kmeans_step.__wrapped__), np.ones((100, columns), np.float32)
    texts = {"cpu": set(), "cuda": set()}
    for clusters in range(2, 61):
        for target, found in texts.items():
            found.add(function.source(target, X, w=1.0, centers=X[:clusters]))
    assert len(texts["cpu"]) == 1
    assert len(texts["cuda"]) <= most


def test_what_loops_become_is_explained():
    X = np.ones((100, 16), np.float32)
    text = nearest.explain(X, w=1.0, centers=X[:64])
    assert "GPU loops, 2 rows per lane for the first statements: j: uniform, 2 iterations written out" in text
    assert "g: columns in 16 lanes, row by row; i: 16 targets at a time by a warp butterfly" in text
    assert "CPU loops: j: uniform; f: uniform; g: vectors of columns, row by row; i: uniform" in text
    program = nearest._binder.general
    assert explain_loops(program, schedule_cpu(program, 1, contiguous=True)).startswith("j: ")
