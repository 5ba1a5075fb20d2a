"""How many cuts a pass gives where nobody says."""

import numpy as np
import pytest

import bmrm
from bmrm.cuts_per_pass import blocks_of
from bmrm.losses import get


class Shape:
    """What the choice asks of a matrix."""

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
def test_blocks_are_short_where_rows_are_few(shape, wanted):
    assert auto(*shape) == wanted


def test_narrow_data_take_newton_steps_and_fewer_cuts():
    assert auto(1000, 24, 24_000, newton=True) == 16


@pytest.mark.parametrize(
    "change", [{"loss": "squared_hinge"}, {"several_pay": False}, {"profile": True}, {"loss": "roc_area"}]
)
def test_one_cut_where_more_do_not_pay_or_cannot_be(change):
    assert auto(1000, 2500, 2_500_000, **change) == 1


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
