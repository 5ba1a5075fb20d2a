"""``mpiexec -n P bmrm-train``: one output, the documented exit codes, and no job that hangs."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import mpi
import numpy as np
import pytest
from commands import two_classes, write_svmlight

if not os.environ.get("BMRM_REQUIRE_PETSC"):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed; `make test` installs it")

from bmrm.cli.launch import launched
from bmrm.distributed.weight_layout import REPLICATED_VECTORS, TOUCHED_COLUMN_BYTES
from bmrm.linear.memory import MARGIN_BYTES
from bmrm.linear.models.checkpoint import Checkpoint
from bmrm.linear.models.model import Model

TRAIN = "import sys; from bmrm.cli.train import main; sys.exit(main())"
TRAIN_ALL = """
import json, sys
from bmrm.cli.train import main
sys.exit(any([main(words) for words in json.loads(sys.argv[1])]))
"""
"""One command after another: to start ranks takes most of the time of a test."""

SECONDS = 20.0
"""Maximum time that a job may take to end after a rank has failed, on a busy machine."""


def train(ranks, *words):
    return mpi.run(ranks, "-c", TRAIN, *words)


def train_all(ranks, *commands):
    """Run commands by one job; return what they print."""
    done = mpi.run(ranks, "-c", TRAIN_ALL, json.dumps([[str(word) for word in words] for words in commands]))
    assert done.returncode == 0, done.stderr
    return done.stdout


def result(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_model_is_that_of_one_process(data, folder, bmrm_train, ranks):
    weights = folder / "weights"
    np.savetxt(weights, np.linspace(0.5, 2.0, 60))
    words = ["--lambda", "0.01", "--tol", "1e-6", "--sample-weight", weights, "-w1", "2", "--json", data]
    alone = json.loads(bmrm_train(*words, "alone").out)
    shared = result(train(ranks, *words, "shared"))
    assert shared["objective"] == pytest.approx(alone["objective"], rel=2e-6)
    assert shared["lower_bound"] <= alone["objective"]
    for name in ("n_samples", "n_features", "nnz", "status"):
        assert shared[name] == alone[name]
    first, second = Model.load("alone"), Model.load("shared")
    np.testing.assert_allclose(second.w, first.w, atol=1e-2)
    assert second.classes == first.classes


def test_several_classes(folder, bmrm_train):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((90, 7)), np.arange(90) // 30
    write_svmlight(folder / "classes", np.round(X, 3), y)
    (folder / "costs").write_text("0 1 4\n1 0 1\n4 1 0\n")
    words = [
        "--json",
        "--loss",
        "multiclass",
        "--costs",
        "costs",
        "--bias",
        "1",
        "--lambda",
        "0.01",
        "classes",
    ]
    alone = json.loads(bmrm_train(*words, "alone").out)
    begun = ["--checkpoint", "best", *words, "shared"]
    resumed = ["--resume", "best", "--tol", "1e-4", *words, "again"]
    shared, again = map(json.loads, train_all(2, begun, resumed).splitlines())
    assert shared["objective"] == pytest.approx(alone["objective"], rel=2e-3)
    assert shared["lower_bound"] <= alone["objective"]
    assert Model.load("shared").classes == (0.0, 1.0, 2.0)
    assert again["iterations"] >= shared["iterations"]


def queries(path, rows=90):
    """Write ranking text with contiguous groups, so that a byte range boundary splits one."""
    rng = np.random.default_rng(1)
    X = np.round(rng.standard_normal((rows, 4)), 3)
    relevance = np.clip(np.round(X @ [1.0, -1.0, 0.5, 0.0] + 1.0), 0, 3)
    path.write_text(
        "".join(
            f"{y:g} qid:{7 + i // 8} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) + "\n"
            for i, (y, row) in enumerate(zip(relevance, X.tolist(), strict=True))
        )
    )
    return path


def test_queries_that_ranks_share(folder, bmrm_train):
    ranks = 3
    words = ["--loss", "ndcg", "--lambda", "1e-2", "--tol", "1e-5", "--json", queries(folder / "data")]
    alone = json.loads(bmrm_train(*words, "alone").out)
    done = train(ranks, "--verbose", *words, "shared")
    shared = result(done)
    assert shared["objective"] == pytest.approx(alone["objective"], rel=2e-5)
    assert shared["lower_bound"] <= alone["objective"]
    lines = [line for line in done.stderr.splitlines() if line.startswith("loss ndcg: ")]
    away = int(lines[0].split()[2])
    assert lines == [
        f"loss ndcg: {away} margins are worked on by another rank than holds their rows, "
        f"{24 * away} bytes a pass"
    ]
    assert 0 < away <= 4 * (ranks - 1)


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_checkpoint_with_queries_resumes_on_other_ranks(folder, bmrm_train, ranks):
    words = ["--loss", "ndcg", "--lambda", "1e-2", "--cuts-per-pass", "5", queries(folder / "data")]
    limits = ["--max-iter", "4", "--allow-unconverged"]
    assert train(2, *limits, "-q", "--checkpoint", "best", *words, "model").returncode == 0
    before = Checkpoint.load("best").model.certificate
    again = ["--json", "--resume", "best", "--tol", "1e-5", *words, "model"]
    after = result(train(ranks, *again)) if ranks > 1 else json.loads(bmrm_train(*again).out)
    assert after["status"] == "converged"
    assert after["objective"] <= before.objective * (1.0 + 1e-12)
    alone = json.loads(bmrm_train("--tol", "1e-5", "--json", *words, "alone").out)
    assert after["objective"] == pytest.approx(alone["objective"], rel=2e-5)


def test_ordered_classes_and_their_thresholds(folder, bmrm_train):
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((120, 5)), 3)
    y = np.digitize(X @ [1.0, 0.5, 0.0, -1.0, 0.2], [-1.0, 0.5])
    words = ["--loss", "ordinal", "--lambda", "1e-2", "--tol", "1e-6", write_svmlight(folder / "data", X, y)]
    assert bmrm_train(*words, "alone").code == 0
    assert train(2, "-q", "--checkpoint", "best", *words, "shared").returncode == 0
    one, many, last = (Model.load(name) for name in ("alone", "shared", "best"))
    np.testing.assert_allclose(many.thresholds, one.thresholds, atol=0.02)
    assert last.thresholds == many.thresholds


def test_a_sparse_penalty(data, bmrm_train):
    words = ["--reg", "l1", "--lambda", "0.05", "--loss", "logistic", "--tol", "1e-6", "--json", data]
    alone, shared = json.loads(bmrm_train(*words, "alone").out), result(train(2, *words, "shared"))
    assert shared["objective"] == pytest.approx(alone["objective"], rel=2e-6)
    assert (Model.load("shared").w == 0.0).tolist() == (Model.load("alone").w == 0.0).tolist()


def test_weights_owned_in_parts(data, folder, bmrm_train):
    """The model file is whole, and a checkpoint continues with the other layout and in one process."""
    words = ["--lambda", "1e-3", "--bias", "2", "--tol", "1e-6", "--json", data]
    alone = json.loads(bmrm_train(*words, "alone").out)
    done = train(3, "--weights", "owned", "--verbose", "--checkpoint", "best", *words, "owned")
    owned = result(done)
    assert "3 ranks own 2, 2, 1 columns of the weights; their rows touch at most 5\n" in done.stderr
    assert owned["objective"] == pytest.approx(alone["objective"], rel=2e-6)
    assert owned["lower_bound"] <= alone["objective"]
    assert owned["nonzero_weights"] == alone["nonzero_weights"]
    first, second = Model.load("alone"), Model.load("owned")
    np.testing.assert_allclose(second.w, first.w, atol=1e-2)
    assert second.intercept == pytest.approx(first.intercept, abs=1e-2)
    resumed, twice = ["--resume", "best", *words, "again"], ["-q", "--weights", "owned", *words[:-2], data]
    several = train_all(2, ["--weights", "replicated", *resumed], [*twice, "twice"])
    again = [json.loads(printed) for printed in (several, bmrm_train(*resumed).out)]
    assert [run["iterations"] <= owned["iterations"] + 1 for run in again] == [True, True]
    assert train(2, *twice, "once").returncode == 0
    assert Path("twice").read_bytes() == Path("once").read_bytes()


def test_a_checkpoint_of_an_ordinal_model_whose_weights_are_owned(folder):
    """Its thresholds are those of the margins of the current weights."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((120, 5)), 3)
    y = np.digitize(X @ [1.0, -1.0, 0.5, 0.0, 0.0], [-0.5, 0.5])
    write_svmlight(folder / "data", X, y)
    words = ["--loss", "ordinal", "--lambda", "1e-2", "--checkpoint", "best", "--max-iter", "3"]
    for form in ("replicated", "owned"):
        done = train(2, "--weights", form, *words, "--allow-unconverged", "-q", "data", form)
        assert done.returncode == 0, done.stderr
        (folder / "best").rename(f"best.{form}")
    for name in ("", "best."):
        one, other = (Model.load(f"{name}{form}") for form in ("replicated", "owned"))
        np.testing.assert_allclose(other.thresholds, one.thresholds, rtol=1e-9)
        np.testing.assert_allclose(other.w, one.w, rtol=1e-9)


def test_weights_are_spread_with_mpi_only(data, bmrm_train):
    done = bmrm_train("--weights", "owned", data, "model")
    assert (done.code, done.err) == (
        2,
        "bmrm-train: --weights: only with MPI; start the command with mpiexec\n",
    )


def test_dry_run_prints_the_bytes_of_a_rank_for_either_layout(data, folder):
    words = ["--dry-run", "--device", "cpu", "--max-cuts", "50"]
    np.savetxt(folder / "factors", np.ones(5))
    X, y = two_classes(rows=10)
    write_svmlight(folder / "part-0", X, y)
    write_svmlight(folder / "part-1", X, y)
    given = ([data], ["--feature-lambda", "factors", data], ["--reg", "l1", data], ["part-*"], ["part-0"])
    lines = train_all(2, *(["--json", *words, *each] for each in given), [*words, data]).splitlines()
    found, whole, sparse, both, one = map(json.loads, lines[:5])
    assert (found["ranks"], found["n_features"]) == (2, 5)
    replicated, owned = (found["bytes_a_rank"][form] for form in ("replicated", "owned"))
    # X is so narrow that interior points may be worth their while: they need whole cuts on each rank.
    assert replicated["bundle"] == 50 * (8 * 5 + 8 * 50)
    assert owned["bundle"] == 50 * (8 * 3 + 8 * 50)
    assert replicated["vectors"] == 8 * 5 * REPLICATED_VECTORS + 30 * MARGIN_BYTES
    assert owned["vectors"] == 8 * 3 * REPLICATED_VECTORS + 5 * TOUCHED_COLUMN_BYTES + 30 * MARGIN_BYTES
    for parts in (replicated, owned):
        assert parts["total"] == sum(count for part, count in parts.items() if part != "total")
    assert len(lines[5:]) == 7
    assert lines[6].split() == ["replicated", "owned"]
    # Each rank has whole cuts if it solves the inner problem of a penalty.
    assert whole["bytes_a_rank"]["replicated"]["bundle"] == 50 * (8 * 5 + 8 * 50)
    assert whole["bytes_a_rank"]["owned"] == owned
    assert list(sparse["bytes_a_rank"]) == ["replicated"]
    assert (both["n_samples"], both["nnz"]) == (2 * one["n_samples"], 2 * one["nnz"])


def test_two_runs_give_the_same_bytes(data, folder):
    for name in ("one", "other"):
        assert train(2, "-q", "--lambda", "0.01", data, name).returncode == 0
    assert (folder / "one").read_bytes() == (folder / "other").read_bytes()


def test_a_set_of_files(folder):
    X, y = two_classes(rows=40)
    whole = write_svmlight(folder / "whole", X, y)
    write_svmlight(folder / "part-0", X[:3], y[:3])
    write_svmlight(folder / "part-1", X[3:], y[3:])
    words = ["--json", "--lambda", "0.1", "--tol", "1e-6"]
    printed = train_all(2, *([*words, name, "model"] for name in (whole, "part-*")))
    one, many = map(json.loads, printed.splitlines())
    assert many["objective"] == pytest.approx(one["objective"], rel=2e-6)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["missing", "model"], 3, "missing: No such file or directory"),
        (["--max-iter", "1", "train.txt"], 4, ""),
    ],
)
def test_failures_are_reported_once(data, words, code, message):
    done = train(2, *words)
    assert done.returncode == code, done.stderr
    if message:
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("bmrm-train: ")
        assert message in done.stderr


FACTORS = ["--feature-lambda", "factors", "--lambda", "1e-2"]

FAILURES = [
    (["none-*", "model"], 3, "none-*: no file matches this pattern"),
    (["train.*"], 2, "DATA is a pattern: name the MODEL"),
    (["-", "model"], 2, "DATA: found stdin, expected a file that each rank can read"),
    (["train.txt", "nowhere/model"], 1, "nowhere/model: No such file or directory"),
    (["bad.txt"], 3, 'bad.txt:61:3: found "3:x", expected index:value'),
    (["--loss", "pairwise", "queries"], 3, "queries:91: ... expected qid: and an integer"),
    (["short"], 3, "found 1 rows, expected at least one per rank (2)"),
    (
        ["--weights", "owned", *FACTORS, "train.txt", "model"],
        2,
        "feature_lambda has no strength for some feature; use replicated weights",
    ),
    (["--lambda", "-1", "train.txt"], 2, "argument --lambda"),
    (["--dry-run", "missing"], 3, "missing: No such file or directory"),
    (["--weights", "owned", "--reg", "l1", "train.txt"], 2, "weights owned: reg l1 is solved on whole cuts"),
    (["--cache", "train.txt"], 2, "--cache: only without MPI"),
    (["-v", "3", "train.txt"], 2, "--folds: only without MPI"),
    (["train.txt", "train.txt"], 2, "train.txt: is DATA itself"),
    (["--checkpoint", "nowhere/best", "train.txt"], 1, "nowhere/best: No such file"),
    (["--log-jsonl", "nowhere/log", "train.txt"], 1, "nowhere/log: No such file"),
    (["--resume", "absent", "train.txt"], 3, "absent: No such file"),
    (["--resume", "train.txt", "train.txt"], 3, "train.txt: not a bmrm model file"),
    (["--device", "cuda", "train.txt"], 1, "use device='cpu'"),
]
"""The words of commands, their codes, and parts of what they say."""


def test_each_of_many_failures_is_reported_once_by_one_job(data, folder, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (folder / "bad.txt").write_text(data.read_text() + "1 3:x\n")
    (folder / "short").write_text("1 1:1\n")
    with queries(folder / "queries").open("a") as file:
        file.write("1 1:2\n")
    np.savetxt(folder / "factors", [0.0] + [1.0] * 4)
    commands = [words for words, _, _ in FAILURES]
    code = f"""
import sys
from bmrm.cli.train import main
codes = [main(words) for words in {commands!r}]
if codes == {[code for _, code, _ in FAILURES]!r}:
    sys.exit(main(["-q", *{FACTORS!r}, "train.txt", "weights everywhere"]))
sys.exit(f"found {{codes}}")
"""
    done = mpi.run(2, "-c", code)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert Path("weights everywhere").exists()
    lines = done.stderr.splitlines()
    assert len(lines) == len(FAILURES)
    for _, _, message in FAILURES:
        found = [line for line in lines if all(part in line for part in message.split(" ... "))]
        assert len(found) == 1, message
        assert found[0].startswith("bmrm-train: "), message


def test_ranks_that_were_given_other_options_say_so_once(data, folder):
    code = """
import os, sys
from bmrm.cli import train
words = sys.argv[2:]
if os.environ["PMI_RANK"] == "1":
    words[1] = sys.argv[1]
sys.exit(train.main(words))
"""
    done = mpi.run(2, "-c", code, "0.001", "--lambda", "0.01", data, "model")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bmrm-train: --lambda: found 0.01 on one rank and 0.001 on another\n"
    assert not (folder / "model").exists()


def test_help_and_version_are_printed_once():
    for option, text in (("--help", "usage: "), ("--version", "bmrm-train ")):
        done = train(2, option)
        assert (done.returncode, done.stdout.count(text)) == (0, 1)


FAULTY = """
import os, resource, sys
from bmrm.cli import train
from bmrm.cli.observer import Observer

rank = int(os.environ["PMI_RANK"])
what, words = sys.argv[1], sys.argv[2:]
observe = Observer.__call__

def fail(self, state):
    answer = observe(self, state)
    if rank == 1 and state.iteration == 5:
        if what == "kill":
            os.kill(os.getpid(), 9)
        if what == "memory":
            pages = int(open("/proc/self/statm").read().split()[0])
            limit = pages * resource.getpagesize() + (64 << 20)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            bytearray(1 << 30)
        raise OSError(5, "Input/output error", "a disk")
    return answer

Observer.__call__ = fail
if what == "loading" and rank == 1:
    from bmrm.io import _svmlight
    def parse(*args, **keywords):
        raise MemoryError
    _svmlight.parse = parse
sys.exit(train.main(words))
"""

HARD = ["--lambda", "1e-6", "--tol", "1e-12", "--tol-kind", "abs", "--cuts-per-pass", "2"]


@pytest.fixture
def long_job(folder) -> Path:
    """Draw random labels: the last digit takes many passes."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((1000, 100)), 3)
    return write_svmlight(folder / "data", X, rng.choice([-1.0, 1.0], 1000))


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("kill", 9, ""),
        ("memory", 1, "bmrm-train: rank 1: out of memory"),
        ("disk", 1, "bmrm-train: rank 1: a disk: Input/output error"),
        ("loading", 1, "bmrm-train: out of memory"),
    ],
)
def test_a_rank_that_fails_ends_the_job_and_leaves_the_checkpoint(long_job, tmp_path, what, code, message):
    program = mpi.script(tmp_path, FAULTY)
    began = time.monotonic()
    done = mpi.run(2, program, what, *HARD, "--checkpoint", "best", long_job, "model", own_job=True)
    assert time.monotonic() - began < SECONDS
    assert done.returncode == code, done.stderr
    assert done.stderr.count("bmrm-train: ") == bool(message)
    assert message in done.stderr
    assert not Path("model").exists()
    if what != "loading":
        assert Checkpoint.load("best").model.certificate.status == "running"


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_killed_job_resumes_on_other_ranks(long_job, tmp_path, monkeypatch, bmrm_train, ranks):
    """On one rank and on three: the result is no worse than before, and the count of iterations continues."""
    words = ["--lambda", "1e-3", "--cuts-per-pass", "2"]
    limits = ["--max-iter", "5", "--allow-unconverged"]
    assert train(2, *words, *limits, "-q", "--checkpoint", "best", long_job, "model").returncode == 0
    before = Checkpoint.load("best").model.certificate
    again = [
        "--json",
        *words,
        "--resume",
        "best",
        "--max-iter",
        "6",
        "--allow-unconverged",
        long_job,
        "model",
    ]
    shared = result(train(ranks, *again))
    assert shared["iterations"] == 6
    assert shared["objective"] <= before.objective * (1.0 + 1e-12)
    assert shared["lower_bound"] >= before.lower_bound * (1.0 - 1e-9)
    alone = json.loads(bmrm_train(*again).out)
    assert alone["objective"] == pytest.approx(shared["objective"], rel=1e-6)
    assert alone["lower_bound"] == pytest.approx(shared["lower_bound"], rel=1e-6)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_one_rank_ends_all_with_the_best_model(long_job, number):
    code = f"""
import os, sys
from bmrm.cli import train
from bmrm.cli.observer import Observer
observe = Observer.__call__
def press(self, state):
    if os.environ["PMI_RANK"] == "1" and state.iteration == 5:
        os.kill(os.getpid(), {int(number)})
    return observe(self, state)
Observer.__call__ = press
sys.exit(train.main(sys.argv[1:]))
"""
    done = mpi.run(2, "-c", code, *HARD, long_job, "model")
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout.startswith("interrupted after 5 iterations")
    assert Model.load("model").certificate.n_iter == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_ranks_are_together_ends_all(data, folder, number):
    code = f"""
import os, sys
from bmrm.cli import train
from bmrm.distributed import Group
likeness = Group._check_likeness
def press(self):
    if os.environ["PMI_RANK"] == "1":
        os.kill(os.getpid(), {int(number)})
    return likeness(self)
Group._check_likeness = press
sys.exit(train.main(sys.argv[1:]))
"""
    done = mpi.run(2, "-c", code, data, "model", own_job=True)
    assert done.returncode == 130
    assert done.stderr.startswith("bmrm-train: rank 1: interrupted")
    assert not (folder / "model").exists()


def test_signals_that_are_ignored_stay_so(data, folder):
    """As for background jobs, and under nohup."""
    code = """
import os, signal, sys
from bmrm.cli import train
from bmrm.cli.observer import Observer
signal.signal(signal.SIGINT, signal.SIG_IGN)
observe = Observer.__call__
def press(self, state):
    os.kill(os.getpid(), signal.SIGINT)
    return observe(self, state)
Observer.__call__ = press
sys.exit(train.main(sys.argv[1:]))
"""
    done = mpi.run(2, "-c", code, "-q", data, "model")
    assert (done.returncode, done.stderr) == (0, "")
    assert Model.load("model").certificate.status == "converged"


def test_one_rank_needs_no_mpi(data, bmrm_train, monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setitem(sys.modules, "bmrm.distributed", None)
    done = bmrm_train(data, "model")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("bmrm-train: several ranks need mpi4py")
    monkeypatch.setenv("PMI_SIZE", "1")
    assert bmrm_train("-q", data, "model").code == 0


def test_a_launcher_is_recognised_by_its_environment():
    assert launched({"OMPI_COMM_WORLD_RANK": "1"})
    assert not launched({"SLURM_NTASKS": "4"})


PREDICT = "import sys; from bmrm.cli.predict import main; sys.exit(main())"


@pytest.mark.parametrize("out", ["out", "-"])
def test_the_first_rank_alone_predicts(data, folder, bmrm_train, bmrm_predict, out):
    assert bmrm_train("-q", data, "model").code == 0
    alone = bmrm_predict(data, "model", out)
    done = mpi.run(3, "-c", PREDICT, data, "model", "out" if out == "out" else "-")
    assert (done.returncode, done.stdout, done.stderr) == alone
    if out == "out":
        assert len((folder / "out").read_text().splitlines()) == 60
    failed = mpi.run(3, "-c", PREDICT, data, "missing", "out")
    assert failed.returncode == 3
    assert failed.stderr.count("missing: No such file or directory") == 1
