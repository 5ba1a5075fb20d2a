"""Checkpoints: cuts carry the bound from one run to the next, and files are not trusted."""

import json

import numpy as np
import pytest

import bmrm
from bmrm.errors import DataError, ParameterError
from bmrm.linear.backends.host.cuts import HostCuts
from bmrm.linear.bundle.bundle import Bundle
from bmrm.linear.bundle.inner_model import inner_model
from bmrm.linear.models import model_file
from bmrm.linear.models.checkpoint import Checkpoint, save
from bmrm.linear.models.model import Model
from bmrm.linear.objective.passes import CutBatch, Iterate, Subgradients
from bmrm.linear.regularizers import L2
from bmrm.linear.warm_start import problem_of

M, D = 200, 12


def problem(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((M, D))
    return X, np.where(X[:, 0] + rng.standard_normal(M) > 0, 1.0, -1.0)


def written(path, *, blocks=3, **keywords) -> bmrm.Result:
    X, y = problem()
    keywords = {"lam": 1e-3, "max_iter": 8, "cuts_per_pass": blocks, **keywords}
    result = bmrm.solve(X, y, **keywords)
    save(path, Model.from_result(result), problem_of(result), result.bundle.working())
    return result


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"loss": "logistic", "solver": "bmrm"},
        {"fit_intercept": True, "blocks": 1},
        {"fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 2.0},
        {"loss": "softmax", "fit_intercept": True, "penalize_intercept": True, "intercept_scaling": 2.0},
    ],
)
def test_a_solve_continues_where_it_ended(tmp_path, keywords):
    path = tmp_path / "state"
    before = written(path, **keywords)
    keywords.pop("blocks", None)
    X, y = problem()
    after = bmrm.solve(X, y, lam=1e-3, max_iter=9, warm_start=Checkpoint.load(path), **keywords)
    assert after.n_iter <= 9
    assert after.history[0]["iteration"] == 8
    assert after.objective <= before.objective + 1e-15
    # The active cuts carry the bound of the last minimisation of the bundle.
    assert after.lower_bound >= before.history[-1]["lower_bound"] - 1e-12


def test_cuts_without_mass_are_left_out(tmp_path):
    result = written(tmp_path / "state", max_iter=30)
    kept = Checkpoint.load(tmp_path / "state").cuts(0, D)
    held = result.bundle.alpha > 0.0
    assert 0 < held.sum() < len(result.bundle)
    np.testing.assert_array_equal(kept.gradients, result.bundle.gradients[held])
    np.testing.assert_array_equal(kept.blocks, result.bundle.blocks[held])


def test_columns_are_read_by_range(tmp_path):
    result = written(tmp_path / "state")
    part = Checkpoint.load(tmp_path / "state").cuts(3, 7)
    np.testing.assert_array_equal(part.gradients, result.bundle.working().gradients[:, 3:7])


def test_the_file_is_a_model(tmp_path):
    result = written(tmp_path / "state")
    model = Model.load(tmp_path / "state")
    np.testing.assert_array_equal(model.w, result.w)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lam": 1e-2}, "with lam 0.001, found 0.01"),
        ({"loss": "logistic"}, "with loss hinge, found logistic"),
        ({"fit_intercept": True}, "with"),
        ({"cuts_per_pass": 5}, "with blocks 3, found 5"),
    ],
)
def test_another_problem_is_refused(tmp_path, change, message):
    written(tmp_path / "state")
    X, y = problem()
    start = Checkpoint.load(tmp_path / "state")
    if "fit_intercept" in change:
        change["cuts_per_pass"] = 1
    with pytest.raises(ParameterError, match=message):
        bmrm.solve(X, y, **{"lam": 1e-3, "warm_start": start, **change})


def test_other_data_of_the_same_size_are_refused(tmp_path):
    written(tmp_path / "state")
    X, y = problem(seed=1)
    with pytest.raises(DataError, match="for other data"):
        bmrm.solve(X, y, lam=1e-3, warm_start=Checkpoint.load(tmp_path / "state"))


def test_too_few_cuts_for_the_old_ones(tmp_path):
    written(tmp_path / "state", max_iter=30)
    X, y = problem()
    with pytest.raises(ParameterError, match="max_cuts: found 9, expected at least"):
        bmrm.solve(X, y, lam=1e-3, max_cuts=9, warm_start=Checkpoint.load(tmp_path / "state"))


def test_a_plain_model_is_no_checkpoint(tmp_path):
    X, y = problem()
    bmrm.solve(X, y).save(tmp_path / "model")
    with pytest.raises(DataError, match="a model without cuts"):
        Checkpoint.load(tmp_path / "model")


def rewritten(path, *, note=None, **arrays):
    """Write the checkpoint again with some tensors replaced."""
    start = Checkpoint.load(path)
    cuts = start.cuts(0, D)._asdict()
    cuts |= cuts.pop("blur")._asdict()
    parts = {f"cuts.{name}": array for name, array in cuts.items()}
    parts |= {f"cuts.{name}": array for name, array in arrays.items()}
    text = {"version": 1, **vars(start.problem)} if note is None else note
    parts = {name: array for name, array in parts.items() if array is not None}
    description, own = start.model.file_parts()
    model_file.write(path, description, {**parts, **own}, {"bmrm_checkpoint": json.dumps(text)})


@pytest.mark.parametrize(
    "damage",
    [
        {"gradients": lambda cuts: cuts.gradients[:, 1:]},
        {"gradients": lambda cuts: np.full_like(cuts.gradients, np.nan)},
        {"gradients": lambda cuts: cuts.offsets},
        {"gradients": lambda cuts: None},
        {"offsets": lambda cuts: cuts.offsets[1:]},
        {"alpha": lambda cuts: None},
        {"blocks": lambda cuts: cuts.blocks + np.int32(3)},
        {"blocks": lambda cuts: cuts.blocks - np.int32(1)},
        {"blocks": lambda cuts: cuts.blocks.astype(float)},
        {"alpha": lambda cuts: 2.0 * cuts.alpha},
        {"alpha": lambda cuts: -cuts.alpha},
        {"error": lambda cuts: -1.0 - cuts.blur.error},
        {"slack": lambda cuts: None},
        {"tilt": lambda cuts: cuts.blur.tilt[1:]},
    ],
)
def test_damaged_cuts_are_refused(tmp_path, damage):
    path = tmp_path / "state"
    written(path, max_iter=1)
    cuts = Checkpoint.load(path).cuts(0, D)
    assert cuts.gradients.shape == (len(cuts.alpha), D)
    rewritten(path, **{name: change(cuts) for name, change in damage.items()})
    with pytest.raises(DataError, match="damaged cuts"):
        Checkpoint.load(path).cuts(0, D)


@pytest.mark.parametrize("note", [3, [], {}, {"version": 1}, {"version": 1, "rows": 3}])
def test_damaged_descriptions_are_refused(tmp_path, note):
    path = tmp_path / "state"
    written(path)
    rewritten(path, note=note)
    with pytest.raises(DataError, match="damaged description of the checkpoint"):
        Checkpoint.load(path)


@pytest.mark.parametrize(
    "change",
    [
        *({"blocks": blocks} for blocks in ({}, [], None, True, 0, 3.0, M + 1)),
        {"n_samples": None},
        {"nnz": -1},
        {"free_intercept": 0},
        *(
            {name: 10**400}
            for name in ("objective", "lower_bound", "radius", "resolution", "intercept_scaling")
        ),
        *({"intercept_scaling": scaling} for scaling in ("1", 0.0, np.nan, np.inf)),
    ],
)
def test_impossible_problems_are_refused(tmp_path, change):
    path = tmp_path / "state"
    written(path)
    rewritten(path, note={"version": 1, **vars(Checkpoint.load(path).problem), **change})
    with pytest.raises(DataError, match=f"^{path}: damaged description of the checkpoint"):
        Checkpoint.load(path)


def test_more_blocks_than_cuts_are_refused(tmp_path):
    path = tmp_path / "state"
    written(path)
    rewritten(path, note={"version": 1, **vars(Checkpoint.load(path).problem), "blocks": M})
    with pytest.raises(DataError, match="damaged cuts"):
        Checkpoint.load(path).cuts(0, D)


def test_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "state"
    written(path)
    rewritten(path, note={"version": 2, **vars(Checkpoint.load(path).problem)})
    with pytest.raises(DataError, match="found checkpoint version 2, expected 1"):
        Checkpoint.load(path)


def test_a_restored_bundle_has_the_bound_of_the_old():
    rng = np.random.default_rng(2)
    best = Iterate(np.zeros(5), np.zeros(1), 0.0, 10.0)
    old = Bundle(HostCuts(5, 1), groups=2)
    for _ in range(6):
        old.make_room()
        none = np.zeros(2)
        planes = Subgradients(rng.standard_normal((2, 5)), None, none, none, none)
        old.add(CutBatch(planes, rng.standard_normal(2), 0.0))
        _, bound = old.minimise(inner_model(L2(0.5)), best, 1e-9)
    new = Bundle(HostCuts(5, 1), groups=2)
    new.restore(old.working())
    assert new.minimise(inner_model(L2(0.5)), best, 1e-9)[1] == pytest.approx(bound, rel=1e-9)
