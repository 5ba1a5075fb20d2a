"""The command bmrm-pairs."""

from __future__ import annotations

import json
import signal
import time

import numpy as np
import pytest
import scipy.sparse
from commands import start_python

from bmrm.cli.pairs import main
from bmrm.pairs import Histogram, Points, count, histogram, kde, nearest, within

EDGES = np.linspace(0, 1.5, 16)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).random((300, 3))


@pytest.fixture
def path(x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    return str(tmp_path / "x.npy")


def run(capsys, *words):
    code = main([str(word) for word in words])
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def table(text):
    return np.array([line.split() for line in text.splitlines()], float)


def test_a_histogram_as_text(x, path, capsys):
    code, out, err = run(capsys, "hist", "--edges", "0:1.5:15", path)
    expected = histogram(x, edges=EDGES)
    assert code == 0
    assert np.array_equal(table(out), np.column_stack([EDGES[:-1], EDGES[1:], expected.counts]))
    assert err.startswith("counted: 44848 of 44850 pairs in 15 bins; ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("kind", ["npz", "npy", "txt", "-"])
def test_counts_in_files(kind, x, path, tmp_path, capsys):
    expected = histogram(x, edges=EDGES)
    out_path = "-" if kind == "-" else tmp_path / f"out.{kind}"
    code, out, err = run(capsys, "hist", "--edges", "0:1.5:15", "-o", out_path, path)
    assert (code, err) == (0, "")
    if kind == "npz":
        found = Histogram.load(out_path)
        assert found.counts.tolist() == expected.counts.tolist()
        assert found.edges.tolist() == EDGES.tolist()
    elif kind == "npy":
        assert np.load(out_path).tolist() == expected.counts.tolist()
    else:
        text = out if kind == "-" else out_path.read_text()
        assert table(text)[:, 2].tolist() == expected.counts.tolist()
    assert (out == "") is False


def test_radii(x, path, tmp_path, capsys):
    radii = [0.5, 0.1, 0.2]
    expected = count(Points(x, box=1.0), radius=sorted(radii)).tolist()
    words = ["count", "--radius", "0.5,0.1,0.2", "--box", "1", path]
    code, out, err = run(capsys, *words)
    assert (code, table(out).tolist()) == (0, np.column_stack([sorted(radii), expected]).tolist())
    assert err.startswith(f"counted: {expected[-1]} of 44850 pairs within 0.5; ")
    run(capsys, *words, "-o", tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as arrays:
        assert (arrays["radius"].tolist(), arrays["counts"].tolist()) == (sorted(radii), expected)
    report = json.loads(run(capsys, *words, "--json")[1])
    assert (report["radius"], report["counts"]) == (sorted(radii), expected)


def test_json(x, path, capsys):
    words = ["--box", "1,0,2", "--images", "one", "--closed", "right", "--plan", "float64"]
    code, out, err = run(capsys, "hist", "--edges", "0:1.5:15", "--json", *words, path)
    expected = histogram(Points(x, box=(1, 0, 2)), edges=EDGES, images="one", closed="right")
    report = json.loads(out)
    assert (code, err, report["status"], report["counts"]) == (0, "", "counted", expected.counts.tolist())
    assert (report["edges"], report["pairs"], report["closed"]) == (EDGES.tolist(), 44850, "right")
    assert (report["rechecked"], report["share"], report["plan"]["kernel"]) == (1.0, 1.0, "float64")
    assert report["seconds"] > 0


def test_two_sets(x, path, tmp_path, capsys):
    y = x[:50] + 0.1
    np.save(tmp_path / "y.npy", y)
    code, out, _ = run(capsys, "hist", "--edges", "0:1.5:15", path, tmp_path / "y.npy")
    assert (code, table(out)[:, 2].tolist()) == (0, histogram(x, y, edges=EDGES).counts.tolist())


@pytest.mark.parametrize("how", ["log", "text", "npy"])
def test_edges_of_other_kinds(how, x, path, tmp_path, capsys):
    edges = np.geomspace(0.1, 1, 8)
    given = "log:0.1:1:7"
    if how == "text":
        given = tmp_path / "edges.txt"
        given.write_text(", ".join(map(repr, edges[:4].tolist())) + "\n" + "\n".join(map(str, edges[4:])))
    elif how == "npy":
        given = tmp_path / "edges.npy"
        np.save(given, edges)
    code, out, _ = run(capsys, "hist", "--edges", given, path)
    assert (code, table(out)[:, 2].tolist()) == (0, histogram(x, edges=edges).counts.tolist())


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet"])
def test_columns_of_files(kind, x, tmp_path, capsys):
    data = tmp_path / f"x.{kind}"
    wide = np.column_stack([x[:, 2], np.arange(300.0), x[:, 0]])
    columns = "3,1"
    if kind == "npy":
        np.save(data, wide)
    elif kind == "npz":
        scipy.sparse.save_npz(data, scipy.sparse.csr_matrix(wide))
    else:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        frame = pandas.DataFrame(wide, columns=["z", "n", "x"])
        frame.to_csv(data, index=False) if kind == "csv" else frame.to_parquet(data)
        columns = "x,z"
    code, out, _ = run(capsys, "hist", "--edges", "0:1.5:15", f"{data}:{columns}")
    assert (code, table(out)[:, 2].tolist()) == (0, histogram(x[:, [0, 2]], edges=EDGES).counts.tolist())


def test_a_plan_is_explained(path, capsys):
    code, out, err = run(capsys, "plan", "--edges", "0:1.5:15", "--device", "cpu", path)
    lines = out.splitlines()
    assert (code, err, lines[0]) == (0, "", "device  cpu: as given")
    assert lines[1].startswith("plan    cpu, brute: 4.485e+04 candidates")
    report = json.loads(run(capsys, "plan", "--edges", "0:1.5:15", "--json", path)[1])
    assert (report["status"], report["plan"]["kernel"]) == ("planned", "brute")


def test_neighbours(x, path, tmp_path, capsys):
    distances, indices = nearest(3, Points(x, box=1.0))
    words = ["knn", "-k", "3", "--box", "1"]
    code, out, err = run(capsys, *words, path)
    assert (code, err.startswith("found: 900 neighbours of 300 points, ")) == (0, True)
    rows = np.repeat(np.arange(300), 3)
    assert np.array_equal(table(out), np.column_stack([rows, indices.reshape(-1), distances.reshape(-1)]))
    run(capsys, *words, "-o", tmp_path / "knn.npy", path)
    assert np.array_equal(np.load(tmp_path / "knn.npy"), table(out)[:, :2])
    y = x[:50] + 0.1
    np.save(tmp_path / "y.npy", y)
    for metric, radius in (("euclidean", 0.2), ("manhattan", 0.3)):
        words = ["join", "--radius", radius, "--metric", metric, "-o", tmp_path / "join.npz", "--json"]
        code, out, err = run(capsys, *words, path, tmp_path / "y.npy")
        expected = within(radius, x, y, metric=metric)
        assert (code, err, json.loads(out)["neighbours"]) == (0, "", expected.nnz)
        found = scipy.sparse.load_npz(tmp_path / "join.npz")
        assert np.array_equal(found.toarray(), expected.toarray())
        assert found.nnz == expected.nnz > 0


def test_densities(x, path, tmp_path, capsys):
    code, out, err = run(capsys, "kde", "--bandwidth", "0.1", path)
    assert (code, table(out)[:, 0].tolist()) == (0, kde(x, bandwidth=0.1).values.tolist())
    assert err.startswith("found: densities of 300 points, bandwidth 0.1, relative errors of at most ")
    y, weights = x[:50] + 0.1, np.arange(300.0)
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "w.txt").write_text("\n".join(map(str, weights)))
    words = ["--bandwidth", "scott", "--kernel", "linear", "--log", "--weights", tmp_path / "w.txt"]
    expected = kde(x, y, bandwidth="scott", kernel="linear", weights=weights, log=True)
    for kind in ("npy", "npz", "txt"):
        target = tmp_path / f"out.{kind}"
        code, out, err = run(capsys, "kde", *words, "-o", target, "--json", path, tmp_path / "y.npy")
        report = json.loads(out)
        assert (code, err, report["status"], report["points"]) == (0, "", "found", 50)
        assert report["bandwidth"] == expected.bandwidth
        assert report["error_bound"] == expected.error_bound.max()
        found = table(target.read_text())[:, 0] if kind == "txt" else np.load(target)
        assert np.array_equal(found["values"] if kind == "npz" else found, expected.values)


WRONG = [
    (["kde"], 2, "kde: found no --bandwidth, expected a number, scott or silverman"),
    (["kde", "--bandwidth", "0"], 2, "argument --bandwidth: found 0, expected"),
    (["kde", "--bandwidth", "1", "--box", "2"], 2, "x: found points in a periodic box, expected open axes"),
    (["kde", "--bandwidth", "1", "--weights", "none.txt"], 3, "none.txt: No such file or directory"),
    (["hist", "--edges", "0:1:2", "--log"], 2, "--log: found with hist, which does not take it"),
    (["knn"], 2, "knn: found no -k, expected how many neighbours: -k 10"),
    (["knn", "-k", "300"], 2, "k: found 300, expected at most 299, the other points of x"),
    (["knn", "-k", "3", "--radius", "1"], 2, "--radius: found with knn, which does not take it"),
    (
        ["knn", "-k", "3", "--metric", "jaccard", "--device", "cuda"],
        2,
        "device: found cuda, expected auto or cpu for the metric jaccard",
    ),
    (["join", "--radius", "1,2"], 2, "join: found 2 numbers as --radius, expected one"),
    (["join", "--radius", "1", "--box", "1", "--metric", "jaccard"], 2, "box: found with the metric jaccard"),
    (["count", "--radius", "1", "--metric", "cosine"], 2, "--metric: found with count, which does not take"),
    (["hist"], 2, "hist: found no --edges, expected FROM:TO:BINS, log:FROM:TO:BINS or a file"),
    (["count"], 2, "count: found no --radius, expected one or several: --radius 0.1,0.2"),
    (["count", "--radius", "1", "--edges", "0:1:2"], 2, "--edges: found with count, which does not take it"),
    (["hist", "--edges", "0:1:2", "--radius", "1"], 2, "--radius: found with hist, which does not take it"),
    (["plan", "--edges", "0:1:2", "-o", "f"], 2, "-o: found with plan, which does not take it"),
    (["hist", "--edges", "1:0:2"], 2, "--edges: found 1:0:2, expected FROM:TO:BINS with FROM < TO and "),
    (["hist", "--edges", "0:1:0"], 2, "--edges: found 0:1:0, expected "),
    (["hist", "--edges", "100"], 2, "--edges: found 100, expected FROM:TO:BINS with FROM < TO and "),
    (["hist", "--edges", "log:0:1:5"], 2, "--edges: found log:0:1:5, expected "),
    (["hist", "--edges", "none.txt"], 3, "none.txt: No such file or directory"),
    (["count", "--radius", "-1"], 2, "argument --radius: found -1, expected numbers of at least 0"),
    (
        ["count", "--radius", "1", "--box", "-2"],
        2,
        "argument --box: found -2, expected lengths of at least 0",
    ),
    (["count", "--radius", "1", "--box", "1,1"], 2, "box: found shape (2,), expected (3,)"),
    (["count", "--radius", "1", "--box", "1"], 2, "images: found None for a largest edge of 1"),
    (["count", "--radius", "1", "--images", "most"], 2, "argument --images: found most"),
    (["hist", "--edges", "0:1:2", "--json", "-o", "-"], 2, "--json: -o is stdout already, expected a file"),
]


@pytest.mark.parametrize(("words", "code", "text"), WRONG, ids=lambda each: str(each)[:40])
def test_wrong_words(words, code, text, path, capsys):
    found, out, err = run(capsys, *words, path)
    assert (found, out) == (code, "")
    assert err.startswith(f"bmrm-pairs: {text}")
    assert err.count("\n") == 1


def test_wrong_data(x, path, tmp_path, capsys):
    x = x.copy()
    x[16, 1] = np.nan
    np.save(tmp_path / "bad.npy", x)
    words = ["hist", "--edges", "0:1:2"]
    code, _, err = run(capsys, *words, tmp_path / "bad.npy")
    assert (code, err.count("\n")) == (3, 1)
    assert "row 17, column 2" in err
    code, _, err = run(capsys, *words, f"{path}:1,9")
    assert (code, err) == (2, f"bmrm-pairs: {path}: found the column '9', expected a number from 1 to 3\n")
    code, _, err = run(capsys, *words, "-o", path, path)
    assert (code, err) == (2, f"bmrm-pairs: {path}: is POINTS itself, choose another file to write\n")
    (tmp_path / "edges.txt").write_text("0 one 2")
    code, _, err = run(capsys, "hist", "--edges", tmp_path / "edges.txt", path)
    assert code == 3
    assert "expected edges, one number per line" in err
    code, _, err = run(capsys, *words, f"{path}:1", path)
    assert (code, err) == (3, "bmrm-pairs: y: found 3 columns, expected 1 as in x\n")


COUNTING = """
import sys
from bmrm.pairs import passes
ranges = passes.task_ranges
def noted(*words):
    for each in ranges(*words):
        yield each
        open("counting", "w").close()
passes.task_ranges = noted
from bmrm.cli.pairs import main
sys.exit(main())
"""
"""The command, which makes a file when the first tasks are counted."""


def test_an_interrupt_writes_the_counts_so_far(tmp_path):
    np.save(tmp_path / "many.npy", np.random.default_rng(0).random((400_000, 3)))
    words = ["hist", "--edges", "0:2:20", "--plan", "float64", "--device", "cpu", "-o", tmp_path / "h.npz"]
    words += ["--threads", "1", "--json", tmp_path / "many.npy"]
    process = start_python(COUNTING, *words, cwd=tmp_path)
    while process.poll() is None and not (tmp_path / "counting").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    report, found = json.loads(out), Histogram.load(tmp_path / "h.npz")
    assert report["status"] == "interrupted"
    assert 0.0 < report["share"] == found.share < 1.0
    assert report["counts"] == found.counts.tolist()


def test_edges_of_damaged_files(path, tmp_path, capsys):
    edges = tmp_path / "edges.npy"
    np.save(edges, np.linspace(0, 1, 9))
    whole = edges.read_bytes()
    for content in (
        whole[:-8],
        whole[:70],
        whole.replace(b"(9,)", b"(9e9", 1),
        whole.replace(b"(9,)", b"(3,3)", 1),
    ):
        edges.write_bytes(content)
        code, out, err = run(capsys, "hist", "--edges", edges, path)
        assert (code, out, err.count("\n")) == (3, "", 1)
        assert err.startswith(f"bmrm-pairs: {edges}: found ")
    np.save(edges, np.zeros((2, 2)))
    code, _, err = run(capsys, "hist", "--edges", edges, path)
    assert (code, err) == (3, f"bmrm-pairs: {edges}: found an array of 2 dimensions, expected 1\n")
