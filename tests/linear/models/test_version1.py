"""Files of the first format of models are still read."""

from pathlib import Path

import numpy as np

import bmrm
from bmrm.linear.models.checkpoint import Checkpoint

FOLDER = Path(__file__).parent
X = np.array([[1, 0, 2], [0, 1, -1], [2, 1, 0], [-1, 0.5, 0], [0, -2, 1], [1, 1, 1]], float)


def test_a_model(tmp_path):
    model = bmrm.Model.load(FOLDER / "version1.model")
    assert (model.classes, model.label_type) == ((1.0, 2.0), "float64")
    assert (model.loss, model.lam) == ("logistic", 0.1)
    assert model.w.tolist() == [-1.0677256233570314, -0.5372777123928771, -0.6183246893470571]
    found = model.predict(X)
    assert found.dtype == np.float64
    assert found.tolist() == [1, 2, 1, 2, 2, 1]
    model.save(tmp_path / "again")  # in the present format
    assert bmrm.Model.load(tmp_path / "again").predict(X).tolist() == found.tolist()


def test_a_checkpoint():
    state = Checkpoint.load(FOLDER / "version1.checkpoint")
    assert state.model.classes == (3.0, 5.0, 9.0)
    y = [3, 5, 9, 3, 5, 9]
    found = bmrm.solve(X, y, "multiclass", lam=0.1, warm_start=state)
    assert found.status == "converged"
    assert found.n_iter > 3  # counted on from the checkpoint's
    whole = bmrm.solve(X, y, "multiclass", lam=0.1)
    assert found.lower_bound <= whole.objective
    assert whole.lower_bound <= found.objective
