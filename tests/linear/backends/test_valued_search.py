"""Searches that evaluate no point twice, compared with searches by slopes alone."""

import numpy as np
import pytest

import bmrm
from bmrm import losses
from bmrm.linear.backends.host.joint_line_search import JointLineSearch
from bmrm.linear.backends.host.passes import HostPasses, search_on_slopes
from bmrm.linear.objective.passes import LineSearchProblem
from bmrm.linear.regularizers.separable import StraightLine
from bmrm.losses.joint import LineRisk


class Margins:
    """An operator of which only the shape is used."""

    def __init__(self, rows):
        self.shape = rows, 1


def ray(z, end, first=1.0):
    return LineSearchProblem(z, end.copy(), None, None, StraightLine(0.01, 0.02), first, 1e-6, 0.0, 0.0)


@pytest.fixture
def counted(monkeypatch):
    calls = []
    evaluate = LineRisk.evaluate

    def counting(self, z, dz, t, derivatives):
        calls.append(t)
        return evaluate(self, z, dz, t, derivatives)

    monkeypatch.setattr(LineRisk, "evaluate", counting)
    return calls


@pytest.mark.parametrize("name", ["roc_area", "ordinal", "f_beta"])
@pytest.mark.parametrize("first", [0.01, 1.0, 30.0])
def test_the_search_on_slopes_finds_the_same(name, first, counted):
    rng = np.random.default_rng(0)
    m = 300
    y = rng.choice([-1.0, 1.0], m) if name != "ordinal" else rng.integers(0, 3, m).astype(float)
    risk = losses.get(name).risk(y, None, 1.0, 1)
    steps = HostPasses(Margins(m), risk)
    search = JointLineSearch(steps, risk)
    z = 0.1 * rng.normal(size=m)
    for turn in range(4):
        end = z + 0.3 * y + 0.1 * rng.normal(size=m)
        wanted = search_on_slopes(steps, ray(z, end, first=first))[1]
        del counted[:]
        dz, found = search(ray(z, end, first=first))
        np.testing.assert_array_equal(dz, end - z)
        assert (found.step, found.risk) == (wanted.step, wanted.risk)
        np.testing.assert_array_equal(found.margins, wanted.margins)
        assert len(set(counted)) == len(counted)
        assert (0.0 in counted) == (turn == 0)
        z = found.margins


def test_a_search_from_elsewhere_begins_anew(counted):
    rng = np.random.default_rng(1)
    m = 100
    y = rng.choice([-1.0, 1.0], m)
    risk = losses.get("roc_area").risk(y, None, 1.0, 1)
    search = JointLineSearch(HostPasses(Margins(m), risk), risk)
    search(ray(np.zeros(m), y + rng.normal(size=m)))
    del counted[:]
    z = rng.normal(size=m)
    found = search(ray(z, y + rng.normal(size=m)))[1]
    assert counted[0] == 0.0
    assert found.risk == pytest.approx(losses.get("roc_area").evaluate(found.margins, y)[0])


def test_no_step_leaves_the_margins_as_they_are(counted):
    rng = np.random.default_rng(2)
    m = 100
    y = rng.choice([-1.0, 1.0], m)
    risk = losses.get("roc_area").risk(y, None, 1.0, 1)
    search = JointLineSearch(HostPasses(Margins(m), risk), risk)
    z = 3.0 * y
    found = search(ray(z, -y))[1]
    assert found.step == 0.0
    assert found.margins is z
    del counted[:]
    assert search(ray(z, -2.0 * y))[1].margins is z
    assert counted == []


@pytest.mark.parametrize("name", ["roc_area", "pairwise", "ordinal"])
def test_a_solve_evaluates_each_point_of_a_line_once(name, monkeypatch):
    seen = []
    evaluate = LineRisk.evaluate

    def counting(self, z, dz, t, derivatives):
        seen.append((z + t * dz).tobytes())
        return evaluate(self, z, dz, t, derivatives)

    monkeypatch.setattr(LineRisk, "evaluate", counting)
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, 5)), rng.integers(0, 2, 200).astype(float)
    groups = np.zeros(200, int) if name == "pairwise" else None
    result = bmrm.solve(X, y, name, lam=1e-3, tol=1e-4, groups=groups)
    assert result.status == "converged"
    assert len(set(seen)) == len(seen) > result.n_iter
