"""The choice of a GPU kernel: statistics, sliced format, prediction, selection. No device is needed."""

import functools
import importlib
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmrm.base.distinct import distinct_values
from bmrm.errors import ParameterError

cuda = pytest.importorskip("bmrm.matrix._cuda", reason="the package was built without CUDA")
sliced_format = importlib.import_module("sliced_format")
Plan = cuda.Plan

H200 = {
    "id": 0, "name": "H200", "major": 9, "minor": 0, "multiprocessors": 132, "shared_per_block": 232_448,
    "shared_per_multiprocessor": 233_472, "l2_bytes": 60 << 20, "total_bytes": 140 << 30,
    "free_bytes": 139 << 30,
}  # fmt: skip
T4 = H200 | {
    "name": "T4", "major": 7, "minor": 5, "multiprocessors": 40, "shared_per_block": 65_536,
    "shared_per_multiprocessor": 65_536, "l2_bytes": 4 << 20, "total_bytes": 15 << 30, "free_bytes": 15 << 30,
}  # fmt: skip
CONSTANTS = {
    "launch": 2e-6, "copy": 4.2e12, "read": 4.4e12, "gather_shared": 2e12, "gather_l2": 2e11,
    "gather_memory": 5e10, "fill_shared": 5e12,
}  # fmt: skip
SLICED_PLANS = [
    *(Plan("sliced", cap=cap) for cap in (1, 8, 64)),
    *(Plan("tiled", cap=cap, tile=tile) for cap in (2, 32) for tile in (30, 255, 256, 4000)),
    *(
        Plan("hot", cap=cap, tiles=tiles, tile=tile)
        for cap in (8, 64)
        for tiles in (1, 3)
        for tile in (5, 300)
    ),
]


def csr(rows, cols, lengths, rng, power=1.0):
    """Rows of the given lengths; unsorted columns, of which the first are popular for a large power."""
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    indices = (cols * rng.random(indptr[-1]) ** power).astype(np.int32)
    return indptr, indices, rng.standard_normal(len(indices)), (rows, cols)


def distinct(rows, cols, lengths, rng, power=1.0):
    """Like `csr`, but each column at most once per row."""
    indptr, indices, _, shape = csr(rows, cols, lengths, rng, power)
    row = np.repeat(np.arange(rows), np.diff(indptr))
    row, indices = np.divmod(distinct_values(row * np.int64(cols) + indices), cols)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=rows))))
    return indptr, indices.astype(np.int32), rng.standard_normal(len(indices)), shape


@st.composite
def matrices(draw):
    rows, cols = draw(st.integers(1, 60)), draw(st.sampled_from([1, 2, 7, 100, 5000]))
    lengths = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 17, 70, 300]), min_size=rows, max_size=rows))
    return csr(
        rows, cols, lengths, np.random.default_rng(draw(st.integers(0, 99))), draw(st.sampled_from([1, 4]))
    )


def statistics(X, **keywords):
    return cuda.statistics(X[0], X[1], X[3], **keywords)


@given(matrices())
@settings(deadline=None, max_examples=60)
def test_statistics_are_correct(X):
    indptr, indices, _, (rows, cols) = X
    found, lengths = statistics(X), np.diff(indptr)
    row = np.repeat(np.arange(rows), lengths)
    assert (found["nnz"], found["empty_rows"]) == (len(indices), (lengths == 0).sum())
    assert found["longest"] == lengths.max()
    assert found["length_rows"][:65] == np.bincount(lengths, minlength=65)[:65].tolist()
    assert sum(found["length_rows"]) == rows
    assert sum(found["length_nnz"]) == len(indices)
    for k, count in enumerate(found["fragments"]):
        assert count == len(distinct_values(row * np.int64(1 << 32) + (indices >> (k + 3))))
    popular = np.cumsum(np.sort(np.bincount(indices, minlength=cols))[::-1])
    assert found["top_nnz"] == [popular[min(1 << k, cols) - 1] for k in range(32)]
    cells = distinct_values(row * np.int64(1 << 32) + indices)
    assert found["repeated"] == (len(cells) < len(indices))


@pytest.mark.parametrize(("length", "bins"), [(64, 64), (65, 65), (79, 65), (80, 66), (127, 68), (128, 69)])
def test_bins_of_lengths_are_four_to_an_octave(length, bins):
    found = cuda.statistics([0, length], np.zeros(length, np.int32), (1, 1))
    assert np.flatnonzero(found["length_rows"]).tolist() == [bins]


@pytest.mark.parametrize("plan", SLICED_PLANS, ids=lambda plan: "-".join(str(part) for part in plan if part))
@given(matrices())
@settings(deadline=None, max_examples=15)
def test_the_sliced_format_holds_the_matrix_and_multiplies_by_it(plan, X):
    indptr, indices, data, shape = X
    found = sliced_format.build(*X, plan)
    row = np.repeat(np.arange(shape[0]), np.diff(indptr))
    order = np.lexsort((indices, row))
    held = sorted(found["entries"])
    assert held == sorted(zip(row[order], indices[order], data[order], strict=True))
    x = np.random.default_rng(0).standard_normal(shape[1])
    expected = np.bincount(row, data * x[indices], shape[0])
    np.testing.assert_allclose(sliced_format.product(*X, plan, x), expected, rtol=1e-10, atol=1e-10)


def parts(found):
    """Items of a format as columns: offset, width, log2 of threads, slices, first destination."""
    offset, shape, slices, dest = found["items"].astype(np.int64).T
    return offset, shape & 0xFFFF, shape >> 16, slices, dest


@pytest.mark.parametrize("plan", SLICED_PLANS, ids=lambda plan: "-".join(str(part) for part in plan if part))
def test_the_sliced_format_has_the_documented_layout(plan):
    rng = np.random.default_rng(1)
    X = distinct(300, 5000, rng.choice([0, 1, 4, 9, 40, 700], 300), rng, power=3)
    found = sliced_format.build(*X, plan)
    offset, width, log2, slices, dest = parts(found)
    # Items lie one after the other, and so do their destinations.
    assert (offset == np.concatenate(([0], np.cumsum(slices * width)))[:-1]).all()
    assert (dest == np.concatenate(([0], np.cumsum(slices * (32 >> log2))))[:-1]).all()
    assert len(found["values"]) == 32 * (slices * width).sum() == len(found["index"])
    assert width.max() <= plan.cap
    assert log2.max() <= 5
    assert ((slices * width <= plan.cap) | (slices == 1)).all()
    # Each destination is written once: the rows, or as many slots as there are chunks.
    places = found["dest"][found["dest"] != 0xFFFFFFFF]
    assert sorted(places) == list(range(X[3][0] if found["direct"] else found["row_slot"][-1]))
    tiles = found["shared"] + found["gathered"]
    assert len(found["tile_item"]) == tiles + 1
    assert found["tile_item"][-1] == len(offset)
    local = found["index"][: found["shared_elements"]]
    assert local.max(initial=0) <= found["tile"]
    assert found["tile"] < 256 ** found["index_bytes"] or not found["shared"]
    counts = np.bincount(X[1], minlength=5000)[found["order"]]
    assert (
        found["order"].tolist() == list(range(5000)) if plan.kernel != "hot" else (np.diff(counts) <= 0).all()
    )


def test_rows_too_long_for_one_chunk_are_summed_from_slots():
    X = csr(2, 50, [300, 2], np.random.default_rng(0))
    found = sliced_format.build(*X, Plan("sliced", cap=4))
    assert not found["direct"]
    assert found["row_slot"].tolist() == [0, 3, 4]  # 300 nonzeros are three chunks of at most 32 x 4


@given(
    runs=st.lists(st.tuples(st.integers(1, 300), st.integers(0, 3), st.floats(0.1, 100)), max_size=30),
    gathered=st.booleans(),
    fill=st.floats(0, 2000),
    blocks=st.integers(1, 40),
)
def test_shares_of_blocks_are_runs_of_similar_cost(runs, gathered, fill, blocks):
    runs = sorted(runs, key=lambda run: run[1])
    tiles = max((tile for _, tile, _ in runs), default=0) + (0 if gathered else 1)
    tile_of = [tile for items, tile, _ in runs for _ in range(items)]
    cost_of = [cost for items, _, cost in runs for _ in range(items)]
    shares = sliced_format.share_out(runs, tiles, fill, blocks)
    assert len(shares) == blocks
    at = most = 0
    for begin, end, of_tile, tile in shares:
        assert begin == at <= of_tile <= end
        at = end
        if begin == end:
            continue
        own = tile_of[begin:end]
        assert own[0] == tile
        assert of_tile - begin == own.count(tile)
        most = max(most, sum(cost_of[begin:end]) + fill * sum(t < tiles for t in set(own)))
    assert at == len(tile_of)
    if runs:  # no more than what deals them out for certain
        largest = max(cost_of)
        assert most <= (sum(cost_of) + fill * (blocks + tiles)) / blocks + fill + 2 * largest + 1e-6


def test_shares_end_with_tiles_if_starting_another_costs_more():
    seven = [(100, tile, 1.0) for tile in range(7)]
    for blocks in (14, 16):
        shares = [share for share in sliced_format.share_out(seven, 7, 50.0, blocks) if share[0] < share[1]]
        assert len(shares) == 14
        assert all(begin // 100 == (end - 1) // 100 == tile for begin, end, _, tile in shares)
    equal = sliced_format.share_out(seven, 7, 0.0, 16)
    assert max(end - begin for begin, end, _, _ in equal) == 44


@pytest.mark.parametrize(
    "plan",
    [Plan("tiled", cap=8), Plan("hot", cap=8, tiles=1), Plan("sliced"), Plan("sliced", cap=5000),
     Plan("tiled", cap=8, tile=1), Plan("tiled", cap=8, tile=70_000), Plan("hot", cap=8, tiles=-3, tile=9)],
)  # fmt: skip
def test_plans_that_the_format_cannot_hold_are_refused(plan):
    X = csr(2, 100_000, [3, 2], np.random.default_rng(0))
    with pytest.raises(ValueError, match="plan: tile or cap out of range"):
        sliced_format.build(*X, plan)
    assert cuda.predict(H200, CONSTANTS, statistics(X), plan) == math.inf


def counted(found):
    """Compute from the format itself what `prediction` predicts."""
    slots = np.diff(found["row_slot"])
    return {
        "elements": len(found["values"]),
        "items": len(found["items"]),
        "chunks": len(found["dest"]),
        "partials": 0 if found["direct"] else int(slots[slots > 1].sum()),  # rows of one chunk have none
    }


@pytest.mark.parametrize("cap", [8, 16, 32, 64])
@pytest.mark.parametrize("lengths", [[0, 1, 3], [7, 8, 9, 64], [20], [0, 33, 63]])
def test_the_format_without_tiles_is_predicted_exactly(cap, lengths):
    rng = np.random.default_rng(2)
    X = csr(3000, 4000, rng.choice(lengths, 3000), rng)
    plan = Plan("sliced", cap=cap)
    found = counted(sliced_format.build(*X, plan))
    predicted = cuda.prediction(H200, CONSTANTS, statistics(X), plan)
    assert {name: predicted[name] for name in found} == pytest.approx(found)
    stored = 8 * found["elements"] + 4 * found["chunks"] + 16 * found["items"]
    assert predicted["bytes"] == pytest.approx(stored)


@functools.cache
def long_and_short_rows(power):
    rng = np.random.default_rng(3)
    lengths = np.clip(12 * (1 + rng.pareto(1.8, 20_000)), 1, 1500).astype(int)
    X = distinct(20_000, 6000, lengths, rng, power)
    return X, statistics(X)


@pytest.mark.parametrize("power", [1, 3])
@pytest.mark.parametrize(
    "plan",
    [Plan("sliced", cap=32), Plan("tiled", cap=8, tile=2000), Plan("tiled", cap=32, tile=600),
     Plan("hot", cap=16, tiles=2, tile=800)],
)  # fmt: skip
def test_the_format_with_tiles_is_predicted_closely(plan, power):
    X, stats = long_and_short_rows(power)
    found = counted(sliced_format.build(*X, plan))
    predicted = cuda.prediction(H200, CONSTANTS, stats, plan)
    assert {name: predicted[name] for name in found} == pytest.approx(found, rel=0.25, abs=4)


@pytest.mark.parametrize("device", [H200, T4], ids=["H200", "T4"])
@pytest.mark.parametrize("vector_bytes", [4, 8])
@pytest.mark.parametrize(("value_bytes", "table"), [(4, 0), (1, 256)])
@pytest.mark.parametrize("cols", [1, 255, 256, 20_000, 300_000])
def test_candidates_fit_the_device(device, vector_bytes, value_bytes, table, cols):
    X = csr(2000, cols, np.full(2000, 9), np.random.default_rng(4), power=4)
    stats = statistics(X, value_bytes=value_bytes, vector_bytes=vector_bytes)
    plans = cuda.candidates(device, stats)
    assert {"subwarp", "split", "sliced"} <= {plan.kernel for plan in plans}
    assert len(set(plans)) == len(plans) <= 40
    for plan in plans:
        if plan.kernel in ("tiled", "hot"):
            assert (plan.tile + 1 + table) * vector_bytes <= device["shared_per_block"]
        if plan.kernel == "hot":
            assert plan.tiles * plan.tile < cols
        assert 0 < cuda.predict(device, CONSTANTS, stats, plan) < 1


def test_tiles_leave_room_for_loads_in_flight():
    X = csr(20_000, 300_000, np.full(20_000, 40), np.random.default_rng(4))
    plans = cuda.candidates(H200, statistics(X))
    tiles = {plan.tile for plan in plans if plan.kernel == "tiled"}
    wide, narrow = 50_016, 42_880  # all of the 227 KiB that there are, and one step less
    assert {wide, narrow} <= tiles
    assert all(4 * tile % 128 == 0 for tile in tiles)  # lines of the cache
    assert (wide + 1) * 4 > 196 * 1024 - 1024 >= (narrow + 1) * 4
    (binned,) = (plan for plan in plans if plan.kernel == "binned")
    assert 2 * ((binned.tile // 2 + 1) * 4 + 1024) <= 164 * 1024  # two regions, two steps less
    assert binned.tile % 512 == 0
    assert cuda.predict(H200, CONSTANTS, statistics(X), Plan("tiled", cap=16, tile=wide)) > cuda.predict(
        H200, CONSTANTS, statistics(X), Plan("tiled", cap=16, tile=narrow)
    )


def test_small_matrices_have_small_tiles_among_their_candidates():
    rng = np.random.default_rng(6)
    for nnz, small in ((600_000, True), (1_200_000, False)):
        X = csr(300, 45_000, np.full(300, nnz // 300), rng)
        plans = cuda.candidates(H200, statistics(X))
        assert (5632 in {plan.tile for plan in plans if plan.kernel == "tiled"}) == small  # an eighth


def test_a_prediction_considers_what_may_start_early():
    few, many = (csr(rows, 50, np.full(rows, 4), np.random.default_rng(7)) for rows in (2000, 400_000))
    old = H200 | {"major": 8}
    for X, spared in ((few, True), (many, False)):
        now, before = (
            cuda.predict(d, CONSTANTS, statistics(X), Plan("subwarp", lanes=4)) for d in (H200, old)
        )
        assert (now < before) == spared
    for plan in (Plan("tiled", cap=16, tile=50), Plan("sliced", cap=16)):
        now, before = (cuda.predict(d, CONSTANTS, statistics(many), plan) for d in (H200, old))
        assert now < before


def test_narrow_needs_narrow_matrices_without_repeated_entries():
    rng = np.random.default_rng(5)
    narrow = distinct(5000, 54, np.full(5000, 12), rng)
    assert Plan("narrow", cap=54, tile=54) in cuda.candidates(H200, statistics(narrow))
    repeated = csr(5000, 54, np.full(5000, 50), rng)
    wide = distinct(5000, 900, np.full(5000, 12), rng)
    for X in (repeated, wide):
        assert "narrow" not in {plan.kernel for plan in cuda.candidates(H200, statistics(X))}


@given(matrices(), st.sampled_from([0, 1, 4, 8]))
@settings(deadline=None, max_examples=40)
def test_every_candidate_has_a_finite_prediction(X, value_bytes):
    stats = statistics(X, value_bytes=value_bytes, vector_bytes=8 if value_bytes == 8 else 4)
    for plan in cuda.candidates(T4, stats):
        seconds = cuda.predict(T4, CONSTANTS, stats, plan)
        assert CONSTANTS["launch"] < seconds < 1e-2, plan


def test_more_of_everything_costs_more():
    rng = np.random.default_rng(6)
    small, large = (csr(rows, 30_000, np.full(rows, 40), rng) for rows in (20_000, 80_000))
    both = [statistics(X) for X in (small, large)]
    for plan in cuda.candidates(H200, both[0]):
        seconds = [cuda.predict(H200, CONSTANTS, stats, plan) for stats in both]
        assert seconds[0] < seconds[1], plan
    # Values that are not stored are not read.
    plan = Plan("tiled", cap=32, tile=30_000)
    ones, floats = (statistics(large, value_bytes=b) for b in (0, 4))
    assert cuda.predict(H200, CONSTANTS, ones, plan) < cuda.predict(H200, CONSTANTS, floats, plan)


def test_long_rows_are_not_given_to_a_few_threads():
    rng = np.random.default_rng(7)
    X = csr(1000, 50_000, [400_000, *[10] * 999], rng)
    stats = statistics(X)
    plans = cuda.candidates(H200, stats)
    best = min(plans, key=lambda plan: cuda.predict(H200, CONSTANTS, stats, plan))
    assert best.kernel != "subwarp"


def tried(stats, predicted):
    return cuda.worth_timing(CONSTANTS, stats, cuda.candidates(H200, stats)[: len(predicted)], predicted)


def test_the_best_predictions_are_tried_in_order():
    stats = statistics(csr(1000, 500, np.full(1000, 4), np.random.default_rng(8)))
    assert tried(stats, [5e-6, 1e-6, 1.2e-6, 9e-6, 1.1e-6]) == [1, 4, 2]
    assert tried(stats, [3e-6]) == [0]
    assert tried(stats, []) == []


def tuning(name):
    """A constant of src_cuda/formats/tuning.h."""
    text = (Path(__file__).parents[2] / "src_cuda" / "formats" / "tuning.h").read_text()
    return float(re.search(rf"constexpr \w+ {name} =\s*([\d.e-]+);", text)[1])


@given(matrices(), st.sampled_from([0.2, 1, 1.7, 4]))
@settings(deadline=None, max_examples=60)
def test_trials_stay_within_the_budget_of_products(X, spread):
    stats = statistics(X)
    plans = cuda.candidates(H200, stats)
    seconds = [1e-6 * (1 + spread * i / len(plans)) for i in range(len(plans))]
    chosen = cuda.worth_timing(CONSTANTS, stats, plans, seconds)
    assert seconds[chosen[0]] == min(seconds)
    assert (1 + 2 * tuning("kTimedProducts")) * len(chosen) <= tuning("kTuningBudget") == 50
    kernels = [plans[i].kernel for i in chosen]
    assert all(kernels.count(kernel) <= 3 for kernel in kernels)


def test_few_long_builds_are_tried():
    X = csr(200, 5000, np.full(200, 20), np.random.default_rng(9))
    stats = statistics(X)
    large = stats | {"nnz": 1_000_000_000}
    plans = cuda.candidates(H200, stats)
    chosen = cuda.worth_timing(CONSTANTS, large, plans, [1e-3] * len(plans))
    built = [plans[i].kernel for i in chosen if plans[i].kernel not in ("subwarp", "split")]
    assert chosen
    assert not built[1:]


def test_a_product_takes_as_long_as_its_longest_row():
    rng = np.random.default_rng(11)
    even, uneven = (csr(4000, 4000, lengths, rng) for lengths in (np.full(4000, 10), [36_010, *[1] * 3999]))
    plan = Plan("subwarp", lanes=2)
    alike, long = (cuda.predict(H200, CONSTANTS, statistics(X), plan) for X in (even, uneven))
    assert long > 100 * alike


def test_few_rows_among_empty_ones_keep_a_share_of_split_busy():
    rng = np.random.default_rng(12)
    dense, empty = (csr(rows, 4000, [2000] * 20 + [0] * (rows - 20), rng) for rows in (20, 100_000))
    close, apart = (cuda.predict(H200, CONSTANTS, statistics(X), Plan("split")) for X in (dense, empty))
    assert apart > 3 * close


def test_inputs_that_fit_the_l1_cache_cost_no_gathers():
    rng = np.random.default_rng(13)
    lengths = np.full(100_000, 16)
    near, far = (csr(100_000, cols, lengths, rng) for cols in (20_000, 2_000_000))
    plan = Plan("subwarp", lanes=8)
    seconds = [cuda.predict(H200, CONSTANTS, statistics(X), plan) for X in (near, far)]
    assert seconds[1] > 1.5 * seconds[0]


def test_lists_of_different_lengths_are_refused():
    stats = statistics(csr(10, 5, np.full(10, 2), np.random.default_rng(0)))
    with pytest.raises(ValueError, match="predicted: found 2 numbers, expected 1"):
        cuda.worth_timing(CONSTANTS, stats, [Plan("split")], [1.0, 2.0])


@pytest.fixture
def choice_gpu(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return importlib.import_module("benchmarks.gpu.choice_gpu")


def recorded(choice_gpu, slower):
    """A row of results in which plan number `slower` took twice as long as predicted."""
    stats = statistics(csr(5000, 3000, np.full(5000, 20), np.random.default_rng(10)))
    plans = cuda.candidates(H200, stats)
    predicted = [cuda.predict(H200, CONSTANTS, stats, plan) for plan in plans]
    measured = [(2 if i == slower else 1) * seconds for i, seconds in enumerate(predicted)]
    return {
        "matrix": f"mtx/{slower}", "values": "float32", "op": "normal", "statistics": stats, "plans": plans,
        "predicted": predicted, "trial": measured, "measured": measured, "cold": [], "tuning_seconds": 2e-3,
        "tried": cuda.worth_timing(CONSTANTS, stats, plans, predicted),
    }  # fmt: skip


def test_long_rows_are_offered_tiles_of_their_own():
    """X' r of one-hot features, of which a few are popular and inputs are many."""
    rng = np.random.default_rng(0)
    features, examples = 200_000, 400_000
    lengths = (
        np.maximum(1, 1.2e6 / np.arange(1, features + 1) ** 1.05).astype(np.int64).clip(1, examples // 2)
    )
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    indices = rng.integers(0, examples, indptr[-1]).astype(np.int32)
    stats = cuda.statistics(indptr, indices, (features, examples), value_bytes=0, vector_bytes=8)
    plans = [plan for plan in cuda.candidates(H200, stats) if plan.kernel == "mixed"]
    assert plans
    seconds = {plan: cuda.predict(H200, CONSTANTS, stats, plan) for plan in cuda.candidates(H200, stats)}
    assert all(1e-6 < seconds[plan] < 1e-2 for plan in plans)
    # What gathers all inputs takes longer.
    gathered = min(value for plan, value in seconds.items() if plan.kernel in ("sliced", "split", "subwarp"))
    assert min(seconds[plan] for plan in plans) < gathered
    alike = cuda.statistics(
        np.arange(0, 8_000_001, 40), rng.integers(0, examples, 8_000_000).astype(np.int32),
        (200_000, examples), value_bytes=0, vector_bytes=8,
    )  # fmt: skip
    assert not [plan for plan in cuda.candidates(H200, alike) if plan.kernel == "mixed"]


def test_the_benchmark_reports_the_loss_of_a_wrong_prediction(choice_gpu, capsys):
    row = recorded(choice_gpu, None)
    best, second = row["tried"][:2]
    wrong = recorded(choice_gpu, best)
    summary = choice_gpu.summarise([row, wrong], verbose=True)
    figures = summary["figures"]
    expected = wrong["measured"][best] / wrong["measured"][second] - 1
    assert figures["predicted worst"] == pytest.approx(expected)
    assert figures["predicted mean"] == pytest.approx(expected / 2)
    assert figures["tuned worst"] == 0
    assert figures["tuning products"] == 7 * len(row["tried"]) <= 50
    assert [group["group"] for group in summary["groups"]] == ["published"]
    assert {kernel["kernel"] for kernel in summary["kernels"]} == {plan.kernel for plan in row["plans"]}
    assert "FAIL" in capsys.readouterr().out


def test_the_benchmark_says_what_fewer_kernels_lose(choice_gpu):
    rows = [recorded(choice_gpu, None)]
    plans, seconds = rows[0]["plans"], rows[0]["measured"]
    found = choice_gpu.fewer_kernels(rows, CONSTANTS)
    least = {
        kernel: min(s for p, s in zip(plans, seconds, strict=True) if p.kernel == kernel)
        for kernel in {plan.kernel for plan in plans}
    }
    first, second = sorted(least, key=least.get)[:2]
    assert found["kept"][0]["by mean"] == {"names": first, "mean": 0, "worst": 0}
    assert [each["number"] for each in found["kept"]] == list(range(1, len(least)))
    costs = {each["kernel"]: each for each in found["without"]}
    assert [name for name, cost in costs.items() if cost["best"]["worst"] > 0] == [first]
    assert costs[first]["best"]["mean"] == pytest.approx(least[second] / least[first] - 1)
    assert "cold" not in costs[first]


def test_results_are_read_back_and_predicted_again(choice_gpu, tmp_path, monkeypatch, capsys):
    rows = [recorded(choice_gpu, 0), recorded(choice_gpu, None)]
    rows[0]["measured"][2] = None
    packed = json.loads(json.dumps([choice_gpu.packed(row) for row in rows]))
    back = [choice_gpu.unpacked(row) for row in packed]
    for row, found in zip(rows, back, strict=True):
        assert found["statistics"] == row["statistics"]
        assert found["plans"] == row["plans"]
        assert found["tried"] == row["tried"]
        for name in ("predicted", "trial", "measured", "cold"):
            numbers = [[0 if seconds is None else seconds for seconds in r[name]] for r in (found, row)]
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-3)
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"gpu": H200, "constants": CONSTANTS, "rows": packed}))
    monkeypatch.setattr("sys.argv", ["choice_gpu.py", "--refit", str(path), "--out", str(path)])
    choice_gpu.main()
    assert "2 matrices, 2 products" in capsys.readouterr().out
    assert json.loads(path.read_text())["figures"]["products"] == 2


class OnNoDevice:
    """A matrix whose products take as long as predicted; it refuses the narrow format."""

    def __init__(self, indptr, indices, data, shape, *, dtype=None, tune="best", plan=None, transpose=True):
        row = np.repeat(np.arange(shape[0]), np.diff(indptr))
        order = np.argsort(indices, kind="stable")
        ends = np.concatenate(([0], np.cumsum(np.bincount(indices, minlength=shape[1]))))
        value_bytes = 0 if data is None else data.itemsize
        sizes = {"value_bytes": value_bytes, "vector_bytes": value_bytes or np.dtype(dtype or "f4").itemsize}
        self.stats = {
            "normal": cuda.statistics(indptr, indices, shape, **sizes),
            "transposed": cuda.statistics(ends, row[order].astype(np.int32), shape[::-1], **sizes),
        }
        self.plans = (
            dict(zip(self.stats, plan, strict=True)) if isinstance(plan, tuple) and len(plan) == 2 else {}
        )
        if isinstance(plan, Plan):
            self.plans = {"normal": plan}
        self.seconds = {"best": 3e-3, "predict": 1e-3}.get(tune)
        if any(isinstance(p, Plan) and p.kernel == "narrow" for p in self.plans.values()):
            raise ParameterError("plan: X has too many columns for the narrow form")

    def report(self):
        out = {"prepare_seconds": self.seconds}
        for op, stats in self.stats.items():
            seconds = [(p, cuda.predict(H200, CONSTANTS, stats, p)) for p in cuda.candidates(H200, stats)]
            listed = [{"plan": p._asdict(), "predicted": s, "measured": s, "bytes": 0} for p, s in seconds]
            out[op] = {"statistics": stats, "candidates": listed, "chosen": 0}
        return out

    def time(self, op, *, repeats):
        return cuda.predict(H200, CONSTANTS, self.stats[op], self.plans[op])


def test_the_benchmark_measures_both_products_of_each_matrix(choice_gpu, monkeypatch, capsys):
    class Backend:
        Matrix, Plan, predict, worth_timing = OnNoDevice, Plan, cuda.predict, cuda.worth_timing

        @staticmethod
        def constants():
            return CONSTANTS

    monkeypatch.setattr(choice_gpu, "_cuda", Backend)
    named = importlib.import_module("benchmarks.gpu.choice_matrices").generated()
    wanted = next(name for name, _ in named if name.endswith(" 2000 x 300, 16 a row"))
    rows = list(choice_gpu.measure(choice_gpu.made([wanted]), 60, None))
    assert [(row["matrix"], row["op"]) for row in rows] == [(wanted, "normal"), (wanted, "transposed")]
    for row in rows:
        kernels = [plan.kernel for plan in row["plans"]]
        assert [m is None for m in row["measured"]] == [kernel == "narrow" for kernel in kernels]
        assert row["tuning_seconds"] == pytest.approx(2e-3)
        assert row["peer"] is None
    figures = choice_gpu.summarise(rows, verbose=False)["figures"]
    assert figures["predicted worst"] == 0
    assert list(choice_gpu.measure(choice_gpu.made([wanted]), -1, None)) == []
    assert f"out of time before {wanted}" in capsys.readouterr().out


def test_parts_of_the_benchmark_add_up(choice_gpu, tmp_path, monkeypatch):
    case = importlib.import_module("benchmarks.gpu.choice_matrices").Case
    monkeypatch.setattr(choice_gpu, "cases", lambda: [case(f"n{i}", "ones", dict) for i in range(7)])
    parts = [choice_gpu.made([""], choice_gpu.part(f"{number}/3")) for number in (1, 2, 3)]
    assert sorted(case.name for part in parts for case, _ in part) == [f"n{i}" for i in range(7)]
    with pytest.raises(ValueError, match=r"^$"):
        choice_gpu.part("4/3")
    path = tmp_path / "choice_gpu.json"
    row = choice_gpu.packed(recorded(choice_gpu, 0))
    path.write_text(json.dumps({"gpu": {"name": "Abacus 9"}, "rows": [row]}))
    assert choice_gpu.earlier(path, "Abacus 9")[0]["matrix"] == "mtx/0"
    with pytest.raises(SystemExit, match=r"found results of Abacus 9 in .*, expected those of Abacus 10"):
        choice_gpu.earlier(path, "Abacus 10")


def test_the_matrices_of_the_benchmark_are_many_and_as_named(choice_gpu):
    matrices = importlib.import_module("benchmarks.gpu.choice_matrices")
    listed = list(matrices.generated())
    assert len({name for name, _ in listed}) == len(listed) >= 150
    for fill in matrices.FILLS:
        row, col, shape = matrices.cells(fill, 2000, 300, 16)
        X = matrices.with_values(row, col, shape, "float32", 0)
        assert X.shape == shape == (2000, 300)
        assert X.data.dtype == np.float32
        assert 8 <= len(X.indices) / 2000 <= 24, fill
        lengths = np.diff(X.indptr)
        assert (lengths == 16).all() == (fill == "block")


def test_the_benchmark_counts_as_the_tuner_does(choice_gpu):
    assert 1 + 2 * tuning("kTimedProducts") == choice_gpu.TRIAL_PRODUCTS


def test_the_results_become_a_section_of_the_page(choice_gpu, tmp_path, monkeypatch, capsys):
    pages = importlib.import_module("benchmarks.tables.pages")
    rows = [recorded(choice_gpu, 0), recorded(choice_gpu, None)]
    stored = choice_gpu.summary_of(rows, CONSTANTS, verbose=False)
    monkeypatch.setattr(choice_gpu.report, "RESULTS", tmp_path)
    choice_gpu.report.write(tmp_path / "choice_gpu.json", choice_gpu.SECTIONS, gpu=H200, **stored)
    section = pages.page("", "choice_gpu")
    assert "| products run to choose, at most |" in section
    assert "| published | 2 |" in section


def test_the_families_of_matrices_are_as_named(choice_gpu, monkeypatch):
    matrices = importlib.import_module("benchmarks.gpu.choice_matrices")
    assert {name.split()[0] for name, _ in matrices.families()} == set(matrices.FAMILIES)
    found = matrices.with_values(*matrices.grid((5, 6), matrices.PLANE, 1), "ones", 0)
    assert (found.shape, (np.diff(found.indptr) == 5).sum()) == ((30, 30), 3 * 4)
    found = matrices.with_values(*matrices.grid((5, 6), matrices.TRIANGLES, 2), "ones", 0)
    assert (found.shape, (np.diff(found.indptr) == 14).sum()) == ((60, 60), 2 * 3 * 4)
    found = matrices.with_values(*matrices.with_full_rows(300, 4), "ones", 0)
    assert (np.diff(found.indptr) == 300).sum() == 2
    monkeypatch.delenv("BMRM_TEST_DATA", raising=False)
    assert list(matrices.published()) == []
