"""The command bmrm-cluster."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from commands import start_python
from scipy.spatial.distance import pdist, squareform

from bmrm import MDS, PCA, GaussianMixture, KMeans
from bmrm.cli.cluster import main
from bmrm.unsupervised.clusters import lower_bounds
from bmrm.unsupervised.clusters.lower_bounds import bound_by_samples

K = 4


@pytest.fixture(scope="module")
def X():  # noqa: N802
    rng = np.random.default_rng(0)
    return rng.normal(size=(600, 3)) + 20 * np.arange(K).repeat(150)[:, None]


@pytest.fixture
def path(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    return str(tmp_path / "X.npy")


def run(capsys, *words):
    code = main([str(word) for word in words])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def write(X, kind, folder):
    """Write rows in a format."""
    path = folder / f"X.{kind}"
    sparse = scipy.sparse.csr_matrix(X)
    if kind == "npy":
        np.save(path, X)
    elif kind == "npz":
        scipy.sparse.save_npz(path, sparse)
    elif kind == "csv":
        lines = (",".join(map(repr, row)) for row in X.tolist())
        path.write_text("\n".join(["a,b,c", *lines]) + "\n")
    else:
        pairs = (" ".join(f"{f + 1}:{v!r}" for f, v in enumerate(row)) for row in X.tolist())
        path.write_text("".join(f"1 {pair}\n" for pair in pairs))
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "svm", "csv"])
def test_labels_and_centres_are_those_of_the_class(kind, X, tmp_path, capsys):
    if kind == "csv":
        pytest.importorskip("pyarrow")
    data, labels, centers = write(X, kind, tmp_path), tmp_path / "labels", tmp_path / "centers.npz"
    words = ["-k", K, "-o", labels, "--centers", centers, "--seed", 3, "--json"]
    code, out, err = run(capsys, data, *words, *(["--format", "csv"] if kind == "csv" else []))
    report, model = json.loads(out), KMeans(K, random_state=3).fit(X)
    assert (code, err, report["status"]) == (0, "", "converged")
    assert np.loadtxt(labels, dtype=int).tolist() == model.labels_.tolist()
    with np.load(centers) as arrays:
        np.testing.assert_allclose(arrays["centers"], model.cluster_centers_, atol=1e-13)
        assert arrays["cluster_weights"].tolist() == report["cluster_weights"] == [150.0] * K
    assert report["inertia"] == pytest.approx(model.inertia_, rel=1e-11)
    assert (report["rows"], report["columns"], report["clusters"]) == (600, 3, K)


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_centres_are_applied_to_other_rows(kind, X, path, tmp_path, capsys, monkeypatch):
    centers, labels = tmp_path / f"centers.{kind}", tmp_path / "labels.npy"
    assert run(capsys, path, "-k", K, "--centers", centers, "-o", labels)[0] == 0
    first = np.load(labels)
    other = write(X[::-1], "svm", tmp_path)
    code, out, _ = run(capsys, other, "--apply", centers, "-o", labels, "--json")
    assert (code, json.loads(out)["status"]) == (0, "labelled")
    assert (np.load(labels) == first[::-1]).all()
    code, out, _ = run(capsys, other, "--apply", centers)
    assert out.splitlines()[-1].startswith("labelled: inertia ")
    monkeypatch.setattr(lower_bounds, "bound_by_samples", lambda *w: bound_by_samples(*w[:4], 40, *w[5:]))
    code, out, _ = run(capsys, other, "--apply", centers, "--certificate")
    assert out.splitlines()[-1].startswith("at most ")


def fit(method, X):
    """Fit the class of a method as the command does by default; return it with what -o has of the rows."""
    if method == "mixture":
        model = GaussianMixture(3, covariance_type="diag", random_state=0, max_iter=5).fit(X)
        return model, model.predict(X)
    model = (
        PCA(2).fit(X)
        if method == "pca"
        else MDS(2, init="landmark", random_state=0, max_iter=5, dtype="float32").fit(X)
    )
    return model, model.transform(X) if method == "pca" else model.embedding_


METHODS = {
    "mixture": (
        ["-k", 3, "--covariance", "diag", "--max-iter", 5],
        {"weights": "weights_", "means": "means_", "covariances": "covariances_"},
        {"log_likelihood": "log_likelihood_", "weights": "weights_"},
    ),
    "pca": (
        [],
        {"components": "components_", "mean": "mean_"},
        {"explained_variance": "explained_variance_", "singular_value_bounds": "singular_value_bounds_"},
    ),
    "mds": (
        ["--init", "landmark", "--max-iter", 5, "--dtype", "float32"],
        {"embedding": "embedding_"},
        {"stress": "raw_stress_", "stress_error": "stress_error_", "normalized_stress": "normalized_stress_"},
    ),
}


@pytest.mark.parametrize("kind", ["npy", "svm"])
@pytest.mark.parametrize("method", METHODS)
def test_other_methods_find_what_their_classes_find(method, kind, X, tmp_path, capsys):
    X = X[::4]
    words, arrays, facts = METHODS[method]
    data, rows, file = write(X, kind, tmp_path), tmp_path / "rows", tmp_path / "model.npz"
    words = [data, "--method", method, "-o", rows, "--model", file, *words]
    code, out, err = run(capsys, *words, "--json")
    report, (model, expected) = json.loads(out), fit(method, X)
    assert (code, err, report["status"]) == (0 if model.status_ == "converged" else 4, "", model.status_)
    assert (report["method"], report["rows"], report["device"]) == (method, len(X), "cpu")
    near = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(np.loadtxt(rows), expected, **near)
    for name, attribute in facts.items():
        np.testing.assert_allclose(report[name], getattr(model, attribute), **near)
    with np.load(file) as found:
        for name, attribute in arrays.items():
            np.testing.assert_allclose(found[name], getattr(model, attribute), **near)
    code, out, _ = run(capsys, *words)
    assert out.splitlines()[-1].startswith(f"{model.status_}: ")


def test_a_map_of_given_dissimilarities(X, tmp_path, capsys):
    D = squareform(pdist(X[::20]))
    np.save(tmp_path / "D.npy", D)
    words = ["--method", "mds", "-k", 3, "--metric", "precomputed", "-o", tmp_path / "map.npy"]
    assert run(capsys, tmp_path / "D.npy", *words)[0] == 0
    np.testing.assert_allclose(pdist(np.load(tmp_path / "map.npy")), pdist(X[::20]), atol=1e-2)


def test_labels_on_stdout_are_alone(path, capsys):
    code, out, err = run(capsys, path, "-k", K, "-o", "-")
    assert (code, err, len(out.split())) == (0, "", 600)
    assert set(out.split()) == set("0123")


def test_the_report_has_the_largest_clusters_and_the_certificate(path, capsys, monkeypatch):
    code, out, _ = run(capsys, path, "-k", K)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["cluster", "weight", "share"]
    assert [line.split()[1:] for line in lines[1:5]] == [["150", "25.00%"]] * K
    assert lines[5].startswith("converged: inertia ")
    # A smaller sample than by default: the time of a bound grows with the third power of its size.
    monkeypatch.setattr(lower_bounds, "bound_by_samples", lambda *w: bound_by_samples(*w[:4], 40, *w[5:]))
    proof = json.loads(run(capsys, path, "-k", K, "--certificate", "--json")[1])["certificate"]
    assert (1.0 <= proof["ratio"] < 4.0, proof["moves_left"]) == (True, 0)
    out = run(capsys, path, "-k", "25", "--init", "random", "--n-init", "2")[1]
    assert "... and 5 smaller clusters" in out


@pytest.mark.filterwarnings("default")
def test_weights_and_equal_rows(tmp_path, capsys):
    np.save(tmp_path / "X.npy", np.array([[0.0], [1.0], [9.0], [9.0]]))
    (tmp_path / "weights").write_text("1\n3\n0\n2\n")
    code, out, _ = run(
        capsys, tmp_path / "X.npy", "-k", "2", "--sample-weight", tmp_path / "weights", "--json"
    )
    report = json.loads(out)
    assert (code, sorted(report["cluster_weights"])) == (0, [2.0, 4.0])
    assert report["inertia"] == pytest.approx(0.75)
    np.save(tmp_path / "X.npy", np.ones((5, 2)))
    code, out, err = run(capsys, tmp_path / "X.npy", "-k", "2", "--certificate")
    assert (code, err) == (
        0,
        "bmrm-cluster: warning: 1 of 2 clusters are empty: all rows are at the others\n",
    )
    assert "at most 1 times the least inertia of as many centres" in out
    assert out.endswith("0 rows would lower the inertia if they alone moved\n")


def test_limits_have_their_exit_code(X, path, tmp_path, capsys):
    code, out, _ = run(capsys, path, "-k", "9", "--max-iter", "1", "--tol", "0", "-o", tmp_path / "labels")
    assert (code, out.splitlines()[-1].partition(":")[0]) == (4, "max_iter")
    assert len((tmp_path / "labels").read_text().split()) == 600


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["DATA", "-k", "0"], 2, "found 0, expected an integer of at least 1"),
        (["DATA", "-k", "601"], 3, "n_clusters: found 601, expected at most 600, the number of rows"),
        (["DATA", "--centers", "centers.txt"], 2, "expected a file *.npz or *.safetensors"),
        (
            ["DATA", "-o", "labels.npz"],
            2,
            "are written to *.npy or as text, centres and components by --model",
        ),
        (["DATA", "-o", "-", "--json"], 2, "-o is stdout already"),
        (["DATA", "-o", "DATA"], 2, "is DATA itself"),
        (["DATA", "-o", "no folder/labels", "--centers", "c.npz"], 1, "no folder/labels: No such file"),
        (["missing.npy", "--centers", "no folder/c.npz"], 1, "no folder/c.npz: No such file"),
        (["DATA", "--apply", "c.npz", "--centers", "d.npz"], 2, "--apply: found with --model"),
        (["DATA", "--apply", "missing.npz"], 3, "missing.npz: No such file"),
        (["DATA", "--apply", "DATA"], 3, "X.npy: found npy, expected npz or safetensors"),
        (["DATA", "--sample-weight", "missing"], 3, "missing: No such file"),
        (["DATA", "--sample-weight", "ZEROS"], 3, "found only zeros, expected some positive weight"),
        (["DATA", "--sample-weight", "SHORT"], 3, "found 1 weights, expected one for each of the 600 rows"),
        (["DATA", "--tol", "-1"], 2, "expected a number of at least 0"),
        (["missing.npy"], 3, "missing.npy: No such file"),
        (["NAN"], 3, "nan.npy: row 2, column 1 has nan, expected a finite number"),
        (["DATA", "--init", "some"], 2, "expected one of k-means++, k-means||, random"),
        (["DATA", "--init", "landmark"], 2, "expected one of k-means++, k-means||, random"),
        (["DATA", "--method", "pca", "--init", "random"], 2, "with --method pca, expected kmeans or mixture"),
        (["DATA", "--method", "pca", "--certificate"], 2, "--certificate: found with --method pca"),
        (["DATA", "--method", "mds", "--sample-weight", "ZEROS"], 2, "found with --method mds"),
        (["DATA", "--method", "mixture", "--apply", "c.npz"], 2, "--apply: found with --method mixture"),
        (["DATA", "--metric", "precomputed"], 2, "--metric: found with --method kmeans, expected mds"),
        (["DATA", "--method", "mds", "--metric", "precomputed"], 3, "expected a square matrix"),
        (["DATA", "--method", "pca", "-k", "4"], 2, "n_components: found 4, expected at most 3"),
        (["DATA", "--method", "kmedoids"], 2, "expected one of kmeans, mixture, pca, mds"),
    ],
)
def test_errors_are_one_line(path, tmp_path, capsys, monkeypatch, words, code, message):
    monkeypatch.chdir(tmp_path)
    np.save("nan.npy", np.array([[1.0, 2.0], [np.nan, 1.0]]))
    Path("zeros").write_text("0\n" * 600)
    Path("short").write_text("1\n")
    places = {"DATA": path, "NAN": "nan.npy", "ZEROS": "zeros", "SHORT": "short"}
    found, out, err = run(capsys, *[places.get(word, word) for word in words])
    assert (found, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arrays",
    [
        {"other": np.ones((2, 3))},
        {"centers": np.ones(3)},
        {"centers": np.ones((2, 3), int)},
        {"centers": np.array([[1.0, np.inf, 1.0]])},
        {"centers": np.ones((2, 4))},
    ],
)
def test_centres_that_are_none(arrays, path, tmp_path, capsys):
    np.savez(tmp_path / "centers.npz", **arrays)
    code, out, err = run(capsys, path, "--apply", tmp_path / "centers.npz")
    assert (code, out, err.count("\n")) == (3, "", 1)
    content = (tmp_path / "centers.npz").read_bytes()
    for damaged in (content[:-40], b"", b"nothing"):
        for kind in ("npz", "safetensors"):
            file = tmp_path / f"damaged.{kind}"
            file.write_bytes(damaged)
            code, out, err = run(capsys, path, "--apply", file)
            assert (code, out, err.count("\n")) == (3, "", 1), err


CTRL_C_AT_THE_THIRD_MOVE = """
import os, signal, sys
from bmrm.cli import cluster
from bmrm.unsupervised.clusters.estimator import KMeansProgress

init = KMeansProgress.__init__

def press(self, start, iteration, *more):
    init(self, start, iteration, *more)
    if iteration == 3:
        os.kill(os.getpid(), signal.SIGINT)

KMeansProgress.__init__ = press
sys.exit(cluster.main())
"""


def test_ctrl_c_writes_what_was_found(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((20_000, 8)))
    words = ["-k", "40", "--tol", "0", "--max-iter", "100000", "-o", "labels"]
    process = start_python(CTRL_C_AT_THE_THIRD_MOVE, "X.npy", *words, cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert re.fullmatch("interrupted: inertia .*; [34] moves, .*", out.splitlines()[-1])
    assert len((tmp_path / "labels").read_text().split()) == 20_000


def test_ctrl_c_during_the_certificate_keeps_the_clusters(path, tmp_path, capsys, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(lower_bounds, "bound_by_samples", pressed)
    words = ["-k", K, "-o", tmp_path / "labels", "--centers", tmp_path / "c.npz", "--certificate", "--json"]
    code, out, err = run(capsys, path, *words)
    report = json.loads(out)
    assert (code, err, report["status"], "certificate" in report) == (130, "", "interrupted", False)
    assert len((tmp_path / "labels").read_text().split()) == 600
    with np.load(tmp_path / "c.npz") as arrays:
        assert arrays["centers"].shape == (K, 3)


@pytest.mark.parametrize("command", ["cluster", "info", "bench", "predict"])
def test_other_ranks_leave_everything_to_the_first(command, folder, monkeypatch):
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    main = importlib.import_module(f"bmrm.cli.{command}").main
    assert main(["no such file", "nor this", "nor that"]) == 0
