"""``bmrm-train``: its files, its output and its exit codes."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from commands import run_python, start, two_classes, write_svmlight
from scipy.sparse import csr_array

import bmrm
from bmrm.cli.options import parse
from bmrm.linear.models import checkpoint
from bmrm.linear.models.model import Model

REPORT_KEYS = {
    *("objective", "lower_bound", "gap", "status", "iterations"),
    *("n_samples", "n_features", "nnz", "nonzero_weights", "device", "lambda", "model", "timings", "options"),
    *("dtype", "storage", "rounding"),
    "split",
}


def hinge_objective(X, y, w, lam):
    return 0.5 * lam * (w @ w) + np.maximum(0, 1 - y * (X @ w)).mean()


def test_json_is_one_true_object(data, bmrm_train):
    outcome = bmrm_train("--json", "--lambda", "1e-2", "--tol", "1e-6", data, "model")
    report = json.loads(outcome.out)
    assert outcome.code == 0
    assert outcome.out.count("\n") == 1
    assert set(report) == REPORT_KEYS
    X, y = two_classes()
    w = Model.load("model").w
    objective = hinge_objective(X, y, w, 1e-2)
    assert report["objective"] == pytest.approx(objective, rel=1e-12)
    assert (report["dtype"], report["rounding"]) == ("float64", 0.0)
    assert report["lower_bound"] <= objective
    assert report["gap"] == pytest.approx(report["objective"] - report["lower_bound"], abs=1e-15)
    assert (report["status"], report["n_samples"], report["n_features"]) == ("converged", 60, 5)
    assert report["nnz"] == np.count_nonzero(X)
    assert report["options"]["lambda"] == 1e-2
    assert {"load", "train", "write", "total"} <= set(report["timings"])


def test_the_linear_programme_of_l1_prints_nothing(data, bmrm_train):
    outcome = bmrm_train("--json", "--quiet", "--reg", "l1", "--lambda", "1e-2", data, "model")
    assert json.loads(outcome.out)["status"] == "converged"
    assert outcome.err == ""


def test_certificate_in_words(data, bmrm_train):
    outcome = bmrm_train("--tol", "1e-3", data)
    assert outcome.code == 0
    assert outcome.err == ""
    certificate = Model.load("train.txt.model").certificate
    lines = outcome.out.splitlines()
    assert lines[0].startswith(f"converged after {certificate.n_iter} iterations")
    assert lines[1].split() == ["objective", f"{certificate.objective:.10g}"]
    assert lines[2].split() == ["lower", "bound", f"{certificate.lower_bound:.10g}"]
    share = 100 * certificate.gap / certificate.lower_bound
    assert lines[3].endswith(f"at most {share:.2g} % above the optimum")


def test_a_wide_gap_that_rounding_leaves_comes_with_advice(folder, bmrm_train):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(1.0, 10.0, (30, 100)), np.sign(rng.normal(size=30))
    X[:, 0] *= 1e14
    write_svmlight(folder / "wide", X, y)
    outcome = bmrm_train("--lambda", "1e-2", "wide")
    assert outcome.code == 4
    assert "limit of precision" in outcome.out
    advice = "rounding     is too large: scale features that are far larger than the others"
    assert advice in outcome.out.splitlines()


def test_a_gap_that_a_tiny_lam_leaves_is_not_blamed_on_scales(folder, bmrm_train):
    X, y = np.repeat([1.0, 2.0, 3.0], 4)[:, None], np.tile([1.0, 1.0, 1.0, -1.0], 3)
    write_svmlight(folder / "few", X, y)
    words = ["--loss", "logistic", "--lambda", "1e-100", "--tol", "1e-8", "few"]
    assert bmrm_train(*words).code == 0  # Newton's steps know no lam
    outcome = bmrm_train("--solver", "bmrm", *words)
    assert outcome.code == 4
    assert "limit of precision" in outcome.out
    assert "scale features" not in outcome.out


def test_quiet(data, bmrm_train):
    assert bmrm_train("-q", data, "model") == (0, "", "")


def test_default_model_is_in_the_current_folder(folder, bmrm_train):
    (folder / "sub").mkdir()
    write_svmlight(folder / "sub" / "set", *two_classes())
    assert bmrm_train("sub/set").code == 0
    assert sorted(os.listdir(folder)) == ["set.model", "sub"]
    assert os.listdir(folder / "sub") == ["set"]


def test_same_training_same_bytes(data, folder, bmrm_train):
    bmrm_train("-q", data, "a")
    bmrm_train("-q", "--threads", "1", data, "b")
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()


def test_cost_is_liblinears(data, bmrm_train):
    bmrm_train("-q", "-c", "0.5", data, "cost")
    assert Model.load("cost").lam == pytest.approx(1 / (0.5 * 60), rel=1e-15)


def test_bias_is_a_penalised_feature(data, folder, bmrm_train):
    X, y = two_classes()
    wide = np.hstack([X, np.full((60, 1), 2.0)])
    write_svmlight(folder / "wide", wide, y)
    bmrm_train("-q", "--lambda", "0.1", "-e", "1e-8", "-B", "2", data, "bias")
    bmrm_train("-q", "--lambda", "0.1", "-e", "1e-8", "wide", "feature")
    bias, feature = Model.load("bias"), Model.load("feature")
    assert bias.certificate.objective == pytest.approx(feature.certificate.objective, rel=1e-7)
    assert bias.intercept == pytest.approx(2 * feature.w[5], abs=1e-3)
    assert bias.n_features == 5


def test_intercept_is_free(folder, bmrm_train):
    X, y = two_classes()
    write_svmlight(folder / "data", X + 3.0, y)
    bmrm_train("-q", "--lambda", "0.1", "--intercept", "-e", "1e-6", "data", "free")
    bmrm_train("-q", "--lambda", "0.1", "-B", "1", "-e", "1e-6", "data", "penalised")
    assert Model.load("free").certificate.objective < Model.load("penalised").certificate.objective - 1e-3


def test_class_weights_are_sample_weights(data, folder, bmrm_train):
    _, y = two_classes()
    (folder / "weights").write_text("".join("3\n" if label > 0 else "0.5\n" for label in y))
    bmrm_train("-q", "-e", "1e-8", "--lambda", "0.01", "-w1", "3", "-w-1", "0.5", data, "by class")
    bmrm_train("-q", "-e", "1e-8", "--lambda", "0.01", "--sample-weight", "weights", data, "by row")
    one, other = (Model.load(name).certificate.objective for name in ("by class", "by row"))
    assert one == pytest.approx(other, rel=1e-7)
    bmrm_train("-q", "-e", "1e-8", "--lambda", "0.01", data, "plain")
    assert abs(Model.load("plain").certificate.objective - one) > 1e-3


def test_penalties(data, folder, bmrm_train):
    outcome = bmrm_train("--loss", "logistic", "--reg", "l1", "--lambda", "0.15", data, "sparse")
    sparse = Model.load("sparse")
    assert outcome.code == 0
    assert f"{np.count_nonzero(sparse.w)} of 5 weights" in outcome.out
    assert 0 < np.count_nonzero(sparse.w) < 5
    assert (sparse.reg, sparse.reg_params) == ("l1", {})

    (folder / "factors").write_text("0\n" + "1e5\n" * 4)
    bmrm_train(
        *("--loss", "logistic", "--reg", "elastic_net", "--l1-ratio", "0.3", "--positive"),
        *("--feature-lambda", "factors", data, "mixed", "--checkpoint", "kept"),
    )
    mixed = Model.load("mixed")
    assert mixed.reg_params == {"l1_ratio": 0.3, "positive": True, "feature_lambda": True, "unpenalised": 1}
    assert Model.load("kept").reg_params == mixed.reg_params
    assert mixed.w[0] >= 0.0 == np.abs(mixed.w[1:]).max()

    bmrm_train("-q", "--lambda", "1e6", "--prior", "sparse", data, "moved")
    np.testing.assert_allclose(Model.load("moved").w, sparse.w, atol=1e-4)
    assert bmrm_train("--reg", "l1", "-v", "3", data).code == 0


def test_limit_is_code_4_with_a_model(data, bmrm_train):
    outcome = bmrm_train("--max-iter", "1", "--tol", "1e-9", data, "model")
    assert outcome.code == 4
    assert "stopped at the iteration limit" in outcome.out
    assert Model.load("model").certificate.status == "max_iter"
    assert bmrm_train("--max-iter", "1", "--tol", "1e-9", "--allow-unconverged", data, "model").code == 0


def test_time_limit(data, bmrm_train):
    outcome = bmrm_train("--json", "--max-time", "1e-9", "--tol", "1e-12", data, "model")
    assert outcome.code == 4
    assert json.loads(outcome.out)["status"] == "max_time"


def test_a_bound_that_is_not_known(data, bmrm_train):
    words = ("--loss", "novelty", "--max-time", "1e-9", data, "model")
    assert "gap          inf: nothing is known of the optimum\n" in bmrm_train(*words).out
    assert json.loads(bmrm_train("--json", *words).out)["lower_bound"] is None


def test_log_has_a_line_per_iteration(data, folder, bmrm_train):
    report = json.loads(bmrm_train("--json", "--log-jsonl", "log", data, "model").out)
    records = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    assert len(records) == report["iterations"]
    assert [r["iteration"] for r in records] == sorted(r["iteration"] for r in records)
    bounds = [r["lower_bound"] for r in records if r["lower_bound"] is not None]
    assert all(bound <= report["objective"] for bound in bounds)


def test_verbose(data, bmrm_train):
    outcome = bmrm_train("--verbose", data, "model")
    certificate = Model.load("model").certificate
    assert outcome.err.count("\niteration ") + outcome.err.startswith("iteration ") == certificate.n_iter
    assert "load" in outcome.err


def test_verbose_2_prints_the_plan(data, folder, bmrm_train):
    plain, more = bmrm_train("--verbose", data, "model"), bmrm_train("--verbose", "2", data, "model")
    assert "plan: " not in plain.err
    lines = [line for line in more.err.splitlines() if line.startswith("plan: ")]
    names = ["storage", "backend", "weights", "first steps", "cuts per pass", "intercept", "memory"]
    assert [line[6:].split("  ")[0] for line in lines] == names
    assert more.err.index("plan: ") < more.err.index("iteration ")
    memory = bmrm_train("--dry-run", "--verbose=2", data)
    assert memory.err.splitlines() == lines
    assert memory.out == bmrm_train("--dry-run", data).out
    assert bmrm_train("--verbose", "2", "-v", "3", data).err.count("plan: backend") == 3


@pytest.mark.parametrize(
    ("words", "config", "level"),
    [
        ([], "", 0),
        (["--verbose"], "", 1),
        (["--verbose=1"], "", 1),
        (["--verbose", "2"], "", 2),
        ([], "verbose = true", 1),
        ([], "verbose = false", 0),
        ([], "verbose = 2", 2),
        (["--verbose"], "verbose = 2", 1),
        (["--verbose", "--", "2"], "", 1),
    ],
)
def test_levels_of_verbose(words, config, level, tmp_path):
    file = tmp_path / "config"
    file.write_text(config)
    options = parse(["--config", str(file), *words, *([] if "--" in words else ["data"])])
    assert options.verbose == level
    assert options.as_dict()["verbose"] is (level if level > 1 else level == 1)


def test_an_unknown_level_of_verbose(data, bmrm_train):
    done = bmrm_train("--verbose=3", data)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "--verbose: found 3, expected 1 or 2" in done.err


def test_checkpoint_ends_as_the_model(data, folder, bmrm_train):
    assert bmrm_train("-q", "--checkpoint", "best", data, "model").code == 0
    best, model = Model.load(folder / "best"), Model.load(folder / "model")
    np.testing.assert_array_equal(best.w, model.w)
    assert (best.certificate, best.intercept) == (model.certificate, model.intercept)


def test_a_checkpoint_of_other_features(data, folder, bmrm_train):
    bmrm_train("-q", "--checkpoint", "best", data, "model")
    outcome = bmrm_train("--resume", "best", "--n-features", "7", data, "model")
    assert outcome.code == 3
    assert outcome.err == "bmrm-train: best: found weights of shape (5,), expected (7,) finite numbers\n"


def test_checkpoint_while_running(data, folder, bmrm_train, monkeypatch):
    """Every checkpoint is a model, with a correct certificate."""
    X, y = two_classes()
    seen = []
    save = checkpoint.save

    def spy(path, *parts):
        save(path, *parts)
        seen.append(Model.load(path))

    monkeypatch.setattr("bmrm.cli.observer.CHECKPOINT_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr("bmrm.cli.observer.MAX_CHECKPOINT_SHARE", 1e9)
    monkeypatch.setattr(checkpoint, "save", spy)
    bmrm_train("-q", "--checkpoint", "best", "--lambda", "0.01", data, "model")
    running = [m for m in seen if m.certificate.status == "running"]
    assert running
    for model in running:
        objective = hinge_objective(X, y, model.w, 0.01)
        assert model.certificate.objective == pytest.approx(objective, rel=1e-9)


def test_warm_start_saves_iterations(data, bmrm_train):
    words = ["--lambda", "0.01", "--tol", "1e-4", "--cuts-per-pass", "1"]
    bmrm_train("-q", *words, data, "cold")
    bmrm_train("-q", *words, "--warm-start", "cold", data, "warm")
    cold, warm = Model.load("cold").certificate, Model.load("warm").certificate
    assert warm.n_iter <= cold.n_iter
    assert warm.objective <= cold.objective


def test_cross_validation(data, folder, bmrm_train):
    outcome = bmrm_train("-v", "5", data)
    assert outcome.code == 0
    assert outcome.out.startswith("Cross Validation Accuracy = ")
    assert float(outcome.out.split()[4].rstrip("%")) > 70
    assert os.listdir(folder) == ["train.txt"]
    report = json.loads(bmrm_train("-v", "5", "--json", data).out)
    assert report["rows"] == 60
    assert report["folds"] == 5
    stopped = bmrm_train("-v", "5", "--max-iter", "1", data)
    assert stopped.code == 4
    assert stopped.err == "bmrm-train: note: 5 of 5 folds did not converge (max_iter)\n"


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared", "epsilon_insensitive", "huber"])
def test_every_shape_of_options_reaches_the_solver(loss, data, bmrm_train):
    outcome = bmrm_train("--json", "--loss", loss, "--solver", "bmrm", "--dtype", "float64", "--max-cuts", 50,
                         "--tol", "0.01", data, "model")  # fmt: skip
    assert outcome.code in (0, 4), outcome.err
    assert json.loads(outcome.out)["options"]["loss"] == loss


def test_counts(folder, bmrm_train):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    write_svmlight(folder / "data", X, rng.poisson(np.exp(0.3 * X[:, 0])).astype(float))
    assert bmrm_train("-q", "--loss", "poisson", "--lambda", "0.1", "data", "model").code == 0
    assert Model.load("model").task == "count"


def test_dry_run(data, folder, bmrm_train):
    outcome = bmrm_train("--dry-run", "--json", data)
    report = json.loads(outcome.out)
    X, _ = two_classes()
    assert (report["n_samples"], report["n_features"], report["nnz"]) == (60, 5, np.count_nonzero(X))
    resident = bmrm.Dataset(csr_array(X)).matrix
    resident.build_transpose()
    assert report["bytes"]["X"] + report["bytes"]["X^T"] == resident.nbytes
    assert report["bytes"]["total"] == sum(v for k, v in report["bytes"].items() if k != "total")
    words = bmrm_train("--dry-run", data)
    assert words.code == 0
    assert "B" in words.out
    assert os.listdir(folder) == ["train.txt"]


def test_export_for_liblinear(data, folder, bmrm_train):
    assert bmrm_train("-q", "--intercept", "--export", "liblinear", data, "text").code == 0
    bmrm_train("-q", "--intercept", data, "model")
    model = Model.load("model")
    lines = (folder / "text").read_text().splitlines()
    assert lines[:3] == ["solver_type L2R_L1LOSS_SVC_DUAL", "nr_class 2", "label 1 -1"]
    assert lines[3:6] == ["nr_feature 5", "bias 1", "w"]
    assert [float(line) for line in lines[6:]] == [*model.w.tolist(), model.intercept]


def test_data_from_stdin(data, folder):
    with data.open("rb") as file:
        process = start("train", "-q", "-", "model", cwd=folder, stdin=file)
        _, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert Model.load(folder / "model").n_features == 5


def test_stdin_needs_a_model_name(folder, bmrm_train):
    outcome = bmrm_train("-")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


def test_version_imports_no_numpy(folder):
    code = "import sys; from bmrm.cli.train import main; main(['--version']); print('numpy' in sys.modules)"
    process = run_python(code)
    assert process.stdout == f"bmrm-train {bmrm.__version__}\nFalse\n"


def test_training_imports_no_scipy(data):
    """Start-up takes most of the time of a small problem."""
    code = (
        "import sys; from bmrm.cli.train import main; main(['-q', 'train.txt']); "
        "print({'scipy', 'sklearn', 'tomllib'} & set(sys.modules))"
    )
    process = run_python(code)
    assert (process.stdout, process.stderr) == ("set()\n", "")


@pytest.mark.parametrize(("command", "option"), [("train", "--help-all"), ("predict", "--help")])
def test_help_documents_the_exit_codes(command, option, folder):
    process = start(command, option, cwd=folder)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "130" in out
    assert "exit codes:" in out


def test_help_fits_a_terminal(folder):
    out, _ = start("train", "--help", cwd=folder).communicate()
    assert len(out.splitlines()) <= 25
    assert max(map(len, out.splitlines())) <= 80
    for text in ("--loss", "--lambda", "-C", "examples, ", "--help-all"):
        assert text in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_scripts_name_options_and_losses(folder, shell):
    pytest.importorskip("shtab")
    out, err = start("train", "--print-completion", shell, cwd=folder).communicate()
    assert err == ""
    assert "--l1-ratio" in out or "l1-ratio" in out
    assert "squared_epsilon_insensitive" in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "completion"), [(["--los"], "--loss"), (["--loss", "squared_h"], "squared_hinge")]
)
def test_bash_completes(folder, words, completion):
    pytest.importorskip("shtab")
    script, _ = start("train", "--print-completion", "bash", cwd=folder).communicate()
    line = " ".join(f"'{word}'" for word in ["bmrm-train", *words])
    ask = f"""
COMP_WORDS=({line}); COMP_CWORD={len(words)}
complete -p bmrm-train | sed 's/.*-F \\([^ ]*\\) .*/\\1/' > name
$(cat name); printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    asked = subprocess.run(
        ["bash", "-c", script + ask], cwd=folder, capture_output=True, text=True, check=False
    )
    assert completion in asked.stdout.split()


def test_parse_is_what_the_report_says(data, bmrm_train):
    words = ["--json", "--lambda", "0.5", str(data), "model"]
    assert json.loads(bmrm_train(*words).out)["options"] == parse(words).as_dict()


@pytest.mark.filterwarnings("default")
def test_a_weight_for_an_absent_label_is_a_warning(data, folder, bmrm_train):
    outcome = bmrm_train("-w1", "2", "-w7", "5", data, "m")
    text = "bmrm-train: warning: class_weight: no row has label 7, whose weight has no effect\n"
    assert (outcome.code, outcome.err) == (0, text)
    assert Model.load("m").w.tolist() == solved(bmrm_train, data, "-w1", "2")
    outcome = bmrm_train("-q", "-s", "2", "-w7", "5", data, "m")
    assert (outcome.code, outcome.err) == (0, text)


def solved(bmrm_train, data, *words):
    assert bmrm_train("-q", *words, data, "other").code == 0
    return Model.load("other").w.tolist()


@pytest.mark.parametrize("scaling", ["1e120", "1e153", "1e-150"])
def test_an_extreme_scale_of_the_intercept_is_no_crash(scaling, data, folder, bmrm_train):
    outcome = bmrm_train("-q", "-B", scaling, data, "m")
    assert outcome.code in (0, 4)
    assert "unexpected" not in outcome.err
