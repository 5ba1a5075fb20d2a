"""``bmrm-predict``: predictions, metrics, bounded memory, and agreement with LIBLINEAR's conventions."""

import json
import os

import numpy as np
import pytest
from commands import start, two_classes, write_svmlight

from bmrm.linear.models.model import Model


def model(loss="hinge", task="binary", classes=(-1.0, 1.0), intercept=0.25):
    return Model(np.array([1.0, -0.5, 0.25, 0.0, 2.0]), intercept, loss, task, classes, lam=1e-3)


def numbers(path):
    return [float(line) for line in path.read_text().splitlines()]


@pytest.fixture
def values():
    X, _ = two_classes()
    return X @ model().w + 0.25


def test_labels_and_accuracy(data, folder, values, bmrm_predict):
    model().save("model")
    outcome = bmrm_predict(data, "model", "out")
    _, y = two_classes()
    predicted = np.where(values > 0, 1.0, -1.0)
    assert (folder / "out").read_text() == "".join(f"{int(p)}\n" for p in predicted)
    correct = int((predicted == y).sum())
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == f"Accuracy = {100 * correct / 60:g}% ({correct}/60)"
    assert outcome.out.splitlines()[1].startswith("AUC = 0.")


def test_decision_values(data, folder, values, bmrm_predict):
    model().save("model")
    bmrm_predict("--decision-values", data, "model", "out")
    np.testing.assert_allclose(numbers(folder / "out"), values, rtol=1e-12)


def test_probabilities(data, folder, values, bmrm_predict):
    model("logistic").save("model")
    bmrm_predict("--probability", data, "model", "out")
    np.testing.assert_allclose(numbers(folder / "out"), 1 / (1 + np.exp(-values)), rtol=1e-12)


def test_probability_needs_the_logistic_loss(data, folder, bmrm_predict):
    model().save("model")
    for option in (["--probability"], ["-b", "1"]):
        outcome = bmrm_predict(*option, data, "model", "out")
        assert outcome.code == 2
        assert outcome.err.startswith(f"bmrm-predict: {' '.join(option)}: found a model with the loss hinge")
        assert "logistic" in outcome.err
        assert not (folder / "out").exists()


def test_json(data, values, bmrm_predict):
    model().save("model")
    outcome = bmrm_predict("--json", data, "model", "out")
    report = json.loads(outcome.out)
    _, y = two_classes()
    assert report["accuracy"] == np.mean((values > 0) == (y > 0))
    assert (report["rows"], report["task"], report["ignored_values"]) == (60, "binary", 0)
    assert outcome.err == ""


@pytest.mark.parametrize(
    ("loss", "task", "line"),
    [("squared", "regression", "Mean squared error"), ("poisson", "count", "Mean Poisson deviance")],
)
def test_values(loss, task, line, folder, values, bmrm_predict):
    X, y = two_classes()
    write_svmlight(folder / "data", X, y + 1)
    model(loss, task, None).save("model")
    outcome = bmrm_predict("data", "model", "out")
    expected = np.exp(values) if task == "count" else values
    np.testing.assert_allclose(numbers(folder / "out"), expected, rtol=1e-12)
    assert outcome.out.startswith(line)
    mae = json.loads(bmrm_predict("--json", "data", "model", "out").out)["mae"]
    assert mae == pytest.approx(np.abs(expected - y - 1).mean())


@pytest.mark.parametrize(
    ("loss", "task", "row", "metric"),
    [("squared", "regression", "1e200 1:1", "mse"), ("poisson", "count", "1 1:800", "deviance")],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_metric_that_overflows(loss, task, row, metric, folder, bmrm_predict):
    (folder / "data").write_text(f"{row}\n2 1:1\n3 2:1\n")
    model(loss, task, None).save("model")
    outcome = bmrm_predict("--json", "data", "model", "out")
    assert outcome.code == 0
    report = json.loads(outcome.out)
    assert (report["rows"], report[metric]) == (3, None)


def test_novelty(folder, data, values, bmrm_predict):
    model("novelty", "novelty", None).save("model")
    outcome = bmrm_predict(data, "model", "out")
    assert numbers(folder / "out") == np.where(values >= 0, 1.0, -1.0).tolist()
    assert outcome.out.startswith("Novel = ")


def test_out_is_stdout(data, folder, values, bmrm_predict):
    model().save("model")
    outcome = bmrm_predict(data, "model", "-")
    assert [float(line) for line in outcome.out.splitlines()] == np.where(values > 0, 1, -1).tolist()
    assert outcome.err.startswith("Accuracy = ")
    assert bmrm_predict("-q", data, "model", "/dev/stdout").out == outcome.out
    assert bmrm_predict("--json", data, "model", "-").code == 2


def test_features_beyond_the_model_are_ignored(folder, bmrm_predict):
    model().save("model")
    (folder / "data").write_text("1 1:1 9:5 1000000000:3\n-1\n1 5:1\n")
    outcome = bmrm_predict("--decision-values", "data", "model", "out")
    assert numbers(folder / "out") == [1.25, 0.25, 2.25]
    assert outcome.err.count("\n") == 1
    assert "ignored 2 values" in outcome.err
    assert bmrm_predict("-q", "data", "model", "out").err == ""


def test_narrow_data(folder, bmrm_predict):
    model().save("model")
    (folder / "data").write_text("1 1:1\n-1 2:2\n")
    bmrm_predict("--decision-values", "data", "model", "out")
    assert numbers(folder / "out") == [1.25, -0.75]


def test_feature_numbers_start_as_in_training(folder, bmrm_train, bmrm_predict):
    """A zero-based training file makes a later file without feature 0 zero-based too."""
    (folder / "train").write_text("1 0:1 1:1\n-1 0:-1 1:-2\n" * 5)
    (folder / "test").write_text("1 1:1\n")
    bmrm_train("-q", "train", "model")
    bmrm_predict("-q", "--decision-values", "test", "model", "out")
    assert numbers(folder / "out") == [pytest.approx(Model.load("model").w[1])]
    bmrm_predict("-q", "--decision-values", "--zero-based", "no", "test", "model", "out")
    assert numbers(folder / "out") == [pytest.approx(Model.load("model").w[0])]


def test_values_are_read_in_full(folder, bmrm_predict):
    """Numbers that float32 cannot distinguish or represent."""
    (folder / "train").write_text("".join(f"{i} 1:{20240000 + i} 2:{i}e39\n" for i in range(1, 9)))
    Model(np.array([1.0, 1e-39]), -20240000.0, "squared", "regression", None, lam=1.0).save("model")
    outcome = bmrm_predict("train", "model", "out")
    assert outcome.code == 0, outcome.err
    assert numbers(folder / "out") == pytest.approx([2.0 * i for i in range(1, 9)], abs=1e-6)
    np.save("data.npy", np.array([[20240001.0, 1e39]]))
    assert bmrm_predict("data.npy", "model", "out").code == 0
    assert numbers(folder / "out") == pytest.approx([2.0], abs=1e-6)


def test_dense_array(folder, values, bmrm_predict):
    model().save("model")
    np.save("data.npy", two_classes()[0])
    outcome = bmrm_predict("--decision-values", "data.npy", "model", "out")
    assert outcome.code == 0, outcome.err
    np.testing.assert_allclose(numbers(folder / "out"), values, rtol=1e-6)


def test_failure_leaves_the_old_predictions(folder, bmrm_predict):
    model().save("model")
    (folder / "out").write_text("old\n")
    (folder / "data").write_text("1 1:1\n" * 100 + "junk\n")
    assert bmrm_predict("data", "model", "out").code == 3
    assert (folder / "out").read_text() == "old\n"
    assert sorted(os.listdir(folder)) == ["data", "model", "out"]


def test_chunks_make_no_difference(folder, data, bmrm_predict, monkeypatch):
    import bmrm.io

    model().save("model")
    whole = bmrm_predict(data, "model", "whole")
    small = bmrm.io.iter_svmlight
    sizes = []

    def in_small_chunks(*words, **keywords):
        for X, y in small(*words, **keywords, rows_bytes=200):
            sizes.append(X.shape[0])
            yield X, y

    monkeypatch.setattr(bmrm.io, "iter_svmlight", in_small_chunks)
    assert bmrm_predict(data, "model", "parts") == whole
    assert len(sizes) > 3
    assert (folder / "whole").read_bytes() == (folder / "parts").read_bytes()


@pytest.mark.parametrize("option", ["-q", "--decision-values", "--probability", "-b1"])
def test_rows_written_at_a_time_make_no_difference(option, folder, data, bmrm_predict, monkeypatch):
    model("logistic").save("model")
    whole = bmrm_predict(option, data, "model", "whole")
    monkeypatch.setattr("bmrm.cli.predict._CHUNK_ROWS", 7)
    assert bmrm_predict(option, data, "model", "parts") == whole
    assert (folder / "whole").read_bytes() == (folder / "parts").read_bytes()


def test_a_closed_pipe_prints_no_error(folder):
    X, y = two_classes(rows=20_000)
    write_svmlight(folder / "data", X, y)
    model().save("model")
    process = start("predict", "-q", "data", "model", "-", cwd=folder)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 1


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_liblinear_reads_the_export(loss, data, folder, bmrm_train, bmrm_predict):
    util = pytest.importorskip("liblinear.liblinearutil")
    bmrm_train("-q", "-B", "1", "--loss", loss, data, "model")
    bmrm_train("-q", "-B", "1", "--loss", loss, "--export", "liblinear", data, "text")
    ours = bmrm_predict(data, "model", "ours").out.splitlines()[0]
    labels, rows = util.svm_read_problem(str(data))
    theirs, (accuracy, *_), _ = util.predict(labels, rows, util.load_model("text"), "-q")
    assert ours == f"Accuracy = {accuracy:g}% ({round(0.6 * accuracy)}/60)"
    assert numbers(folder / "ours") == theirs
