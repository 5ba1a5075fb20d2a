"""The commands on data whose labels are text: training, class weights, prediction, scores, bad input."""

import json

import numpy as np
import pytest
from commands import start, two_classes

from bmrm.linear.models.model import Model

NAMES = {-1.0: "ham", 1.0: "spam"}


def svmlight(labels, X) -> str:
    rows = (" ".join(f"{j + 1}:{value}" for j, value in enumerate(row)) for row in X.tolist())
    return "".join(f"{label} {row}\n" for label, row in zip(labels, rows, strict=True))


@pytest.fixture
def words(folder):
    """Write the rows of ``data`` with words as labels, and the labels in a file of their own."""
    X, y = two_classes()
    labels = [NAMES[label] for label in y]
    (folder / "words").write_text(svmlight(labels, X))
    np.save(folder / "X.npy", X)
    (folder / "labels").write_text("\n".join(labels) + "\n")
    header = ",".join(f"x{j}" for j in range(5))
    rows = (",".join(map(str, row)) for row in X.tolist())
    lines = [f"{row},{label}" for row, label in zip(rows, labels, strict=True)]
    (folder / "words.csv").write_text("\n".join([f"{header},kind", *lines]) + "\n")
    return "words"


@pytest.mark.parametrize(
    ("training", "test"),
    [
        (["--text-labels", "words"], ["words"]),
        (["--label", "kind", "words.csv"], ["--label", "kind", "words.csv"]),
        (["--text-labels", "--labels", "labels", "X.npy"], ["--labels", "labels", "X.npy"]),
    ],
)
def test_text_gives_the_model_of_numbers(
    training, test, words, data, folder, bmrm_train, bmrm_predict, bmrm_info
):
    if "words.csv" in training:
        pytest.importorskip("pyarrow")
    common = ("--lambda", "1e-2", "--json", "--class-weight")
    numbers = json.loads(bmrm_train(*common, "1=2", data, "m1").out)
    texts = json.loads(bmrm_train(*common, "spam=2", *training, "m2").out)
    assert texts["objective"] == pytest.approx(numbers["objective"], rel=2e-3)
    model = Model.load("m2")
    assert (model.classes, model.label_type) == (("ham", "spam"), "str")
    scores = [json.loads(bmrm_predict("--json", data, "m1", "o1").out)]
    scores += [json.loads(bmrm_predict("--json", *test, "m2", "o2").out)]
    assert scores[0]["accuracy"] == scores[1]["accuracy"] > 0.8
    assert scores[0]["auc"] == pytest.approx(scores[1]["auc"], rel=1e-2)
    predicted = [NAMES[float(line)] for line in (folder / "o1").read_text().splitlines()]
    assert (folder / "o2").read_text().splitlines() == predicted
    assert "ham, spam" in bmrm_info("m2").out


def test_several_classes_and_probabilities(folder, bmrm_train, bmrm_predict):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = np.round(rng.standard_normal((90, 3)) + 2 * np.eye(3)[y], 3)
    labels = np.array(["straße", "avenue", "rue,1"])[y]
    (folder / "d").write_text(svmlight(labels, X), encoding="utf-8")
    assert bmrm_train("-q", "--text-labels", "--loss", "softmax", "-wavenue", "0.5", "d", "m").code == 0
    outcome = bmrm_predict("-b", "1", "d", "m", "o")
    assert outcome.code == 0
    assert outcome.out.startswith("Accuracy = ")
    lines = (folder / "o").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "labels avenue rue,1 straße"
    assert {line.split()[0] for line in lines[1:]} == set(labels)
    assert bmrm_train("-q", "-v", "3", "--text-labels", "--loss", "multiclass", "d").code == 0
    words = ("--text-labels", "--loss", "multiclass", "--lambdas", "0.1,0.01", "-C")
    assert bmrm_train("-q", *words, "d", "m").code == 0
    assert Model.load("m").classes == ("avenue", "rue,1", "straße")


def test_several_labels_per_row(folder, bmrm_train, bmrm_predict):
    (folder / "d").write_text("red,round 1:1 2:1\nround 2:1\nred 1:1\n" * 5)
    assert bmrm_train("-q", "--text-labels", "--loss", "multilabel", "-B", "1", "d", "m").code == 0
    assert Model.load("m").classes == ("red", "round")
    report = json.loads(bmrm_predict("--json", "d", "m", "o").out)
    assert report["accuracy"] == 1.0
    assert (folder / "o").read_text().splitlines()[:3] == ["red,round", "round", "red"]
    (folder / "bad").write_text("red 1:1\nred,,round 1:1\n")
    outcome = bmrm_predict("bad", "m", "none")
    assert outcome.code == 3
    assert "row 2 has 'red,,round', expected labels joined by commas" in outcome.err
    assert not (folder / "none").exists()


def test_a_checkpoint_and_a_configuration_file(words, folder, bmrm_train):
    (folder / "c.toml").write_text('text-labels = true\nclass-weight = {spam = 2.0, "ham" = 1}\n')
    common = ("-q", "--config", "c.toml", "--tol", "1e-5")
    assert bmrm_train(*common, "--max-iter", "2", "--checkpoint", "k", words, "m").code == 4
    assert bmrm_train(*common, "--resume", "k", words, "m").code == 0
    assert Model.load("m").classes == ("ham", "spam")


def test_an_unknown_word_counts_as_wrong(words, folder, bmrm_train, bmrm_predict):
    assert bmrm_train("-q", "--text-labels", words, "m").code == 0
    (folder / "test").write_text("eggs 1:1\n")
    assert json.loads(bmrm_predict("--json", "test", "m", "o").out)["correct"] == 0


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (
            ["words", "m"],
            3,
            'words:1:1: found "ham", expected a label: a finite number (labels="text" or',
        ),
        (["--text-labels", "--loss", "squared", "words", "m"], 3, "labels: found text"),
        (["--text-labels", "--loss", "ordinal", "words", "m"], 3, "found text as labels, expected numbers"),
        (["--text-labels", "-wegg", "words", "m"], 2, "-wegg: found no such option"),
        (["--text-labels", "--class-weight", "=2", "words", "m"], 2, "found =2, expected LABEL=WEIGHT"),
        (["--text-labels", "--class-weight", "spam=x", "words", "m"], 2, "found spam=x, expected LABEL=WEI"),
        (["-wspam", "2", "train.txt", "m"], 2, "--class-weight: found label spam, expected a number like"),
        (["--text-labels", "-s", "2", "three", "m"], 3, "-s: found text as labels, expected 32-bit integers"),
        (["--text-labels", "--export", "liblinear", "words", "m"], 2, "found label 'ham', expected a 32-bit"),
        (["--text-labels", "--labels", "short", "X.npy", "m"], 3, "short: found 1 labels, expected one for"),
        (
            ["--text-labels", "--labels", "blank", "X.npy", "m"],
            3,
            "blank:2: found an empty line, expected a",
        ),
        (["--text-labels", "--labels", "latin", "X.npy", "m"], 3, "latin:1: found bytes that are not UTF-8"),
    ],
)
def test_bad_input_is_one_line_and_no_model(given, code, message, words, data, folder, bmrm_train):
    (folder / "three").write_text("a 1:1\nb 2:1\nc 3:1\n")
    (folder / "short").write_text("a\n")
    (folder / "blank").write_text("a\n\n")
    (folder / "latin").write_bytes(b"\xff\n")
    outcome = bmrm_train(*given)
    assert (outcome.code, outcome.err.count("\n")) == (code, 1)
    assert message in outcome.err
    assert not (folder / "m").exists()


@pytest.mark.parametrize(
    ("training", "test", "message"),
    [
        (["--text-labels", "words"], ["n.npz"], "found a npz file whose labels are numbers, expected text"),
        (["train.txt"], ["words"], 'words:1:1: found "ham", expected a label: a finite number'),
        (["train.txt"], ["--label", "kind", "words.csv"], "labels: found text, expected numbers like the cl"),
        (["--text-labels", "words"], ["words.csv"], "found no index:value on any line"),
    ],
)
def test_a_test_file_of_other_labels_writes_nothing(
    training, test, message, words, data, folder, bmrm_train, bmrm_predict
):
    if "--label" in test:
        pytest.importorskip("pyarrow")
    np.savez("n", format="csr", shape=(1, 5), indptr=[0, 1], indices=[0], data=[1.0], y=[1.0])
    assert bmrm_train("-q", *training, "m").code == 0
    outcome = bmrm_predict(*test, "m", "o")
    assert (outcome.code, outcome.err.count("\n")) == (3, 1)
    assert message in outcome.err
    assert not (folder / "o").exists()


def test_words_from_stdin(words, folder, bmrm_train):
    assert bmrm_train("-q", "--text-labels", words, "m1").code == 0
    with (folder / "words").open() as text:
        process = start("train", "-q", "--text-labels", "-", "m2", stdin=text)
        assert process.communicate() == ("", "")
    assert (Model.load("m1").w == Model.load("m2").w).all()


def test_predicted_words_are_those_of_the_file(folder, bmrm_train, bmrm_predict):
    labels = ["\U0001f469\u200d\U0001f52c", "caf\u00e9\u00a0noir", "\u202eabc"]
    (folder / "d").write_text("".join(f"{label} {i + 1}:1\n" for i, label in enumerate(labels)), "utf-8")
    assert bmrm_train("-q", "--text-labels", "--loss", "multiclass", "d", "m").code == 0
    assert bmrm_predict("-q", "d", "m", "o").code == 0
    assert (folder / "o").read_text("utf-8").splitlines() == labels


def test_labels_of_a_table_may_have_any_characters(folder, bmrm_train, bmrm_predict):
    pytest.importorskip("pyarrow")
    (folder / "d.csv").write_text('x,y\n1,"New York"\n-1,"a\nb\x1b"\n')
    assert bmrm_train("-q", "--loss", "logistic", "--label", "y", "d.csv", "m").code == 0
    assert bmrm_predict("-q", "--label", "y", "d.csv", "m", "o").code == 0
    assert (folder / "o").read_text().splitlines() == ["New York", r"a\nb\x1b"]
    outcome = bmrm_predict("-b", "1", "--label", "y", "d.csv", "m", "o2")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "bmrm-predict: -b 1: found label 'New York', expected labels without blanks\n"
    assert not (folder / "o2").exists()


def test_too_long_labels_are_refused_before_memory_runs_out(folder, bmrm_train):
    (folder / "d").write_text("x" * 1_000_000 + " 1:1\n" + "y 1:1\n" * 200_000)
    outcome = bmrm_train("--text-labels", "d", "m")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
    assert "200001 labels of d" in outcome.err
    assert not (folder / "m").exists()
