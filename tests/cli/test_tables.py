"""The commands on CSV, Parquet, and labels in a file of their own."""

import json

import numpy as np
import pytest
from commands import two_classes

from bmrm.linear.models.model import Model

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import csv, parquet  # noqa: E402


@pytest.fixture
def tables(data, folder):
    """Write the rows of ``data`` as CSV, Parquet and npy with labels apart."""
    X, y = two_classes()
    columns = {"row": np.arange(60), **{f"x{j}": X[:, j] for j in range(5)}, "class": y}
    csv.write_csv(pyarrow.table(columns), folder / "d.csv")
    parquet.write_table(pyarrow.table(columns), folder / "d.parquet")
    np.save(folder / "d.npy", X)
    (folder / "y").write_text("".join(f"{label:g}\n" for label in y))
    named = ["--label", "class", "--drop", "row"]
    return {"d.csv": named, "d.parquet": named, "d.npy": ["--labels", "y"]}


@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.npy"])
def test_a_table_gives_the_model_and_predictions_of_the_text(
    name, tables, data, folder, bmrm_train, bmrm_predict
):
    words = tables[name]
    text = json.loads(bmrm_train("--json", data, "m1").out)
    table = json.loads(bmrm_train("--json", *words, name, "m2").out)
    assert table["objective"] == pytest.approx(text["objective"], rel=2e-3)
    first, second = bmrm_predict(data, "m2", "o1"), bmrm_predict(*words, name, "m2", "o2")
    assert first == second
    assert first.out.startswith("Accuracy = ")
    assert (folder / "o1").read_bytes() == (folder / "o2").read_bytes()
    assert bmrm_train("-q", "-v", "3", *words, name).code == 0
    assert bmrm_train("-q", "-C", "--lambdas", "0.1,0.01", *words, name, "m3").code == 0


def test_prediction_without_labels(tables, folder, bmrm_train, bmrm_predict):
    assert bmrm_train("-q", *tables["d.csv"], "d.csv", "m").code == 0
    code, out, err = bmrm_predict("--drop", "row,class", "d.csv", "m", "o")
    assert (code, out, err) == (0, "", "")
    assert len((folder / "o").read_text().splitlines()) == 60


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["d.csv", "m"],
            3,
            "--label names a column, or as format csv)",
        ),
        (
            ["--label", "klass", "d.csv", "m"],
            3,
            "d.csv: found no column 'klass', expected one of 'row', 'x0'",
        ),
        (["--labels", "y", "d.csv", "m"], 3, "not a table"),
        (
            ["--labels", "short", "d.npy", "m"],
            3,
            "short: found 1 labels, expected one for each of the 60 rows",
        ),
        (["--labels", "words", "d.npy", "m"], 3, "words:2: found 'cat', expected a label: a finite number"),
        (["--labels", "y", "train.txt", "m"], 3, "--labels: found labels in DATA too, expected none there"),
        (["--labels", "y", "d.npy", "y"], 2, "y: is --labels itself"),
        (["--label", "a", "d.npy", "m"], 3, "d.npy: found a npy file, whose columns have no names"),
        (["--format", "excel", "d.csv", "m"], 2, "argument --format: found excel"),
    ],
)
def test_bad_input(words, code, message, tables, folder, bmrm_train):
    (folder / "short").write_text("1\n")
    (folder / "words").write_text("1\ncat\n")
    outcome = bmrm_train(*words)
    assert (outcome.code, outcome.out) == (code, "")
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not (folder / "m").exists()


@pytest.mark.parametrize(
    "words", [[], ["--calibrate", "platt"], ["-C", "--lambdas", "0.1,0.01"], ["--checkpoint", "k"]]
)
def test_a_model_keeps_the_names_of_the_columns(words, tables, folder, bmrm_train, bmrm_info):
    for name in ("d.csv", "d.parquet"):
        assert bmrm_train("-q", *words, *tables[name], name, "m").code == 0
        assert Model.load("m").feature_names == ("x0", "x1", "x2", "x3", "x4")
    if "k" in words:
        assert Model.load("k").feature_names == ("x0", "x1", "x2", "x3", "x4")
    assert bmrm_info("--top", "1", "m").out.splitlines()[-1].split()[1].startswith("x")


def test_labels_without_a_table_have_no_names(tables, folder, bmrm_train):
    assert bmrm_train("-q", *tables["d.npy"], "d.npy", "m").code == 0
    assert Model.load("m").feature_names is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["x1", "x0", "x2", "x3", "x4", "class"], "t.csv: found 'x1' as column 1, expected 'x0' as in tr"),
        (["x0", "x1", "x2", "x3", "class"], "t.csv: found no column 'x4', expected the columns of training"),
        (
            ["id", "x0", "x1", "x2", "x3", "x4", "class"],
            "t.csv: found the column 'id', expected those of training (--label or --drop excludes it)",
        ),
    ],
)
def test_other_columns_are_refused(columns, message, tables, folder, bmrm_train, bmrm_predict):
    table = csv.read_csv("d.csv").append_column("id", pyarrow.array(range(60)))
    csv.write_csv(table.select(columns), "t.csv")
    assert bmrm_train("-q", *tables["d.csv"], "d.csv", "m").code == 0
    outcome = bmrm_predict("--label", "class", "t.csv", "m", "o")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (3, "", 1)
    assert message in outcome.err
    assert not (folder / "o").exists()
    for option in ("--warm-start", "--prior"):
        outcome = bmrm_train(option, "m", "--label", "class", "t.csv", "m2")
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (3, "", 1)
        assert f"bmrm-train: {option}: found" in outcome.err
        assert not (folder / "m2").exists()


def test_names_do_not_hinder_a_start_from_the_same_columns(tables, folder, data, bmrm_train, bmrm_predict):
    words = tables["d.csv"]
    assert bmrm_train("-q", *words, "d.csv", "m").code == 0
    for option in ("--warm-start", "--prior"):
        assert bmrm_train("-q", option, "m", *words, "d.csv", "m2").code == 0
        assert bmrm_train("-q", option, "m", data, "m2").code == 0
    assert bmrm_predict("-q", data, "m", "o").code == 0


@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.npy", "words"])
def test_a_dry_run_reads_what_training_reads(name, tables, folder, bmrm_train):
    (folder / "words").write_text("a 1:1\nb 2:1\nc 1:2\n")
    words = tables.get(name, ["--text-labels", "--loss", "multiclass"])
    outcome = bmrm_train("--dry-run", *words, name)
    assert (outcome.code, outcome.err) == (0, "")
    expected = "3 rows, 2 features, 3 nonzeros" if name == "words" else "60 rows, 5 features, 300 nonzeros"
    assert outcome.out.splitlines()[0] == expected
