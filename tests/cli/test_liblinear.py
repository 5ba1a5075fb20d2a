"""LIBLINEAR's command lines: same flags, same optimum, its model files read; LIBLINEAR itself is the peer."""

import json

import numpy as np
import pytest
from commands import write_svmlight

from bmrm import Model
from bmrm.cli.options import parse
from bmrm.cli.solver_types import SOLVER_TYPES
from bmrm.errors import DataError

C = 0.05  # with which all of LIBLINEAR's solvers converge


def run_peer(words: str, data, model) -> float | None:
    """Train with LIBLINEAR of the package, whose version is known; return the accuracy of -v in percent."""
    util = pytest.importorskip("liblinear.liblinearutil")
    found = util.train(*util.svm_read_problem(str(data)), words)
    return found if "-v" in words else util.save_model(str(model), found)


def draw(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows; labels of two or three classes that overlap, or real labels."""
    rng = np.random.default_rng(5)
    X = np.round(rng.standard_normal((90, 6)), 3)
    scores = X @ rng.standard_normal((6, 3)) + rng.standard_normal((90, 3))
    if kind == "one":
        return X + 2.0, np.ones(90)
    if kind == "reals":
        return X, np.round(scores[:, 0], 3)
    if kind == "two":
        return X, np.where(scores[:, 0] > 0.3, 7.0, 2.0)
    return X, np.array([4.0, -1.0, 2.0])[scores.argmax(axis=1)]


def losses_of(number: int, u: np.ndarray, y: np.ndarray, epsilon: float) -> np.ndarray:
    """Evaluate the loss of a solver type; ``y`` is -1 or +1, or real."""
    name = SOLVER_TYPES[number].loss
    if name == "logistic":
        return np.logaddexp(0.0, -y * u)
    away = abs(u - y) - epsilon if "insensitive" in name else 1.0 - y * u
    excess = np.maximum(0.0, away)
    return excess**2 if name.startswith("squared") else excess


def objectives(words: str, model: Model, X: np.ndarray, y: np.ndarray) -> list[float]:
    """Evaluate LIBLINEAR's objective, one per class that is trained on its own."""
    options = parse([*words.split(), "data"])
    number = options.solver_type
    w, b = model.w.reshape(len(model.w), -1), np.atleast_1d(model.intercept)
    cost, weight = options.cost, options.class_weight or {}
    u = X @ w + b
    penalised = np.vstack([w, b / options.bias]) if options.bias > 0 else w
    if SOLVER_TYPES[number].reg == "l1":
        sizes = abs(penalised).sum(axis=0)
    else:
        sizes = 0.5 * (penalised**2).sum(axis=0)
    if SOLVER_TYPES[number].kind == "novelty":
        nu = options.loss_params["nu"]
        return [float(sizes[0] + np.maximum(0.0, -u).sum() + nu * len(y) * b[0])]
    if SOLVER_TYPES[number].kind == "regression":
        epsilon = options.loss_params.get("epsilon", 0.1)
        return [float(sizes[0] + cost * losses_of(number, u[:, 0], y, epsilon).sum())]
    row_weight = np.array([weight.get(label, 1.0) for label in y])
    if SOLVER_TYPES[number].kind == "joint":
        codes = np.searchsorted(model.classes, y)
        own = np.arange(len(y)), codes
        margins = u + 1.0 - u[own][:, None]
        margins[own] -= 1.0
        return [float(sizes.sum() + cost * (row_weight * margins.max(axis=1)).sum())]
    if w.shape[1] == 1:
        sign = np.where(y == model.classes[1], 1.0, -1.0)
        return [float(sizes[0] + cost * (row_weight * losses_of(number, u[:, 0], sign, 0.0)).sum())]
    found = []
    for k, label in enumerate(model.classes):
        sign = np.where(y == label, 1.0, -1.0)
        each = np.where(sign > 0, weight.get(label, 1.0), 1.0) * losses_of(number, u[:, k], sign, 0.0)
        found.append(float(sizes[k] + cost * each.sum()))
    return found


LINES = [
    *((f"-s {number} -c {C}", "two") for number in (0, 1, 2, 3, 4, 5, 6, 7)),
    *((f"-s {number} -c {C}", "three") for number in (0, 1, 2, 3, 4, 5, 6, 7)),
    *((f"-s {number} -c {C}", "reals") for number in (11, 12, 13)),
    ("-s 1", "two"),
    ("-s 2 -B 1", "two"),
    ("-s 0 -B 2.5", "three"),
    ("-s 6 -B 1", "two"),
    ("-s 0 -B 1 -R", "two"),
    ("-s 5 -B 1 -R", "two"),
    ("-s 2 -R -B 1", "three"),
    ("-s 11 -B 1 -R", "reals"),
    ("-s 3 -w2 3 -w7 0.5 -c 0.1", "two"),
    ("-s 0 -w4 3 -w-1 0.5", "three"),
    ("-s 4 -w2 2", "three"),
    ("-s 13 -p 0.3 -B 1 -c 0.1", "reals"),
    ("-s 11 -p 0.5 -c 4", "reals"),
    ("-s 21 -n 0.2", "one"),
    ("-s 21", "one"),
]


@pytest.mark.parametrize(("words", "kind"), LINES)
def test_same_command_line_same_optimum(words, kind, folder, bmrm_train):
    X, y = draw(kind)
    path = write_svmlight(folder / "data", X, y)
    run_peer(f"{words} -e 1e-8 -q", path, "theirs")
    outcome = bmrm_train(*words.split(), "-e", "1e-8", "-q", path, "ours")
    assert outcome == (0, "", "")
    ours, theirs = Model.load("ours"), Model.load("theirs")
    assert ours.classes == theirs.classes
    wanted = objectives(words, theirs, X, y)
    assert objectives(words, ours, X, y) == pytest.approx(wanted, rel=1e-3)
    assert len(wanted) == (3 if kind == "three" and "-s 4" not in words else 1)


@pytest.mark.parametrize("kind", ["two", "three"])
def test_cross_validation_prints_liblinears_line(kind, folder, bmrm_train, capfd):
    path = write_svmlight(folder / "data", *draw(kind))
    share = run_peer("-s 2 -v 9 -q", path, "none")
    capfd.readouterr()  # the package prints the line too
    code, out, err = bmrm_train("-s", "2", "-v", "9", path)
    assert (code, err) == (0, "")
    assert out.startswith("Cross Validation Accuracy = ")
    found = float(out.split("=")[1].split("%")[0])
    assert abs(found - share) < 10.0  # folds are dealt at random, of 90 rows
    outcome = bmrm_train("-s", "2", "-v", "9", "--json", path)
    assert json.loads(outcome.out)["accuracy"] == pytest.approx(found / 100)


def test_selection_starts_from_the_given_cost_and_trains(folder, bmrm_train):
    X, y = draw("two")
    path = write_svmlight(folder / "data", X, y)
    code, out, _ = bmrm_train("-C", "-s", "0", "-v", "3", "-c", "0.5", "-e", "1e-8", "--json", path, "ours")
    assert code == 0
    document = json.loads(out)
    costs = sorted(1.0 / (90 * each["lambda"]) for each in document["selection"]["grid"])
    assert costs == pytest.approx([0.5 * 2.0**k for k in range(12)])
    cost = 1.0 / (90 * document["lambda"])
    words = f"-s 0 -c {cost!r}"
    run_peer(f"{words} -e 1e-8 -q", path, "theirs")
    found, wanted = (objectives(words, Model.load(name), X, y) for name in ("ours", "theirs"))
    assert found == pytest.approx(wanted, rel=1e-3)


def test_selection_of_several_classes(folder, bmrm_train):
    X, y = draw("three")
    path = write_svmlight(folder / "data", X, y)
    words = ("-s", "0", "-w4", "3", "-e", "1e-8")
    code, out, err = bmrm_train("-C", "-c", "0.01", "--json", *words, path, "ours")
    assert code == 0
    found = json.loads(out)
    grid = found["selection"]["grid"]
    assert [each["C"] for each in grid] == [0.01 * 2.0**k for k in range(17)]
    best = max(grid, key=lambda each: each["accuracy"])
    assert found["selection"]["C"] == best["C"]
    assert len(err.splitlines()) == 18
    single = json.loads(bmrm_train("-v", "5", "-c", best["C"], "--json", *words, path).out)
    assert single["accuracy"] == best["accuracy"]
    run_peer(f"-s 0 -w4 3 -c {best['C']!r} -e 1e-8 -q", path, "theirs")
    words = f"-s 0 -w4 3 -c {best['C']!r}"
    wanted = objectives(words, Model.load("theirs"), X, y)
    assert objectives(words, Model.load("ours"), X, y) == pytest.approx(wanted, rel=1e-3)
    table = json.loads(bmrm_train("-s", "3", "-v", "3", "--lambdas", "1,0.1", "--json", path).out)
    assert len(table["selection"]["grid"]) == 2


def test_weights_of_rows_count_in_every_class(folder, bmrm_train):
    X, y = draw("three")
    path = write_svmlight(folder / "data", np.vstack([X, X[:20]]), np.append(y, y[:20]))
    (folder / "weights").write_text("".join(f"{1 + (i < 20)}\n" for i in range(90)))
    assert bmrm_train("-s", "0", "-e", "1e-9", "-q", path, "repeated").code == 0
    path = write_svmlight(folder / "data", X, y)
    words = ("-s", "0", "-e", "1e-9", "-q", "--sample-weight", "weights", path, "weighted")
    assert bmrm_train(*words).code == 0
    weighted, repeated = Model.load("weighted"), Model.load("repeated")
    np.testing.assert_allclose(weighted.w, repeated.w, rtol=1e-3, atol=1e-4)


def test_one_against_the_rest_certifies_each_class(folder, bmrm_train):
    path = write_svmlight(folder / "data", *draw("three"))
    code, out, err = bmrm_train("-s", "3", path, "model")
    assert (code, err) == (0, "")
    assert out.startswith("3 classes, one against the rest, ")
    assert "class -1     converged after " in out
    document = json.loads(bmrm_train("-s", "3", "--json", path, "model").out)
    assert [each["label"] for each in document["classes"]] == [-1.0, 2.0, 4.0]
    assert all(each["gap"] <= 1e-3 * each["objective"] for each in document["classes"])
    assert (folder / "model").read_text().startswith("solver_type L2R_L1LOSS_SVC_DUAL\nnr_class 3\n")


@pytest.mark.parametrize("words", ["-s 0 -B 1", "-s 2"])
def test_warm_start_from_liblinears_model(words, folder, bmrm_train):
    path = write_svmlight(folder / "data", *draw("three"))
    run_peer(f"{words} -e 1e-8 -q", path, "theirs")
    cold, warm = (
        json.loads(bmrm_train(*words.split(), "--json", *more, path, "ours").out)["classes"]
        for more in ([], ["--warm-start", "theirs"])
    )
    assert sum(each["iterations"] for each in warm) < sum(each["iterations"] for each in cold)


def test_the_readmes_examples_run_under_its_name(folder, bmrm_train, bmrm_predict):
    """With ``alias train="bmrm-train -s 1"``, as docs/migration.md says: a later -s overrides the first."""
    two, three = (write_svmlight(folder / kind, *draw(kind)) for kind in ("two", "three"))
    for line in (
        f"{two}",
        f"{three}",
        f"-s 0 {two}",
        f"-s 21 -n 0.1 {two}",
        f"-v 5 -e 0.001 {two}",
        f"-C {two}",
        f"-C {three}",
        f"-C -s 0 -v 3 -c 0.5 -e 0.0001 {two}",
        f"-c 10 -w-1 2 -w2 5 -w4 2 {three}",
        f"-c 10 -w7 1 -w2 5 {two}",
    ):
        code, _, _ = bmrm_train("-s", "1", *line.split())
        assert code == 0, line
    assert bmrm_train("-s", "1", "-s", "0", three).code == 0
    code, out, _ = bmrm_predict("-b", "1", three, "three.model", "output")
    assert code == 0
    assert out.startswith("Accuracy = ")
    first, *rows = (folder / "output").read_text().splitlines()
    assert first == "labels -1 2 4"
    table = np.array([row.split() for row in rows], float)
    np.testing.assert_allclose(table[:, 1:].sum(axis=1), 1.0)
    assert (table[:, 0] == np.array([-1, 2, 4])[table[:, 1:].argmax(axis=1)]).all()


@pytest.mark.parametrize(
    ("words", "kind", "options"),
    [
        ("-s 0 -B 1", "two", "-b 1"),
        ("-s 0 -B 1", "three", "-b 1"),
        ("-s 6", "three", "-b 1"),
        ("-s 2", "two", ""),
        ("-s 1 -B 3", "three", ""),
        ("-s 4", "three", ""),
        ("-s 4", "two", ""),
        ("-s 12 -B 1", "reals", ""),
        ("-s 21", "one", ""),
    ],
)
def test_prediction_from_liblinears_model_is_its_own(words, kind, options, folder, bmrm_predict):
    util = pytest.importorskip("liblinear.liblinearutil")
    path = write_svmlight(folder / "data", *draw(kind))
    run_peer(f"{words} -q", path, "theirs")
    y, x = util.svm_read_problem(str(path))
    labels, _, values = util.predict(y, x, util.load_model("theirs"), f"{options} -q")
    theirs = np.column_stack([labels, values])
    if options:
        assert bmrm_predict(*options.split(), path, "theirs", "out").code == 0
        ours = np.array([row.split() for row in (folder / "out").read_text().splitlines()[1:]], float)
        np.testing.assert_array_equal(ours[:, 0], theirs[:, 0])
        np.testing.assert_allclose(np.sort(ours[:, 1:]), np.sort(theirs[:, 1:]), rtol=1e-9)
    else:
        assert bmrm_predict(path, "theirs", "out").code == 0
        np.testing.assert_allclose(np.loadtxt(folder / "out"), theirs[:, 0], rtol=1e-9)


GOOD = b"solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n0.5 \n-1 \n"


def test_the_first_label_is_the_positive_one(folder):
    (folder / "model").write_bytes(GOOD)
    model = Model.load("model")
    assert (model.w.tolist(), model.classes, model.loss) == ([0.5, -1.0], (-1.0, 1.0), "logistic")
    (folder / "model").write_bytes(GOOD.replace(b"1 -1", b"-1 1"))
    assert Model.load("model").w.tolist() == [-0.5, 1.0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"L2R_LR", b"L3R_LR", "found solver_type 'L3R_LR', expected one of LIBLINEAR's"),
        (b"nr_class 2", b"nr_class two", "found nr_class 'two', expected a positive integer"),
        (b"nr_class 2", b"nr_class 3", "found 2 labels, expected one for each of 3 classes"),
        (b"nr_class 2", b"nr_class 1", "found 2 labels, expected one for each of 1 classes"),
        (b"nr_class 2\n", b"", "found nr_class '', expected a positive integer"),
        (b"nr_feature 2", b"nr_feature 999999999999999", "found too few weights, expected 1 in each of 9999"),
        (b"nr_feature 2", b"nr_feature 3", "found 2 weights, expected 1 in each of 3 lines"),
        (b"nr_feature 2", b"nr_feature -2", "found nr_feature '-2', expected a positive integer"),
        (b"nr_feature 2", b"nr_feature 0", "found nr_feature '0', expected a positive integer"),
        (b"bias -1", b"bias nan", "found bias 'nan', expected a finite number"),
        (b"bias -1", b"bias 1", "found 2 weights, expected 1 in each of 3 lines"),
        (b"bias -1", b"bias -1\nbias -1", "found 'bias' in the header of a LIBLINEAR model"),
        (b"bias -1", b"evil \x1b[2J", "found 'evil' in the header of a LIBLINEAR model"),
        (b"label 1 -1", b"label 1 1", "found labels (1.0, 1.0), expected finite ones, ascending"),
        (b"label 1 -1", b"label 1 1e3", "found label '1e3', expected an integer"),
        (b"label 1 -1", b"label 1 " + b"9" * 400, "expected an integer"),
        (b"0.5", b"nan", "found weights that are not finite"),
        (b"0.5", b"-inf", "found weights that are not finite"),
        (b"0.5", b"1e999", "found weights that are not finite"),
        (b"0.5", b"0x", "found weights that are not numbers"),
        (b"0.5", b"1_0", "found weights that are not numbers"),
        (b"0.5", b"\xff", "found weights that are not numbers"),
        (b"-1 \n", b"", "expected 1 in each of 2 lines: truncated"),
        (b"w\n0.5 \n-1 \n", b"", "found its end in the header of a LIBLINEAR model"),
        (b"label 1", b"label " + b"1 " * 600_000, "found a line of 1048576 bytes or more in the header"),
    ],
)
def test_damaged_text_is_refused_in_one_line(old, new, message, data, folder, bmrm_predict):
    assert GOOD.count(old) >= 1
    (folder / "model").write_bytes(GOOD.replace(old, new, 1))
    with pytest.raises(DataError, match="model: "):
        Model.load("model")
    code, out, err = bmrm_predict(data, "model", "out")
    assert (code, out) == (3, "")
    assert len(err.splitlines()) == 1
    assert message in err
    assert not (folder / "out").exists()


@pytest.mark.parametrize("length", range(len("solver_type "), len(GOOD) - 3))
def test_a_truncated_text_is_refused(length, folder):
    (folder / "model").write_bytes(GOOD[:length])
    with pytest.raises(DataError, match="model: "):
        Model.load("model")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-s 8", "argument -s/--solver-type: found 8"),
        ("-s 2 --loss hinge", "-s and --loss: choose one"),
        ("-s 2 --reg l1", "-s and --reg: choose one"),
        ("-s 0 -R", "-R: found no -B 1, expected it too"),
        ("-s 0 --checkpoint c", "--checkpoint: has no meaning for classes trained one against the rest"),
        ("-s 0 --class-weight balanced", "--class-weight: found balanced, expected weights of classes"),
        ("-s 0 -C --metric macro_f1", "--metric: has no meaning for classes trained one against the rest"),
        ("-s 0 -C --rule 1se", "--rule: found 1se, expected best for classes against the rest"),
    ],
)
def test_refused_command_lines(words, message, folder, bmrm_train):
    path = write_svmlight(folder / "data", *draw("three"))
    code, _, err = bmrm_train(*words.split(), path, "model")
    assert code in (2, 3)
    assert message in err
    assert not (folder / "model").exists()


def test_the_command_line_overrides_the_type_of_the_file(folder):
    (folder / "options.toml").write_text("solver-type = 6\n")
    assert parse(["--config", "options.toml", "d"]).reg == "l1"
    found = parse(["--config", "options.toml", "--loss", "squared", "d"])
    assert (found.loss, found.reg, found.solver_type) == ("squared", "l2", None)


def test_export_of_a_one_class_model(folder, bmrm_train, bmrm_predict):
    path = write_svmlight(folder / "data", *draw("one"))
    for more in ([], ["--export", "liblinear"]):
        assert bmrm_train("-s", "21", *more, path, f"model{len(more)}").code == 0
        assert bmrm_predict("--decision-values", path, f"model{len(more)}", f"out{len(more)}").code == 0
    np.testing.assert_allclose(np.loadtxt(folder / "out2"), np.loadtxt(folder / "out0"), rtol=1e-12)
    assert "\nrho " in (folder / "model2").read_text()
