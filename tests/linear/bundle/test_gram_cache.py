"""Products of cuts that are updated, compared with products formed anew."""

import numpy as np
import pytest

from bmrm.linear.bundle import gram_cache
from bmrm.linear.bundle._qp import gram
from bmrm.linear.bundle.gram_cache import GramCache


@pytest.fixture
def formed(monkeypatch):
    """Keep products of any size; count how often they are formed anew."""
    monkeypatch.setattr(gram_cache, "MIN_CACHED_OPERATIONS", 0)
    counts, form = [], GramCache._form
    monkeypatch.setattr(GramCache, "_form", lambda *a: (counts.append(1), form(*a))[1])
    return counts


def check(kept, cuts, serials, weights, rel=1e-13):
    n = len(cuts)
    found = kept.update(cuts, serials, weights, 1)[:n, :n]
    scaled = cuts * np.sqrt(weights)
    wanted = gram(scaled, scaled)
    size = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted))).max()
    np.testing.assert_allclose(found, wanted, atol=rel * size)


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 0.5, 1.0, 3.0]])
@pytest.mark.parametrize("seed", range(3))
def test_features_begin_and_cease_to_move_while_cuts_come_and_go(formed, seed, values):
    rng = np.random.default_rng(seed)
    d, kept, steps = 200, GramCache(), 60
    cuts, serials, made = rng.normal(size=(3, d)), np.arange(3), 3
    weights = rng.choice(values, d)
    for _ in range(steps):
        weights = np.where(rng.random(d) < 0.03, rng.choice(values, d), weights)
        if rng.random() < 0.3:
            stay = rng.random(len(cuts)) < 0.9
            cuts, serials = cuts[stay], serials[stay]
        if len(cuts) > 4 and rng.random() < 0.3:  # two are merged: a new one is in the middle
            cuts[1] = 0.5 * (cuts[1] + cuts[3])
            serials = serials.copy()
            serials[1], made = made, made + 1
            cuts, serials = np.delete(cuts, 3, axis=0), np.delete(serials, 3)
        new = int(rng.integers(1, 3))
        cuts = np.concatenate([cuts, rng.normal(size=(new, d))])
        serials, made = np.concatenate([serials, made + np.arange(new)]), made + new
        check(kept, cuts, serials, weights)
    assert len(formed) < steps // 2


def test_nothing_is_left_of_what_was_removed(formed):
    rng = np.random.default_rng(0)
    d, kept, serials = 400, GramCache(), np.arange(5)
    cuts = rng.normal(size=(5, d))
    cuts[:, :300] *= 1e7
    weights = np.ones(d)
    check(kept, cuts, serials, weights)
    # The last features removed carry almost everything: only small numbers stay.
    for first in range(0, 300, 20):
        weights = weights.copy()
        weights[first : first + 20] = 0.0
        check(kept, cuts, serials, weights)
    assert len(formed) > 1


def test_the_order_of_cuts_may_change(formed):
    rng = np.random.default_rng(1)
    cuts, serials, weights, kept = rng.normal(size=(12, 50)), np.arange(12), np.ones(50), GramCache()
    check(kept, cuts, serials, weights)
    order = rng.permutation(12)
    check(kept, cuts[order], serials[order], weights)
    check(kept, cuts[order[:9]], serials[order[:9]], weights)
    assert len(formed) == 1


def test_few_products_are_not_worth_keeping(monkeypatch):
    rng = np.random.default_rng(2)
    cuts, kept = rng.normal(size=(6, 30)), GramCache()
    monkeypatch.setattr(GramCache, "_change", lambda *a: pytest.fail("changed"))
    for _ in range(3):
        check(kept, cuts, np.arange(6), (rng.random(30) < 0.8).astype(float))
