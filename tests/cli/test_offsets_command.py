"""``--offset`` of the commands: a file with a number per line, or a column of a table."""

import json

import numpy as np
import pytest
from commands import two_classes, write_svmlight

import bmrm
from bmrm.linear.models.model import Model


@pytest.fixture
def rates(folder):
    """Counts of rows, and the log of their exposures, as text, offsets apart, and as a CSV and Parquet."""
    X, _ = two_classes()
    rng = np.random.default_rng(1)
    exposure = np.round(rng.uniform(-1.0, 2.0, 60), 3)
    y = rng.poisson(np.exp(0.1 * X[:, 0] + exposure)).astype(float)
    write_svmlight(folder / "d.svm", X, y)
    (folder / "o").write_text("".join(f"{value!r}\n" for value in exposure.tolist()))
    return X, y, exposure


def tables(folder, rates):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    X, y, exposure = rates
    columns = {"lexp": exposure, **{f"x{j}": X[:, j] for j in range(5)}, "n": y}
    csv.write_csv(pyarrow.table(columns), folder / "d.csv")
    parquet.write_table(pyarrow.table(columns), folder / "d.parquet")
    return ["--label", "n", "--offset", "lexp"]


def numbers(path):
    return np.array([float(line) for line in path.read_text().splitlines()])


TRAIN = ["--loss", "poisson", "--intercept", "--lambda", "0.01", "--tol", "1e-6"]


def test_train_predict_and_info_with_a_file(rates, folder, bmrm_train, bmrm_predict, bmrm_info):
    X, y, exposure = rates
    found = json.loads(bmrm_train("--json", *TRAIN, "--offset", "o", "d.svm", "m").out)
    own = bmrm.solve(X, y, "poisson", lam=0.01, tol=1e-6, offset=exposure, fit_intercept=True)
    assert found["objective"] == pytest.approx(own.objective, rel=1e-6)
    assert found["options"]["offset"] == "o"
    assert bmrm_predict("--offset", "o", "d.svm", "m", "p").code == 0
    model = Model.load(folder / "m")
    np.testing.assert_allclose(numbers(folder / "p"), model.predict(X, offset=exposure))
    assert bmrm_predict("-q", "--offset", "0", "d.svm", "m", "q").code == 0
    np.testing.assert_allclose(numbers(folder / "q"), model.predict(X, offset=0))
    assert "trained with offsets" in bmrm_info("m").out
    assert json.loads(bmrm_info("--json", "m").out)["has_offset"] is True
    outcome = bmrm_predict("d.svm", "m", "r")
    line = "found none for a model trained with offsets, expected FILE, COLUMN, or 0 for none"
    assert (outcome.code, outcome.err) == (2, f"bmrm-predict: --offset: {line}\n")
    assert not (folder / "r").exists()


@pytest.mark.parametrize("name", ["d.csv", "d.parquet"])
def test_a_column_gives_the_model_and_predictions_of_a_file(name, rates, folder, bmrm_train, bmrm_predict):
    words = tables(folder, rates)
    text = json.loads(bmrm_train("--json", *TRAIN, "--offset", "o", "d.svm", "m1").out)
    table = json.loads(bmrm_train("--json", *TRAIN, *words, name, "m2").out)
    assert table["objective"] == pytest.approx(text["objective"], rel=2e-6)
    assert Model.load("m2").feature_names == tuple(f"x{j}" for j in range(5))
    assert bmrm_predict("--offset", "o", "d.svm", "m2", "o1").code == 0
    assert bmrm_predict(*words, name, "m2", "o2").code == 0
    np.testing.assert_allclose(numbers(folder / "o1"), numbers(folder / "o2"), rtol=1e-12)
    outcome = bmrm_train(*TRAIN, "--label", "n", "--offset", "lexpo", name, "m3")
    assert outcome.code == 3
    assert "found no column 'lexpo', expected one of 'lexp', 'x0'" in outcome.err


def test_cross_validation_and_selection_with_a_file(rates, folder, bmrm_train):
    words = ["--json", "--loss", "poisson", "--offset", "o", "d.svm"]
    with_offset = json.loads(bmrm_train(*words, "-v", "3").out)
    without = json.loads(bmrm_train("--json", "--loss", "poisson", "d.svm", "-v", "3").out)
    assert with_offset["deviance"] < without["deviance"]
    assert bmrm_train("-q", *words[1:], "m", "-C", "--lambdas", "0.1,0.01").code == 0
    assert Model.load("m").has_offset


def test_a_checkpoint_resumes_with_the_same_offsets_alone(rates, folder, bmrm_train):
    words = [*TRAIN, "--offset", "o", "d.svm", "m"]
    first = bmrm_train("-q", "--max-iter", "1", "--checkpoint", "c", *words)
    assert first.code == 4, first
    assert Model.load("c").has_offset
    assert bmrm_train("-q", "--resume", "c", *words).code == 0
    (folder / "o2").write_text("0\n" * 60)
    outcome = bmrm_train("--resume", "c", *TRAIN, "--offset", "o2", "d.svm", "m")
    assert outcome.code == 3
    assert "found a different checksum of offset" in outcome.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\nnan\n" + "1\n" * 58, "o:2: found 'nan', expected an offset: a finite number"),
        ("1\n" * 59, "o: found 59 offsets, expected one for each of the 60 rows"),
        ("1\n" * 61, "o: found 61 offsets, expected one for each of the 60 rows"),
        ("1\n-inf\n", "o:2: found '-inf', expected an offset: a finite number"),
    ],
)
def test_bad_files_of_offsets(text, message, rates, folder, bmrm_train, bmrm_predict):
    assert bmrm_train("-q", *TRAIN, "d.svm", "m").code == 0
    (folder / "o").write_text(text)
    outcome = bmrm_train(*TRAIN, "--offset", "o", "d.svm", "m")
    assert (outcome.code, outcome.err) == (3, f"bmrm-train: {message}\n")
    outcome = bmrm_predict("--offset", "o", "d.svm", "m", "p")
    assert outcome.code == 3
    assert outcome.err.startswith("bmrm-predict: o")
    assert outcome.err.count("\n") == 1
    assert not (folder / "p").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loss", "softmax"], "--offset: one number per row shifts all classes of the loss softmax alike"),
        (["--export", "liblinear"], "--offset: LIBLINEAR's model format cannot store it"),
    ],
)
def test_options_that_take_no_offset(words, message, rates, bmrm_train):
    outcome = bmrm_train(*words, "--offset", "o", "d.svm", "m")
    assert outcome.code == 2
    assert outcome.err.startswith(f"bmrm-train: {message}")


def test_classes_against_the_rest_are_exported_and_take_none(folder, bmrm_train):
    X, _ = two_classes()
    write_svmlight(folder / "d", X, np.arange(60) % 3 + 1.0)
    (folder / "o").write_text("1\n" * 60)
    outcome = bmrm_train("-s", "2", "--offset", "o", "d", "m")
    assert outcome.code == 2
    assert outcome.err.startswith("bmrm-train: --offset: LIBLINEAR's model format, which -s writes")


def test_chunks_of_a_long_file_take_their_own_offsets(folder, bmrm_predict, monkeypatch):
    from bmrm.cli import predict

    monkeypatch.setattr(predict, "_CHUNK_ROWS", 7)
    X, _ = two_classes()
    np.save(folder / "d.npy", X)
    offset = np.arange(60.0)
    (folder / "o").write_text("".join(f"{value:g}\n" for value in offset))
    Model(np.ones(5), 0.0, "squared", "regression", None, lam=1.0, has_offset=True).save("m")
    assert bmrm_predict("--offset", "o", "d.npy", "m", "p").code == 0
    np.testing.assert_allclose(numbers(folder / "p"), X.sum(axis=1) + offset)
