"""Training on text is the same with sparse and with dense rows, within certificates."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from loss_cases import CASES, labels_for

import bmrm
from bmrm.errors import ParameterError
from bmrm.io import Csr, row_storage
from bmrm.io.row_storage import Costs, StorageRule
from bmrm.linear import storage
from bmrm.linear.backends.facts import size_of
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.matrix import row_storage as measured
from bmrm.matrix.gpu import cache

LAM, TOL = 1e-2, 1e-6


def write(path, X, y, first=1):
    """Write rows, of which some values are 0, as SVMlight text."""
    labels = [",".join(map(str, label)) if isinstance(label, tuple) else f"{label:g}" for label in y]
    rows = (" ".join(f"{j + first}:{v!r}" for j, v in enumerate(row) if v) for row in X.tolist())
    path.write_text("".join(f"{label} {row}\n" for label, row in zip(labels, rows, strict=True)))
    return str(path)


def rows(m=120, d=6):
    X = np.round(np.random.default_rng(1).standard_normal((m, d)), 3)
    X[::7, 2] = 0.0
    X[5] = 0.0
    return X


def both(path, loss, **options):
    """Train with either form; return the results after comparing them."""
    options = {"lam": LAM, "tol": TOL, **options}
    sparse, dense = (bmrm.solve_file(path, loss, storage=kind, **options) for kind in ("sparse", "dense"))
    assert (sparse.storage, dense.storage) == ("sparse", "dense")
    assert (sparse.status, dense.status) == ("converged", "converged")
    assert max(sparse.lower_bound, dense.lower_bound) <= min(sparse.objective, dense.objective)
    assert sparse.zero_based == dense.zero_based
    assert sparse.text_checksum == dense.text_checksum
    return sparse, dense


@pytest.mark.parametrize("loss", CASES, ids=lambda loss: loss.name)
def test_losses_of_one_margin(tmp_path, loss):
    X = rows()
    both(write(tmp_path / "text", X, labels_for(loss, np.random.default_rng(2), len(X))), loss)


SEVERAL = {
    "multiclass": lambda rng, m: rng.integers(0, 3, m),
    "softmax": lambda rng, m: rng.integers(0, 3, m),
    "ordinal": lambda rng, m: rng.integers(0, 3, m),
    "multilabel": lambda rng, m: [tuple(np.flatnonzero(rng.random(3) < 0.5)) or (0,) for _ in range(m)],
    "roc_area": lambda rng, m: rng.choice([-1.0, 1.0], m),
    "f1": lambda rng, m: rng.choice([-1.0, 1.0], m),
    "ranking": lambda rng, m: rng.integers(0, 3, m),
}


@pytest.mark.parametrize("loss", [name for name in SEVERAL if name in bmrm.losses.LOSSES])
def test_losses_of_several_margins_or_rows(tmp_path, loss):
    X = rows(60)
    y = SEVERAL[loss](np.random.default_rng(3), len(X))
    path = write(tmp_path / "text", X, y)
    if bmrm.losses.LOSSES[loss].needs_groups:
        lines = [line.partition(" ") for line in Path(path).read_text().splitlines()]
        text = "".join(f"{label} qid:{i // 10} {pairs}\n" for i, (label, _, pairs) in enumerate(lines))
        Path(path).write_text(text)
    both(path, loss, tol=1e-3)


@pytest.mark.parametrize("first", [0, 1])
def test_models_predict_the_same(tmp_path, first):
    X = rows()
    path = write(tmp_path / "text", X, np.where(X[:, 0] > 0, 1, -1), first)
    sparse, dense = both(path, "logistic", tol=1e-8)
    assert dense.zero_based == (first == 0)
    np.testing.assert_allclose(dense.w, sparse.w, atol=1e-3)
    found, _ = bmrm.load_svmlight(path)
    models = [bmrm.Model.from_result(result) for result in (sparse, dense)]
    np.testing.assert_array_equal(*(model.predict(found) for model in models))


def test_certificates_hold_for_the_numbers_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "MAX_FLOAT64_FILE_BYTES", -1)
    X = rows()
    path = write(tmp_path / "text", X, np.where(X[:, 0] > 0, 1, -1))
    sparse, dense = both(path, "hinge", dtype="float32", tol=1e-4)
    assert (dense.stored, sparse.stored) == ("float32", "float32")
    assert dense.rounding > 0.0
    exact = bmrm.solve(X, np.where(X[:, 0] > 0, 1, -1), "hinge", lam=LAM, tol=1e-8)
    assert dense.lower_bound <= exact.objective
    assert exact.lower_bound <= dense.objective


def test_a_checkpoint_goes_on_in_the_other_form(tmp_path):
    X = rows()
    path = write(tmp_path / "text", X, np.where(X[:, 0] > 0, 1, -1))
    from bmrm.cli import train

    check = str(tmp_path / "check")
    words = ["--quiet", "--allow-unconverged", "--lambda", "1e-2", "--max-iter", "3", "--cuts-per-pass", "1"]
    assert train.main([*words, "--storage", "sparse", "--checkpoint", check, path, str(tmp_path / "m")]) == 0
    start = Checkpoint.load(check)
    found = bmrm.solve_file(path, "hinge", lam=LAM, storage="dense", warm_start=start, cuts_per_pass=1)
    assert (found.storage, found.status) == ("dense", "converged")
    assert found.lower_bound >= start.model.certificate.lower_bound


def test_a_data_set_converts_rows():
    X = rows()
    sparse = Csr.from_scipy(scipy.sparse.csr_matrix(X))
    for given in (X, sparse):
        kept = bmrm.Dataset(given)
        assert size_of(kept).is_dense == isinstance(given, np.ndarray)
        found = {kind: bmrm.Dataset(given, storage=kind) for kind in ("sparse", "dense")}
        assert [size_of(data).is_dense for data in found.values()] == [False, True]
        assert {data.entries() for data in found.values()} == {kept.entries()}
    with pytest.raises(ParameterError, match="storage: found 'full', expected one of"):
        bmrm.Dataset(X, storage="full")
    with pytest.raises(ParameterError, match="storage: found 'full', expected one of"):
        bmrm.solve_file("nowhere", storage="full")


def test_rates_are_measured_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "_known_times", {})
    calls = []
    seconds = measured._seconds
    monkeypatch.setattr(measured, "_seconds", lambda call: calls.append(call) or seconds(call))
    first = measured.measured_costs(None, 4)
    assert len(calls) == 6  # two products and one X' D X in either form
    assert isinstance(first, Costs)
    assert all(0.0 < each < 1e-6 for pair in first for each in pair)
    monkeypatch.setattr(cache, "_known_times", {})  # as in another process
    assert measured.measured_costs(None, 4) == first
    assert len(calls) == 6


def test_the_rule_asks_for_the_device_and_no_threads(monkeypatch):
    asked = []

    def costs(gpu, value_bytes):
        asked.append((gpu, value_bytes))
        return row_storage.TYPICAL

    monkeypatch.setattr(measured, "measured_costs", costs)
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        assert measured.storage_rule("auto", "cpu").choose(10_000, 3_000_000, 300, 4).dense
        assert measured.storage_rule("auto", "cuda:2").choose(10_000, 3_000_000, 300, 8).dense
    assert asked == [(None, 4), (2, 8)] * 2


def test_the_plan_says_why(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(row_storage, "MIN_VALUES", 1)
    rule = StorageRule("auto", lambda *size: Costs((9.0, 1.0), (9.0, 1.0)))
    monkeypatch.setattr(storage, "storage_rule", lambda *_: rule)
    X = np.abs(rows()) + 1.0
    path = write(tmp_path / "text", X, np.where(X[:, 0] > 1.5, 1, -1))
    assert bmrm.solve_file(path, lam=LAM, verbose=2).storage == "dense"
    line = capsys.readouterr().out.splitlines()[0]
    assert line == "storage        dense: 1 of the values are stored, dense rows take 0.11 of the time"
