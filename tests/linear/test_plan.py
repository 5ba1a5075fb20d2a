"""The plan of a solve: what is decided for typical shapes, and that every caller gets the same."""

import dataclasses
import logging

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm import losses
from bmrm.cli import train
from bmrm.cli.dry_run import measure, plan_of
from bmrm.cli.options import parse
from bmrm.errors import ParameterError
from bmrm.linear import regularizers
from bmrm.linear.inputs import Options
from bmrm.linear.intercept import Intercept, operator_of
from bmrm.linear.memory import GpuMemory, MatrixSize
from bmrm.linear.plan import Facts, Plan, PlanOptions, make_plan, shared_cuts_pay


@dataclasses.dataclass
class Sizes:
    """What a plan needs to know about X."""

    shape: tuple[int, int]
    nnz: int
    weighted_gram_work: float = 1e30


def facts(rows, columns, nnz, loss="hinge", reg="l2", *, outputs=1, work=1e30, value=None, **more):
    """The facts of a made-up problem."""
    loss, intercept = losses.get(loss), more.pop("intercept", Intercept(False, None))
    penalty = regularizers.get(reg, more.pop("lam", 1e-4), 1)
    operator = operator_of(Sizes((rows, columns), nnz, work), loss, outputs, intercept)
    size = MatrixSize(rows, columns, nnz, 8, nnz == rows * columns)
    return Facts(operator, size, rows, loss, penalty, intercept, **more)


def decided(known, **asked):
    plan = make_plan(known, PlanOptions(**asked))
    return plan.backend, plan.step, plan.blocks


TEXT = (30_000, 40_000, 900_000)
NARROW = (100_000, 20, 2_000_000)


@pytest.mark.parametrize(
    ("known", "asked", "expected"),
    [
        (facts(*NARROW, "logistic", work=1.0), {}, ("host", "newton", 1)),
        (facts(*NARROW, "logistic", work=1.0), {"solver": "bmrm"}, ("host", "cuts", 1)),
        (facts(*NARROW, "hinge", work=1.0), {}, ("host", "newton", 8)),
        (facts(*NARROW, "hinge", work=1.0), {"cuts_per_pass": 3}, ("host", "newton", 3)),
        (facts(*NARROW, "hinge", work=1.0), {"max_cuts": 32}, ("host", "newton", 2)),
        (facts(*NARROW, "hinge", work=1.0, intercept=Intercept(True, None)), {}, ("host", "newton", 1)),
        (facts(*TEXT, threads=2), {}, ("host", "ascent", 1)),
        (facts(*TEXT, threads=2, row_square=lambda: 1e-3), {}, ("host", "cuts", 1)),
        (facts(*TEXT, threads=2), {"cuts_per_pass": 1}, ("host", "cuts", 1)),
        (facts(*TEXT, threads=2), {"resumed_blocks": 4}, ("host", "cuts", 4)),
        (facts(*TEXT, reg="l1", threads=2), {}, ("host", "cuts", 1)),
        (facts(10_000, 40_000, 300_000), {}, ("rows", "ascent", 1)),
        (facts(10_000, 40_000, 300_000), {"resumed_blocks": 1}, ("host", "ascent", 1)),
        (
            facts(10_000, 40_000, 300_000, column_squares=lambda: np.array([1.0, 1.0, 1e10])),
            {},
            ("host", "ascent", 1),
        ),
        (facts(*TEXT, device="gpu", can_solve_on_gpu=True, work=np.inf), {}, ("gpu", "ascent", 1)),
        (facts(*TEXT, reg="l1", device="gpu", can_solve_on_gpu=True), {}, ("host", "cuts", 1)),
        (facts(*TEXT, "roc_area", device="gpu", can_solve_on_gpu=True, max_blocks=1), {}, ("gpu", "cuts", 1)),
        (facts(*TEXT, ranks=4), {}, ("ranks", "cuts", 1)),
        (facts(*NARROW, "logistic", work=1.0, ranks=4), {}, ("ranks", "newton", 1)),
        (facts(*NARROW, "logistic", work=1.0, ranks=4, owned=True), {}, ("ranks", "cuts", 8)),
    ],
)
def test_decisions(known, asked, expected):
    assert decided(known, **asked) == expected


@pytest.mark.parametrize(
    ("known", "tol", "newton", "hessian"),
    [
        (facts(15, 30, 450, "squared", work=7000.0), 1e-8, False, False),
        (facts(15, 30, 450, "squared", work=7000.0), 1e-10, True, True),
        (facts(15, 30, 450, "squared", work=7000.0), None, False, False),
        (facts(15, 30, 450, "hinge", work=7000.0), 1e-10, False, False),  # kinks are what cuts are good at
        (facts(*TEXT, "logistic"), 1e-10, False, False),
        (facts(1000, 100, 100_000, "logistic"), 1e-10, True, False),  # by conjugate gradients anyway
        (facts(*NARROW, "logistic", work=1.0), 1e-3, True, True),
    ],
)
def test_a_fine_tolerance_pays_for_a_larger_hessian(known, tol, newton, hessian):
    plan = make_plan(known, PlanOptions(tol=tol))
    assert (plan.step == "newton", plan.hessian) == (newton, hessian)


def test_ranks_keep_whole_cuts_for_steps_that_need_them():
    def splits(known, **asked):
        return make_plan(dataclasses.replace(known, ranks=4), PlanOptions(**asked)).split_cuts

    wide = facts(1000, 10_000, 30_000)
    assert splits(wide)
    assert not splits(wide, solver="bmrm")
    assert not splits(facts(1000, 10_000, 30_000, reg="l1"))
    assert not splits(facts(1000, 4000, 30_000))  # interior points
    assert splits(facts(1000, 4000, 30_000, "logistic"))
    assert not splits(facts(1000, 3, 3000, "logistic"))  # fewer columns than ranks
    assert splits(dataclasses.replace(wide, owned=True))


@pytest.mark.parametrize(("loss", "width"), [("logistic", 1000), ("hinge", 4000)])
def test_the_memory_of_a_rank_is_that_of_the_cuts_it_keeps(loss, width):
    plan = make_plan(facts(1000, 4000, 30_000, loss, ranks=4), PlanOptions(max_cuts=5))
    assert plan.split_cuts == (width == 1000)
    assert plan.memory["bundle"] == 5 * (8 * width + 8 * 5)


def test_an_impossible_number_of_cuts():
    known = facts(*NARROW, intercept=Intercept(True, None))
    with pytest.raises(ParameterError, match="takes one cut"):
        make_plan(known, PlanOptions(cuts_per_pass=2))


def test_each_decision_has_a_reason():
    plan = make_plan(facts(*TEXT, intercept=Intercept(False, 2.0)), PlanOptions())
    names = ["storage", "backend", "weights", "first steps", "cuts per pass", "intercept", "memory"]
    assert [line.split("  ")[0] for line in plan.lines()] == names
    assert all(line.partition(": ")[2] for line in plan.lines())
    assert str(plan) == "\n".join(plan.lines())
    assert "feature of value 2" in str(plan)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.blocks = 2


def test_the_memory_of_a_gpu():
    gpu = GpuMemory(resident=1000, streamed=10, vectors=200, room=10**6, item=4)
    known = facts(30_000, 100, 3_000_000, "logistic", device="gpu", gpu=gpu, can_solve_on_gpu=True)
    memory = make_plan(known, PlanOptions(max_cuts=5)).memory
    assert memory == {
        "X on the GPU": 1000,
        "X in pinned host memory": 10,
        "vectors": 200,
        "bundle": 5 * (4 * 100 + 8 * 5),
    }


def test_when_folds_share_cuts():
    assert shared_cuts_pay(losses.get("hinge"), 5, 10, 15_000)
    assert not shared_cuts_pay(losses.get("hinge"), 5, 10, 14_999)
    assert not shared_cuts_pay(losses.get("softmax"), 5, 10, 10**9)
    assert not shared_cuts_pay(losses.get("roc_area"), 5, 10, 10**9)


@pytest.fixture
def plans(monkeypatch):
    """The plans of solves, as they are made."""
    found = []

    def noted(*arguments):
        found.append(make_plan(*arguments))
        return found[-1]

    monkeypatch.setattr("bmrm.linear.solve.make_plan", noted)
    return found


PROBLEMS = {
    "narrow": (400, 8, 1.0, []),
    "square": (5, 5, 1.0, []),
    "text": (600, 1000, 0.01, []),
    "wide": (100, 2000, 0.01, []),
    "wide, strong": (100, 2000, 0.01, ["--lambda", "100"]),
    "wide, constant": (100, 2000, 0.01, ["-B", "1"]),
    "wide, free": (100, 2000, 0.01, ["--intercept"]),
    "l1": (100, 2000, 0.01, ["--reg", "l1"]),
    "C": (600, 1000, 0.01, ["-c", "2"]),
    "bmrm": (400, 8, 1.0, ["--solver", "bmrm"]),
    "logistic": (400, 30, 0.5, ["--loss", "logistic"]),
    "poisson": (100, 2000, 0.01, ["--loss", "poisson"]),
    "softmax": (400, 30, 0.5, ["--loss", "softmax"]),
    "multiclass": (300, 900, 0.02, ["--loss", "multiclass", "-B", "1"]),
    "roc_area": (300, 900, 0.02, ["--loss", "roc_area"]),
    "float64": (300, 10, 0.5, ["--dtype", "float64", "--max-cuts", "50"]),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_dry_run_makes_the_plan_of_the_solve(name, tmp_path, plans):
    rows, columns, density, words = PROBLEMS[name]
    rng = np.random.default_rng(1)
    X = sp.random_array((rows, columns), density=density, rng=rng, data_sampler=rng.standard_normal).tocsr()
    y = np.arange(rows) % 3 if {"softmax", "multiclass", "poisson"} & set(words) else np.arange(rows) % 2
    file = tmp_path / "data"
    with file.open("w") as lines:
        for i in range(rows):
            row = X[[i]]
            pairs = zip(row.indices, row.data, strict=True)
            print(y[i], *(f"{j + 1}:{value:.6g}" for j, value in sorted(pairs)), file=lines)
    options = parse(["--device", "cpu", *words, str(file)])
    dry = plan_of(measure(options), options)
    ended = ["-q", "--device", "cpu", "--max-iter", "3", "--allow-unconverged"]
    assert train.main([*ended, *words, str(file), str(tmp_path / "model")]) == 0
    assert plans
    assert dry == plans[0]
    assert plan_of(measure(options), options).memory == plans[0].memory


def test_options_are_those_of_solve():
    import inspect

    names = {field.name for field in dataclasses.fields(Options)}
    assert names | {"X", "y", "loss", "comm", "loss_params"} == set(inspect.signature(bmrm.solve).parameters)


def test_solve_prints_its_plan_once(capsys):
    X, y = np.eye(4), [1, 1, -1, -1]
    bmrm.solve(X, y, lam=0.1, verbose=2)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "storage        dense: as given"
    assert sum(line.startswith("first steps ") for line in out) == 1
    assert out[7].startswith("     1  J ")
    bmrm.solve(X, y, lam=0.1, verbose=1)
    assert "backend" not in capsys.readouterr().out


def test_the_log_has_the_plan(caplog):
    with caplog.at_level(logging.DEBUG, "bmrm"):
        bmrm.solve(np.eye(4), [1, 1, -1, -1], lam=0.1)
    assert [line.partition(": ")[0] for line in caplog.messages] == ["plan"] * 7
    assert isinstance(caplog.messages[0], str)
    assert Plan.__dataclass_params__.frozen
