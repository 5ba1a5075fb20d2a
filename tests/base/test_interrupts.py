"""Ctrl-C in Python: one exception with the best certified state, wherever and however often it is pressed."""

import os
import pickle
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm.base import interrupts
from bmrm.errors import Interrupted
from bmrm.linear.selection import cross_validation as crossval
from bmrm.linear.selection.cross_validation import cross_validate
from bmrm.linear.selection.select import Selection

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 12))
Y = np.where(X[:, 0] + rng.standard_normal(300) > 0.0, 1.0, -1.0)
WIDE = sp.csr_array(np.where(rng.random((200, 500)) < 0.05, rng.standard_normal((200, 500)), 0.0))
HARD = {"lam": 1e-2, "tol": 1e-12, "cuts_per_pass": 1}
LAMS = (0.1, 1e-2, 1e-3)


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def all_as_before():
    running = threading.active_count()
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert interrupts.active_interrupts() is None
    assert threading.active_count() == running


def check_certificate(result, data=X, labels=Y):
    margins = labels * (data @ result.w + result.intercept)
    objective = np.maximum(0.0, 1.0 - margins).mean() + 0.5 * result.lam * result.w @ result.w
    assert result.objective == pytest.approx(objective, rel=1e-12)
    assert result.gap == result.objective - result.lower_bound
    assert result.lower_bound <= bmrm.solve(data, labels, lam=result.lam, tol=1e-6).objective


def test_the_first_signal_ends_after_the_iteration():
    def once(state):
        if state.iteration == 3:
            press()

    with pytest.raises(Interrupted, match="`result` has the best so far") as stop:
        bmrm.solve(X, Y, callback=once, **HARD)
    found = stop.value.result
    assert (found.status, found.n_iter, len(found.history)) == ("interrupted", 3, 3)
    assert found.lower_bound > 0.0
    check_certificate(found)
    assert isinstance(stop.value, KeyboardInterrupt)


def test_the_second_signal_ends_at_once():
    def twice(state):
        if state.iteration == 3:
            press()
            press()
            pytest.fail("the second did not strike")

    with pytest.raises(Interrupted) as stop:
        bmrm.solve(X, Y, callback=twice, **HARD)
    assert (stop.value.result.status, stop.value.result.n_iter) == ("interrupted", 3)
    check_certificate(stop.value.result)


def test_a_callback_or_a_loss_may_raise_keyboard_interrupt_too():
    """Like a program whose own signal handler raises it."""

    def ask(state):
        if state.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stop:
        bmrm.solve(X, Y, callback=ask, **HARD)
    assert stop.value.result.n_iter == 3
    check_certificate(stop.value.result)


def test_stopping_by_the_callback_is_not_an_interrupt():
    assert bmrm.solve(X, Y, callback=lambda state: True, **HARD).status == "interrupted"
    assert [r.status for r in bmrm.path(X, Y, LAMS, callback=lambda state: True)] == ["interrupted"]


def test_another_handler_is_left_alone():
    struck = []
    before = signal.signal(signal.SIGINT, lambda *_: struck.append(1))
    try:
        assert bmrm.solve(X, Y, callback=lambda state: press(), lam=0.1).status == "converged"
        assert struck
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupted_loop_ends():
    statuses = []

    def train_all():
        for k in range(5):
            result = bmrm.solve(X, Y, lam=0.1 / (k + 1), callback=lambda _: len(statuses) == 2 and press())
            statuses.append(result.status)

    with pytest.raises(KeyboardInterrupt):
        train_all()
    assert statuses == ["converged"] * 2


def test_an_interrupted_path_returns_its_models():
    def at_the_second(state):
        if state.iteration == 2 and len(done) == 1:
            press()

    done = []
    with pytest.raises(Interrupted) as stop:
        bmrm.path(X, Y, LAMS, tol=1e-9, progress=done.append, callback=at_the_second)
    found = stop.value.result
    assert isinstance(found, bmrm.Path)
    assert (found.lams, [r.status for r in found]) == (LAMS[:2], ["converged", "interrupted"])
    for result in found:
        check_certificate(result)
    with pytest.raises(Interrupted) as stop:
        bmrm.path(X, Y, LAMS, progress=lambda _: press())
    assert stop.value.result.lams == LAMS[:1]


@pytest.mark.parametrize("engine", ["shared", "in step", "one by one"])
def test_an_interrupted_selection_returns_its_scores(engine, monkeypatch):
    monkeypatch.setattr(
        "bmrm.linear.selection.cross_validation.FoldProblem._may_share", lambda self: engine == "shared"
    )
    if engine == "one by one":
        monkeypatch.setattr(crossval, "MAX_LOCKSTEP_FOLDS", 1)
    whole = bmrm.select(X, Y, LAMS, 3)
    # Folds in step end together.
    reached = {2: 1, 3: 1, 7: 3, 9: 3} if engine == "in step" else {2: 0, 3: 1, 7: 2, 9: 3}
    for solves, lams in reached.items():
        with pytest.raises(Interrupted) as stop:
            bmrm.select(X, Y, LAMS, 3, progress=lambda at, solves=solves: at.done == solves and press())
        found = stop.value.result
        if not lams:
            assert found is None
            continue
        assert isinstance(found, Selection)
        assert tuple(found.lams) == LAMS[:lams]
        assert found.result is None
        np.testing.assert_array_equal(found.scores, whole.scores[:lams])
        assert "accuracy" in str(found)


@pytest.mark.parametrize("shares", [False, True])
def test_a_selection_interrupted_in_its_last_solve(shares, monkeypatch):
    monkeypatch.setattr("bmrm.linear.selection.cross_validation.FoldProblem._may_share", lambda self: shares)
    done = []
    with pytest.raises(Interrupted) as stop:
        bmrm.select(
            X, Y, LAMS, 3, progress=done.append, callback=lambda state: len(done) == 9 and press(), tol=1e-9
        )
    found = stop.value.result
    assert tuple(found.lams) == LAMS
    assert (found.result.lam, found.result.status) == (found.lam, "interrupted")
    check_certificate(found.result)


def test_functions_interrupted_without_a_result(tmp_path, monkeypatch):
    with pytest.raises(Interrupted) as stop:
        cross_validate(bmrm.Dataset(X, Y), 3, lam=0.1, callback=lambda _: press())
    assert stop.value.result is None

    def pressed(*_, **__):
        press()
        time.sleep(1.0)
        pytest.fail("it did not strike")

    (tmp_path / "data").write_text("1 1:1\n")
    with monkeypatch.context() as patch:
        patch.setattr("bmrm.linear.models.calibration._platt", pressed)
        patch.setattr("bmrm.io.svmlight.open_source", pressed)
        patch.setattr("bmrm.matrix.dataset.place_matrix", pressed)
        for call in (
            lambda: bmrm.calibrate([-1.0, 1.0], [0, 1]),
            lambda: bmrm.load_svmlight(tmp_path / "data"),
            lambda: bmrm.solve(X, Y),
            lambda: bmrm.path(X, Y, LAMS),
            lambda: bmrm.select(X, Y, LAMS),
        ):
            with pytest.raises(Interrupted, match=r"^interrupted$") as stop:
                call()
            assert stop.value.result is None


def test_an_interrupt_can_be_pickled():
    found = pickle.loads(pickle.dumps(Interrupted(bmrm.path(X, Y, [0.1]))))
    assert found.result.lams == (0.1,)
    assert pickle.loads(pickle.dumps(Interrupted())).result is None


def test_another_thread_is_not_interrupted():
    found = []
    thread = threading.Thread(target=lambda: found.append(bmrm.solve(X, Y, lam=0.1).status))
    thread.start()
    thread.join()
    assert found == ["converged"]


PACKAGE = str(Path(bmrm.__file__).parent)

CALLS = {
    "planes": lambda: bmrm.solve(X, Y, lam=1e-3, tol=1e-4, cuts_per_pass=1),
    "Newton": lambda: bmrm.solve(X, Y, lam=1e-3, tol=1e-4),
    "ascent": lambda: bmrm.solve(WIDE, Y[:200], lam=1e-3, tol=1e-4),
    "path": lambda: bmrm.path(X, Y, LAMS[:2]),
    "shared folds": lambda: bmrm.select(X, Y, LAMS[:2], 3),
    "folds in step": lambda: bmrm.select(WIDE, Y[:200], LAMS[:2], 3),
}


class Pressing:
    """Presses Ctrl-C at some lines of the package that the main thread reaches; counts the lines."""

    def __init__(self, at):
        self.at, self.lines = set(at), 0

    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line" and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            self.lines += 1
            if self.lines in self.at:
                press()
        return self

    def __enter__(self):
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(None)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_interrupt_at_any_line(call):
    call()
    with Pressing([]) as all_of_them:
        call()
    places = np.random.default_rng(1).integers(1, all_of_them.lines, (5, 2))
    for first, more in places.tolist():
        with pytest.raises(Interrupted) as stop, Pressing([first, first + 1 + more % 40]):
            call()
        found = stop.value.result
        if isinstance(found, bmrm.Result):
            wide = found.n_features > 12
            check_certificate(found, *((WIDE, Y[:200]) if wide else (X, Y)))
        elif isinstance(found, bmrm.Path):
            for result in found:
                check_certificate(result)
        else:
            assert found is None or isinstance(found, Selection)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_any_number_of_interrupts_at_any_time(call):
    """Many in quick succession, from another thread."""
    begun = time.perf_counter()
    call()
    took = time.perf_counter() - begun
    for k in range(4):
        ended = threading.Event()

        def volley(wait=took * (k + 0.5) / 5, ended=ended):
            time.sleep(wait)
            for _ in range(5):
                if ended.is_set() or signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                    return
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(2e-4)

        thread = threading.Thread(target=volley)
        try:
            thread.start()
            call()
        except KeyboardInterrupt:
            pass
        ended.set()
        thread.join()


def test_work_that_is_left_has_ended_before_the_interrupt_is_raised():
    left, ended = threading.Event(), threading.Event()

    def work():
        left.wait()
        time.sleep(0.3)
        ended.set()

    timer = threading.Timer(0.25, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        interrupts.wait_for(work, left.set)
    assert ended.is_set()
    timer.join()
