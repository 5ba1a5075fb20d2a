"""The number of cuts per pass if none is given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bmrm
from bmrm.errors import ParameterError
from bmrm.linear.bundle.cuts_per_pass import blocks_of
from bmrm.linear.objective.blocks import block_starts, group_borders, runs
from bmrm.losses import get


class Shape:
    """What the choice needs to know about a matrix."""

    weighted_gram_work = np.inf

    def __init__(self, rows, columns, nnz):
        self.shape, self.nnz = (rows, columns), nnz


def auto(rows, columns, nnz, *, loss="hinge", **change):
    given = {"several_pay": True, "profile": False, "newton": False, **change}
    return blocks_of("auto", Shape(rows, columns, nnz), get(loss), rows, **given)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((1000, 2500, 2_500_000), 31),  # short blocks of 32 rows
        ((300, 2500, 750_000), 9),
        ((3000, 2500, 7_500_000), 32),  # no more than that
        ((72, 7129, 513_288), 1),  # too few for blocks of 32
        ((1605, 119, 22_000), 13),  # sqrt(nnz / d)
        ((2000, 20_000, 120_000), 1),  # too sparse
        ((57_763, 20_958, 3_000_000), 1),  # long blocks would learn nothing
        ((32_561, 123, 450_000), 8),
        ((522_911, 54, 6_900_000), 16),
    ],
)
def test_blocks_are_short_if_rows_are_few(shape, wanted):
    assert auto(*shape) == wanted


def test_narrow_data_take_newton_steps_and_fewer_cuts():
    assert auto(1000, 24, 24_000, newton=True) == 16


@pytest.mark.parametrize(
    "change", [{"loss": "squared_hinge"}, {"several_pay": False}, {"profile": True}, {"loss": "roc_area"}]
)
def test_one_cut_if_more_do_not_pay_or_are_impossible(change):
    assert auto(1000, 2500, 2_500_000, **change) == 1


@pytest.mark.parametrize(("most", "wanted"), [(2000, 16), (16, 16), (15, 1), (1, 1)])
def test_lists_of_narrow_rows_have_several_cuts(most, wanted):
    assert auto(200_000, 136, 27_200_000, loss="ndcg", most=most) == wanted
    assert auto(200_000, 47_000, 15_000_000, loss="ndcg", most=most) == 1
    assert auto(200_000, 136, 27_200_000, loss="pairwise", most=most) == 1


@given(st.data())
def test_blocks_begin_at_borders(data):
    rows = data.draw(st.integers(1, 300))
    inner = data.draw(st.sets(st.integers(1, rows - 1))) if rows > 1 else set()
    borders = np.array([0, *sorted(inner), rows])
    blocks = data.draw(st.integers(1, len(borders) - 1))
    starts = block_starts(rows, blocks, borders)
    assert len(starts) == blocks + 1
    assert (starts[0], starts[-1]) == (0, rows)
    assert (np.diff(starts) > 0).all()
    assert set(starts.tolist()) <= set(borders.tolist())
    everywhere = block_starts(rows, blocks, np.arange(rows + 1))
    assert np.abs(everywhere - block_starts(rows, blocks)).max() <= 1


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 30))
def test_blocks_may_begin_with_groups_whose_rows_are_together(groups, cut):
    """Groups of one process, or of two ranks that may share a group."""
    groups = np.array(groups, np.int64)
    m, ranks = len(groups), np.split(groups, [min(cut, len(groups))])
    parts = [runs(part) for part in ranks]
    numbers = np.concatenate([part[0] for part in parts])
    firsts = np.concatenate([parts[0][1], parts[1][1] + len(ranks[0])])
    found = group_borders(numbers, firsts, m)
    changes = 1 + np.flatnonzero(np.diff(groups))
    together = len(changes) + 1 == len(set(groups.tolist()))
    wanted = [0, *changes, m] if m and together else [0, m]
    assert found.tolist() == (wanted if m else [0])


@pytest.mark.parametrize("loss", ["ndcg", "pairwise", "lambda_ndcg", "mrr"])
@pytest.mark.parametrize("blocks", [2, 5, 9])
def test_cuts_by_group_find_the_same(loss, blocks):
    rng = np.random.default_rng(blocks)
    X, groups = rng.standard_normal((90, 4)), np.repeat(np.arange(9), [3, 20, 1, 15, 10, 1, 20, 10, 10])
    y = rng.integers(0, 4, 90).astype(float)
    weights = np.repeat(rng.random(9) * (np.arange(9) != 3), np.bincount(groups))
    options = {"lam": 1e-2, "tol": 1e-7, "groups": groups, "sample_weight": weights}
    whole = bmrm.solve(X, y, loss, **options)
    parts = bmrm.solve(X, y, loss, cuts_per_pass=blocks, **options)
    assert (whole.bundle.groups, parts.bundle.groups) == (1, blocks)
    assert parts.status == "converged"
    assert parts.objective == pytest.approx(whole.objective, rel=3e-7)
    # Each cut is below its block's part of the risk.
    risk = get(loss).grouped(groups).risk(y, weights, 1.0, 1)
    borders = group_borders(*runs(groups), 90)
    starts, r = block_starts(90, blocks, borders), np.empty(90)
    values, slopes = risk.cut(X @ parts.w, X @ parts.w, 0.0, 0.0, starts, r)
    assert values.sum() == pytest.approx(get(loss).grouped(groups).evaluate(X @ parts.w, y, weights)[0])
    np.testing.assert_allclose(slopes, np.add.reduceat(r, starts[:-1]), atol=1e-12)
    for _ in range(10):
        other = X @ rng.standard_normal(4)
        above, _ = risk.cut(other, other, 0.0, 0.0, starts, np.empty(90))
        assert (above >= values + np.add.reduceat(r * (other - X @ parts.w), starts[:-1]) - 1e-12).all()


def test_more_cuts_than_groups_or_of_groups_apart_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 2)), np.arange(12) % 3.0
    with pytest.raises(ParameterError, match="found 4, expected auto or a number from 1 to 3"):
        bmrm.solve(X, y, "ndcg", lam=0.1, groups=np.repeat([0, 1, 2], 4), cuts_per_pass=4)
    with pytest.raises(ParameterError, match="groups of consecutive rows"):
        bmrm.solve(X, y, "ndcg", lam=0.1, groups=np.tile([0, 1], 6), cuts_per_pass=2)
    with pytest.raises(ParameterError, match="not a sum over rows"):
        bmrm.solve(X, np.sign(y - 0.5), "roc_area", lam=0.1, cuts_per_pass=2)


@pytest.mark.parametrize(("max_cuts", "wanted"), [(3, 1), (100, 6), (10_000, 31)])
def test_there_is_room_for_cuts_of_each_block(max_cuts, wanted):
    assert auto(1000, 2500, 2_500_000, max_cuts=max_cuts) == wanted


def test_short_blocks_separate_rows_in_few_passes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 400))
    y = np.where(X @ rng.standard_normal(400) > 0.0, 1.0, -1.0)
    found = bmrm.solve(X, y, lam=1e-3, device="cpu")
    single = bmrm.solve(X, y, lam=1e-3, device="cpu", cuts_per_pass=1)
    assert found.status == single.status == "converged"
    assert found.objective == pytest.approx(single.objective, rel=2e-3)
    assert found.n_iter < single.n_iter / 3
