"""Features numbered from 0 or from 1: what a model stores, and the effect on other files."""

import numpy as np
import pytest
import scipy.sparse as sp
from commands import write_svmlight

import bmrm
from bmrm.errors import DataError
from bmrm.io import iter_svmlight, read_data
from bmrm.linear.models.model import Model

RNG = np.random.default_rng(6)
X = RNG.standard_normal((60, 4)).round(3)
Y = np.where(X[:, 1] > 0, 1, -1)


def write(path, first, rows=slice(None), columns=range(4)):
    """Return some columns as text, with features numbered from ``first``."""
    lines = [
        f"{y:+d} " + " ".join(f"{j + first}:{row[j]}" for j in columns)
        for y, row in zip(Y[rows], X[rows], strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def files(folder):
    """Training rows with a feature 0, and test rows without it."""
    return write(folder / "train.svm", 0), write(folder / "test.svm", 0, columns=range(1, 4))


def accuracy(outcome):
    assert outcome.code == 0
    return outcome.out.splitlines()[0]


@pytest.mark.parametrize("how", ["solve", "Dataset", "path", "select", "CSC", "float32"])
def test_a_model_of_python_remembers(files, folder, how, bmrm_train, bmrm_predict):
    train, test = files
    A, y = bmrm.load_svmlight(train)
    assert A.zero_based
    results = {
        "solve": lambda: bmrm.solve(A, y, lam=1e-3),
        "Dataset": lambda: bmrm.solve(bmrm.Dataset(A, y), lam=1e-3),
        "path": lambda: bmrm.path(A, y, [1e-3])[0],
        "select": lambda: bmrm.select(A, y, [1e-3], 3).result,
        "CSC": lambda: bmrm.solve(marked(A.tocsc(), A.zero_based), y, lam=1e-3),
        "float32": lambda: bmrm.solve(bmrm.load_svmlight(train, dtype="float32")[0], y, lam=1e-3),
    }
    result = results[how]()
    assert result.zero_based
    result.save("python")
    assert Model.load("python").zero_based
    bmrm_train("-q", "--lambda", "1e-3", train, "command")
    right = bmrm_predict(test, "command", "one")
    found = bmrm_predict(test, "python", "other")
    assert accuracy(found) == accuracy(right)
    assert found.err == right.err == ""


def marked(A, zero_based):
    A.zero_based = zero_based
    return A


def test_the_numbering_can_be_given_when_saving(folder):
    result = bmrm.solve(X, Y, lam=0.1)
    assert result.zero_based is None
    for zero_based in (None, True, False):
        result.save("model", zero_based=zero_based)
        assert Model.load("model").zero_based is zero_based
    said = Model.from_result(result, zero_based=True)
    assert said.zero_based


def test_readers_report_the_numbering(files):
    train, test = files
    assert [bmrm.load_svmlight(name)[0].zero_based for name in files] == [True, False]
    assert bmrm.load_svmlight(test, zero_based=True)[0].zero_based
    assert [read_data(name).zero_based for name in files] == [True, False]
    for name in files:
        said = []
        chunks = list(iter_svmlight(name, rows_bytes=300, numbered=said.append))
        assert said == [name == train] * len(chunks)


def test_data_numbered_otherwise_are_refused(files):
    train, test = files
    A, y = bmrm.load_svmlight(train)
    B, _ = bmrm.load_svmlight(test, n_features=4)
    result = bmrm.solve(A, y, lam=1e-3)
    with pytest.raises(
        DataError, match="model: found features numbered from 1 in the data, expected from 0; "
    ):
        result.predict(B)
    with pytest.raises(DataError, match="read the data with zero_based=True"):
        Model.from_result(result).predict_probability(B)
    B, _ = bmrm.load_svmlight(test, n_features=4, zero_based=A.zero_based)
    assert (result.predict(B) == Y).mean() > 0.9
    # Files without a numbering are accepted unchanged.
    np.testing.assert_array_equal(result.predict(B.toarray()), result.predict(B))
    np.testing.assert_array_equal(result.predict(sp.csr_matrix(B.toarray())), result.predict(B))


def test_a_prior_of_features_numbered_otherwise_is_refused(files, folder, bmrm_train):
    train, test = files
    A, y = bmrm.load_svmlight(train)
    B, _ = bmrm.load_svmlight(test, n_features=4)
    prior = bmrm.solve(A, y, lam=1e-3)
    with pytest.raises(DataError, match="prior: found features numbered from 1 in the data, expected from 0"):
        bmrm.solve(B, y, prior=prior)
    prior.save("prior")
    for options in ([], ["-v", "3"], ["-C"]):
        outcome = bmrm_train("--prior", "prior", "--n-features", "4", *options, test, "model")
        assert outcome.code == 3
        assert "--prior: found features numbered from 1 in the data, expected from 0" in outcome.err
    assert bmrm_train("-q", "--prior", "prior", "--zero-based", "yes", test, "model").code == 0


NOTE = "bmrm-predict: note: the model does not say whether features are numbered from 0 or 1"


@pytest.mark.parametrize(
    ("columns", "first", "words", "noted"),
    [
        (range(1, 4), 0, [], True),  # 1 to 3 of 4 features: the first three, or the last
        (range(0, 4), 0, [], False),  # feature 0 shows it
        (range(0, 4), 1, [], False),  # and so does feature 4
        (range(1, 4), 0, ["--zero-based", "no"], False),
        (range(1, 4), 0, ["-q"], False),
        ((), 0, [], False),  # nothing to number
    ],
)
def test_predict_prints_a_note_if_it_guesses(folder, bmrm_predict, columns, first, words, noted):
    bmrm.solve(X, Y, lam=0.1).save("model")
    outcome = bmrm_predict(*words, write(folder / "test.svm", first, columns=columns), "model", "out")
    assert outcome.code == 0
    assert outcome.err.startswith(NOTE) == noted
    assert noted or not outcome.err


def test_predict_prints_the_note_for_rankings_too(folder, bmrm_predict):
    groups = np.arange(60) // 6
    bmrm.solve(X, (X[:, 1] * 2).round(), loss="pairwise", groups=groups, lam=0.1).save("model")
    lines = [f"{y} qid:{g} 1:{row[0]} 2:{row[1]}\n" for y, g, row in zip(Y, groups, X, strict=True)]
    (folder / "test.svm").write_text("".join(lines))
    assert bmrm_predict("test.svm", "model", "out").err.startswith(NOTE)


def test_files_other_than_text_have_no_numbering(folder, bmrm_predict):
    bmrm.solve(X, Y, lam=0.1).save("model")
    np.save("rows.npy", X)
    assert bmrm_predict("rows.npy", "model", "out").err == ""


def test_models_of_the_command_need_no_note(folder, bmrm_train, bmrm_predict):
    train = write_svmlight(folder / "train", X, Y)
    bmrm_train("-q", train, "model")
    outcome = bmrm_predict(write(folder / "test", 1, columns=range(0, 3)), "model", "out")
    assert outcome.err == ""
