"""Bad input gives one clear line and the documented exit code; nothing is written, no traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import start, two_classes, write_svmlight
from safetensors.numpy import save

from bmrm.linear.models.model import Model
from bmrm.linear.models.model_file import FORMAT_VERSION

USAGE, BAD_DATA, FAILURE = 2, 3, 1


def check(outcome, code, *named):
    """Check for one line on stderr that names the problem, and nothing on stdout."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith(("bmrm-train: ", "bmrm-predict: "))
    assert "Traceback" not in outcome.err
    for part in named:
        assert part in outcome.err, outcome.err


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


GOOD = "1 1:0.5 2:1\n-1 1:-1\n1 2:0.25\n-1 2:-3\n"

BAD_FILES = {
    "empty": ("", [], ["empty"]),
    "only comments": ("# nothing\n\n", [], []),
    "text labels": ("spam 1:1\nham 2:1\n", [], [":1"]),
    "no colon": (GOOD + "1 3\n", [], [":5"]),
    "index 0, not zero-based": (GOOD + "1 0:1\n", ["--zero-based", "no"], [":5", "0"]),
    "negative index": (GOOD + "1 -2:1\n", [], [":5"]),
    "index 2^40": (GOOD + f"1 {2**40}:1\n", [], []),
    "index past 2^64": (GOOD + "1 99999999999999999999999:1\n", [], [":5"]),
    "nan": (GOOD + "1 1:nan\n", [], [":5"]),
    "inf": (GOOD + "1 1:inf\n", [], [":5"]),
    "1e999": (GOOD + "1 1:1e999\n", [], [":5"]),
    "nan label": (GOOD + "nan 1:1\n", [], [":5"]),
    "repeated index": (GOOD + "1 2:1 2:1\n", [], [":5"]),
    "three classes": (GOOD + "2 1:1\n", [], ["label"]),
    "one class": ("1 1:1\n1 2:1\n", [], ["label"]),
    "negative count": ("0 1:1\n3 2:1\n-2 1:1\n", ["--loss", "poisson"], ["poisson"]),
    "several labels": ("1,2 1:1\n2 2:1\n", [], []),
    "no features": ("1\n-1\n", [], ["0 columns"]),
    "no features, dry run": ("1\n-1\n", ["--dry-run"], ["0 columns"]),
    "too many features": (GOOD, ["--n-features", "1"], ["feature"]),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_data_file(case, folder, bmrm_train):
    text, options, named = BAD_FILES[case]
    (folder / "data").write_text(text)
    check(bmrm_train(*options, "data", "model"), BAD_DATA, *named)
    assert listing(folder) == ["data"]


def test_binary_junk(folder, bmrm_train):
    (folder / "junk").write_bytes(np.random.default_rng(0).bytes(10_000))
    check(bmrm_train("junk"), BAD_DATA, "junk")
    assert listing(folder) == ["junk"]


@pytest.mark.parametrize("filler", [b"x", b"1", b" "])
def test_line_of_20_mb(filler, folder, bmrm_train):
    with (folder / "data").open("wb") as file:
        file.write(b"1 1:1\n-1 1:2\n1 1:")
        for _ in range(20):
            file.write(filler * 1_000_000)
        file.write(b"\n")
    outcome = bmrm_train("data")
    check(outcome, BAD_DATA, "data:3")
    assert len(outcome.err) < 300
    assert listing(folder) == ["data"]


def test_missing_file(folder, bmrm_train):
    check(bmrm_train("missing"), BAD_DATA, "missing: No such file or directory")
    assert listing(folder) == []


def test_directory(folder, bmrm_train):
    (folder / "sub").mkdir()
    check(bmrm_train("sub"), BAD_DATA, "sub: Is a directory")
    assert listing(folder) == ["sub"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("1\n" * 59, ["59", "60"]),
        ("1\n" * 61, ["61", "60"]),
        ("", ["0", "60"]),
        ("1\n" * 59 + "-1\n", [":60", "-1"]),
        ("1\nx\n" + "1\n" * 58, [":2", "x"]),
        ("1\nnan\n" + "1\n" * 58, [":2", "nan"]),
        ("1\ninf\n" + "1\n" * 58, [":2", "inf"]),
        ("1 2\n" + "1\n" * 59, [":1", "1 2"]),
        ("1" * 100_000 + "\n" + "1\n" * 59, [":1"]),
        ("1" + " " * 5000 + "\n" + "1\n" * 58, [":1", "found a line of 4096 bytes or more"]),
        ("1_0\n" + "1\n" * 59, [":1", "1_0"]),
    ],
)
def test_bad_sample_weights(text, named, data, folder, bmrm_train):
    (folder / "weights").write_text(text)
    check(bmrm_train("--sample-weight", "weights", data, "model"), BAD_DATA, "weights", *named)
    assert listing(folder) == ["train.txt", "weights"]


@pytest.mark.parametrize(
    ("text", "named"),
    [("1\n" * 4, ["4", "5"]), ("1\n" * 4 + "-1\n", [":5", "-1"]), ("0\n" * 5, ["all are 0"])],
)
def test_bad_factors_of_lambda(text, named, data, folder, bmrm_train):
    (folder / "factors").write_text(text)
    check(bmrm_train("--feature-lambda", "factors", data, "model"), BAD_DATA, *named)
    assert listing(folder) == ["factors", "train.txt"]


def test_a_prior_that_does_not_fit(data, folder, bmrm_train):
    check(bmrm_train("--prior", "missing", data, "model"), BAD_DATA, "missing")
    Model(np.zeros(9), 0.0, "hinge", "binary", (-1.0, 1.0), lam=1.0).save("wide")
    check(bmrm_train("--prior", "wide", data, "model"), BAD_DATA, "--prior", "9")


def test_weights_that_are_all_zero(data, folder, bmrm_train):
    (folder / "weights").write_text("0\n" * 60)
    check(bmrm_train("--sample-weight", "weights", data, "model"), BAD_DATA)
    assert listing(folder) == ["train.txt", "weights"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--lambda", "0"], ["--lambda", "0"]),
        (["--l1-ratio", "0.5"], ["--l1-ratio", "elastic_net"]),
        (["--reg", "elastic_net", "--l1-ratio", "2"], ["--l1-ratio", "2"]),
        (["--reg", "l1", "--loss", "novelty"], ["novelty", "lower bound"]),
        (["--lambda", "-1"], ["--lambda", "-1"]),
        (["--tol", "0"], ["--tol", "0"]),
        (["--tol", "1e-300"], ["tol", "1e-300", "1e-13"]),
        (["--loss", "hinge", "--tau", "0.5"], ["tau", "hinge"]),
        (["--loss", "quantile", "--tau", "1.5"], ["tau", "1.5"]),
        (["--loss", "poisson", "--export", "liblinear"], ["poisson", "liblinear"]),
        (["-c", "1e-320"], ["C: found ", "expected a finite lam"]),
        (["-c", "1e-320", "-v", "2"], ["C: found ", "expected a finite lam"]),
        (["-c", "1e-320", "--calibrate", "platt"], ["C: found ", "expected a finite lam"]),
        (["-c", "1e308"], ["C: found 1e+308"]),
        (["-B", "2e258"], ["intercept_scaling: found 2e+258"]),
        (["-B", "2e258", "-v", "2"], ["intercept_scaling: found 2e+258"]),
        (["--export", "liblinear", "--zero-based", "yes"], ["features numbered from 0"]),
        (["--export", "liblinear", "--zero-based", "yes", "-C"], ["features numbered from 0"]),
        (["--device", "abacus"], ["abacus"]),
        (["--config", "missing.toml"], ["missing.toml"]),
        (["--unknown"], ["--unknown"]),
    ],
)
def test_bad_option(options, named, data, folder, bmrm_train):
    check(bmrm_train(*options, data), USAGE, *named)
    assert listing(folder) == ["train.txt"]


def test_unknown_config_key(data, folder, bmrm_train):
    (folder / "options.toml").write_text("gamma = 1\n")
    check(bmrm_train("--config", "options.toml", data), USAGE, "'gamma'")


def test_a_model_is_no_text(data, bmrm_train):
    check(bmrm_train("-q", data, "-"), USAGE, "MODEL: found -", "/dev/stdout")


def test_files_of_the_command_are_not_overwritten(data, model, bmrm_train, bmrm_predict):
    before = data.read_bytes()
    check(bmrm_train(data, data), USAGE, "DATA itself")
    for option in ("--sample-weight", "--feature-lambda", "--log-jsonl"):
        check(bmrm_train(option, "file", data, "file"), USAGE, "file: is ", "itself")
    check(bmrm_train("--checkpoint", "./best", "--log-jsonl", "best", data), USAGE, "best: is --checkpoint")
    check(bmrm_predict(data, model, data), USAGE, "DATA itself")
    check(bmrm_predict(data, model, model), USAGE, "MODEL itself")
    assert data.read_bytes() == before
    Model.load(model)
    assert bmrm_train("--log-jsonl", "/dev/null", data, "/dev/null").code == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--log-jsonl", "model", "--warm-start", "model", "train.txt", "new"], "--warm-start"),
        (["--log-jsonl", "model", "--resume", "model", "train.txt", "new"], "--resume"),
        (["--log-jsonl", "model", "--prior", "model", "train.txt", "new"], "--prior"),
        (["--config", "toml", "train.txt", "toml"], "--config"),
        (["--config", "toml", "--checkpoint", "toml", "train.txt", "new"], "--config"),
        (["--checkpoint", "new", "train.txt", "./new"], "--checkpoint"),
    ],
)
def test_what_is_read_is_overwritten_by_nothing_else(words, named, data, model, folder, bmrm_train):
    (folder / "toml").write_text("tol = 1e-3\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    check(bmrm_train(*words), USAGE, f"is {named} itself")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_model_that_is_read_may_be_written_anew(data, model, bmrm_train):
    assert bmrm_train("--warm-start", model, "--checkpoint", "best", data, model).code == 0
    assert bmrm_train("--resume", "best", "--checkpoint", "best", data, model).code == 0


def test_tolerance_below_what_is_possible(data, folder, bmrm_train):
    outcome = bmrm_train("--tol", "1e-300", "--tol-kind", "abs", "--max-iter", "2000", data, "model")
    assert outcome.code == 4
    certificate = Model.load("model").certificate
    assert certificate is not None
    assert certificate.status in ("precision", "max_iter")
    assert certificate.lower_bound <= certificate.objective
    assert "Traceback" not in outcome.err


@pytest.fixture
def model(folder):
    X, _ = two_classes()
    Model(np.ones(X.shape[1]), 0.0, "hinge", "binary", (-1.0, 1.0), lam=1e-3).save(folder / "model")
    return folder / "model"


def damaged(case: str, raw: bytes) -> bytes:
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    document = json.loads(header["__metadata__"]["bmrm"])
    tensors = {"w": np.ones(5), "intercept": np.zeros(1)}

    def with_document(**changes):
        return save(tensors, metadata={"bmrm": json.dumps({**document, **changes})})

    return {
        "empty": lambda: b"",
        "text": lambda: b"solver_type L2R_LR\nnr_class 2\n",
        "short": lambda: raw[:5],
        "truncated header": lambda: raw[: 8 + length // 2],
        "truncated weights": lambda: raw[:-1],
        "huge header": lambda: (2**62).to_bytes(8, "little") + raw[8:],
        "junk header": lambda: raw[:8] + b"{" + b"\xff" * (length - 1) + raw[8 + length :],
        "other version": lambda: with_document(format_version=FORMAT_VERSION + 1),
        "no version": lambda: save(tensors, metadata={"bmrm": "{}"}),
        "no JSON": lambda: save(tensors, metadata={"bmrm": "{"}),
        "deep JSON": lambda: save(tensors, metadata={"bmrm": "[" * 100_000}),
        "list": lambda: save(tensors, metadata={"bmrm": "[]"}),
        "foreign safetensors": lambda: save(tensors),
        "other width": lambda: with_document(n_features=6),
        "no task": lambda: with_document(task="juggling"),
        "no labels": lambda: with_document(classes=None),
        "labels in disorder": lambda: with_document(classes=[1, -1]),
        "infinite lam": lambda: with_document(lam=float("inf")),
        "text lam": lambda: with_document(lam="x"),
        "nan weight": lambda: save({**tensors, "w": np.full(5, np.nan)}, metadata=header["__metadata__"]),
        "float32": lambda: save({**tensors, "w": np.ones(5, np.float32)}, metadata=header["__metadata__"]),
        "matrix": lambda: save({**tensors, "w": np.ones((5, 1))}, metadata=header["__metadata__"]),
        "no weights": lambda: save({"intercept": np.zeros(1)}, metadata=header["__metadata__"]),
    }[case]()


@pytest.mark.parametrize(
    ("case", "named"),
    [
        ("empty", "empty"),
        ("text", "header of a LIBLINEAR model"),
        ("short", "not a bmrm model"),
        ("truncated header", "truncated"),
        ("truncated weights", "truncated"),
        ("huge header", "not a bmrm model"),
        ("junk header", "damaged"),
        ("other version", f"version {FORMAT_VERSION + 1}"),
        ("no version", "damaged"),
        ("no JSON", "damaged"),
        ("deep JSON", "damaged"),
        ("list", "damaged"),
        ("foreign safetensors", "not a bmrm model"),
        ("other width", "6 features"),
        ("no task", "juggling"),
        ("no labels", "labels"),
        ("labels in disorder", "labels"),
        ("infinite lam", "lam"),
        ("text lam", "damaged"),
        ("nan weight", "not finite"),
        ("float32", "F32"),
        ("matrix", "(5, 1)"),
        ("no weights", "damaged"),
    ],
)
def test_bad_model(case, named, data, model, folder, bmrm_predict, bmrm_train):
    model.write_bytes(damaged(case, model.read_bytes()))
    check(bmrm_predict(data, model, "out"), BAD_DATA, "model", named)
    check(bmrm_train("--warm-start", model, data, "new"), BAD_DATA, "model", named)
    assert listing(folder) == ["model", "train.txt"]


@pytest.mark.parametrize("place", [".", "missing", "/dev/null"])
def test_model_that_is_no_file(place, data, folder, bmrm_predict):
    check(bmrm_predict(data, place, "out"), BAD_DATA, place)
    assert listing(folder) == ["train.txt"]


def test_warm_start_wider_than_the_data(data, folder, bmrm_train):
    Model(np.ones(9), 0.0, "hinge", "binary", (-1.0, 1.0), lam=1e-3).save("wide")
    check(bmrm_train("--warm-start", "wide", data, "new"), BAD_DATA, "--n-features 9")
    assert bmrm_train("--warm-start", "wide", "--n-features", 9, data, "new").code == 0


@pytest.fixture(params=["missing", "directory", "empty", "junk"])
def no_data(request, folder) -> Path:
    """Return a path without a data set."""
    path = folder / "data"
    if request.param == "directory":
        path.mkdir()
    elif request.param != "missing":
        path.write_text("" if request.param == "empty" else GOOD + "junk\n")
    return path


def test_bad_data_for_what_trains_nothing(no_data, folder, bmrm_train):
    before = listing(folder)
    check(bmrm_train("--dry-run", no_data), BAD_DATA, "data")
    check(bmrm_train("-v", "2", no_data), BAD_DATA, "data")
    assert listing(folder) == before


def test_bad_data_to_predict(no_data, model, folder, bmrm_predict):
    before = listing(folder)
    check(bmrm_predict(no_data, model, "out"), BAD_DATA, "data")
    assert listing(folder) == before


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")


@FULL
@pytest.mark.parametrize("option", [["--export", "liblinear"], []])
def test_full_disk_for_the_model(option, data, folder, bmrm_train):
    outcome = bmrm_train(*option, "-q", data, "/dev/full")
    check(outcome, FAILURE, "/dev/full: No space left on device")
    assert listing(folder) == ["train.txt"]


@FULL
def test_full_disk_for_predictions(data, model, bmrm_predict):
    check(bmrm_predict(data, model, "/dev/full"), FAILURE, "/dev/full: No space left on device")


@FULL
@pytest.mark.parametrize("option", ["--log-jsonl", "--checkpoint"])
def test_a_full_disk_for_another_output_costs_no_model(option, data, folder, bmrm_train):
    outcome = bmrm_train("-q", option, "/dev/full", data, "model")
    check(outcome, FAILURE, "/dev/full: No space left on device")
    assert Model.load("model").n_features == 5


@FULL
def test_full_stdout(data, folder):
    with open("/dev/full", "w") as full:
        process = start("train", "--json", data, "model", cwd=folder, stdout=full)
        _, err = process.communicate()
    assert process.returncode == FAILURE
    assert "Traceback" not in err
    assert "No space left on device" in err
    assert Model.load("model").n_features == 5


@pytest.mark.parametrize("out", ["missing/model", "train.txt/model", ".", "missing/"])
def test_folder_that_cannot_be_written(out, data, model, folder, bmrm_train, bmrm_predict):
    before = listing(folder)
    check(bmrm_train(data, out), FAILURE, f"{out}: ")
    check(bmrm_train("--checkpoint", out, data, "new"), FAILURE, f"{out}: ")
    check(bmrm_train("--log-jsonl", out, data, "new"), FAILURE, f"{out}: ")
    check(bmrm_predict(data, model, out), FAILURE, f"{out}: ")
    assert listing(folder) == before


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_read_only_folder(data, model, bmrm_train, bmrm_predict):
    """In /proc/self/fdinfo even root cannot create files."""
    check(bmrm_train(data, "/proc/self/fdinfo/model"), FAILURE, "/proc/self/fdinfo/model: ")
    check(bmrm_predict(data, model, "/proc/self/fdinfo/out"), FAILURE, "/proc/self/fdinfo/out: ")


def test_unexpected_error_is_one_line(data, folder, bmrm_train, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("two\nlines")

    monkeypatch.setattr("bmrm.linear.solve.solve", fail)
    check(bmrm_train(data, "model"), FAILURE, "ZeroDivisionError: two lines", "--verbose")
    assert "Traceback" in bmrm_train("--verbose", data, "model").err
    assert listing(folder) == ["train.txt"]


def test_out_of_memory(data, bmrm_train, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("bmrm.linear.solve.solve", fail)
    check(bmrm_train(data, "model"), FAILURE, "out of memory")


def test_out_of_device_memory(data, bmrm_train, monkeypatch):
    from bmrm.errors import DeviceMemoryError

    def fail(*_, **__):
        raise DeviceMemoryError("the GPU has 1 GB, the problem needs 2 GB")

    monkeypatch.setattr("bmrm.linear.solve.solve", fail)
    check(bmrm_train(data, "model"), 5, "the GPU has 1 GB")


def test_two_rows_are_enough(folder, bmrm_train):
    write_svmlight(folder / "data", np.array([[1.0], [-1.0]]), np.array([3.0, 7.0]))
    assert bmrm_train("data", "model").code == 0
    assert Model.load("model").classes == (3.0, 7.0)


@FULL
@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_full_disk_for_stdout(words):
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "bmrm.cli.train", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == FAILURE
    assert ended.stderr == "bmrm-train: No space left on device\n"


@pytest.mark.parametrize("command", ["train", "predict"])
def test_a_pattern_needs_mpiexec(command, data, folder, bmrm_train, bmrm_predict):
    assert bmrm_train("-q", data, "model").code == 0
    call, words = (bmrm_train, ["m"]) if command == "train" else (bmrm_predict, ["model", "out"])
    code, out, err = call("part-*.svm", *words)
    assert (code, out) == (3, "")
    assert err == (
        f"bmrm-{command}: part-*.svm: No such file or directory "
        "(a pattern is for bmrm-train with mpiexec: each rank reads a part of the files)\n"
    )
