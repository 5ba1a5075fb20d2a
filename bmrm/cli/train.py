"""``bmrm-train``: train on a data file and write a model file with its certificate."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bmrm.cli.gpu_process import asks_for_gpu, is_large, start_driver
from bmrm.cli.launch import launched
from bmrm.cli.outcome import exit_code, model_path, report
from bmrm.cli.ranks import is_first, run_command_on_ranks
from bmrm.errors import ParameterError

if TYPE_CHECKING:
    from bmrm.cli.observer import Observer
    from bmrm.cli.signals import CommandInterrupts
    from bmrm.cli.train_options import TrainOptions
    from bmrm.distributed import Group
    from bmrm.linear.bundle.store import StoredCuts
    from bmrm.linear.models.checkpoint import Problem
    from bmrm.linear.models.model import Model
    from bmrm.linear.result import Result
    from bmrm.linear.solvers.progress import Progress
    from bmrm.linear.storage import Files, Training
    from bmrm.matrix.dataset import Dataset

PROGRAM = "bmrm-train"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `run_command_on_ranks` does."""
    if argv is None and not launched() and asks_for_gpu(sys.argv[1:]):
        start_driver()
    return run_command_on_ranks(PROGRAM, train, argv)


def train(argv: Sequence[str], interrupts: CommandInterrupts, group: Group | None = None) -> int:
    """Run the command, on the ranks of a group if there is one, and return the exit code."""
    interrupts.importing("bmrm.losses", "bmrm.cli.options")
    from bmrm.cli import ranks
    from bmrm.cli.options import parse

    with interrupts.opened():
        options = parse(argv)
    if group is not None:
        ranks.check(options, group)
    elif options.weights != "auto":
        raise ParameterError("--weights: only with MPI; start the command with mpiexec")
    interrupts.importing(
        "bmrm.cli.fitting", "bmrm.matrix.dataset", "bmrm.matrix.upload", "bmrm.io.formats", "bmrm.io.cache"
    )
    if not (options.dry_run or options.validates or options.has_grid):
        return _train(options, interrupts, group)
    interrupts.importing("bmrm.linear.solve")
    if options.dry_run:
        interrupts.importing("bmrm.cli.dry_run")
        from bmrm.cli.dry_run import dry_run

        with interrupts.opened():
            return dry_run(options, group)
    if options.has_grid or options.calibrate is not None:
        interrupts.importing("bmrm.cli.selecting")
        from bmrm.cli.selecting import select_and_train

        return select_and_train(options, interrupts)
    return _cross_validate(options, interrupts)


def _train(options: TrainOptions, interrupts: CommandInterrupts, group: Group | None) -> int:
    if options.device == "auto" and is_large(options.data):
        start_driver()  # before imports that take a while
    from bmrm.base.progress import print_log
    from bmrm.cli.fitting import check, start_from, write_model
    from bmrm.cli.loading import warm_start
    from bmrm.cli.ranks import fail_together
    from bmrm.cli.storing import first_type, load_first
    from bmrm.linear.storage import AUTO, Files

    started = time.perf_counter()
    with interrupts.opened():
        path = model_path(options, group)
        with fail_together(group):
            check(options)
            warm = warm_start(options)
            dtype = first_type(options, group, warm)
            files = Files(options.data)
        with interrupts.importing_in_background("bmrm.linear.solve"):
            dataset = load_first(options, dtype, group)
    data = dataset.source
    assert data is not None
    if options.solver_type is not None and group is None:
        interrupts.importing("bmrm.cli.one_against_rest")
        from bmrm.cli import one_against_rest

        if one_against_rest.applies(options, data):
            return one_against_rest.train(options, dataset, path, interrupts, started)
    with interrupts.opened():
        checkpoint = _Checkpoint(options, group)
        checkpoint.follow(dataset)
        parsed, loaded = data.seconds, time.perf_counter()
        making = contextlib.closing(_observer(options, checkpoint, group))
    with print_log(options.verbose), making as observer:
        again = _reader(options, interrupts, group) if options.dtype == AUTO else None
        training = _training(options, dataset, files, again, checkpoint, observer)
        warm = start_from(options, warm, dataset.shape[1])
        del data, dataset  # or its matrix would outlive its use
        result = training.run(warm)
    trained = time.perf_counter()
    with observer.keeping_failure():
        checkpoint.end(result)  # first, in case the disk of MODEL is full
    with fail_together(group):
        if is_first(group):
            write_model(result, options, path)
    written = time.perf_counter()
    seconds = {f"load.{part}": value for part, value in parsed.items()}
    seconds |= {"load": loaded - started}
    seconds |= {f"train.{part}": value for part, value in result.timings.items() if part != "total"}
    seconds |= {"train": trained - loaded, "write": written - trained, "total": written - started}
    report(result, options, path, seconds)
    with fail_together(group):
        if observer.failure is not None:
            raise observer.failure
    return exit_code([result.status], options)


def _training(
    options: TrainOptions,
    dataset: Dataset,
    files: Files,
    again: Callable[[], Dataset] | None,
    checkpoint: _Checkpoint,
    observer: Observer,
) -> Training:
    """Return the training on a data set, whose states go to the checkpoint and to the observer."""
    from bmrm.base.progress import print_notice
    from bmrm.cli.fitting import solver_arguments
    from bmrm.linear.storage import Training

    def keep(result: Result) -> None:
        with observer.keeping_failure():
            checkpoint.end(result, "running")

    arguments = solver_arguments(options, dataset.shape[1], dataset.zero_based)
    return Training(
        dataset,
        files,
        again,
        {**arguments, "callback": observer},
        keep=keep,
        follow=checkpoint.follow,
        give_up=lambda why: print_notice(why, quiet=options.quiet),
    )


def _reader(
    options: TrainOptions, interrupts: CommandInterrupts, group: Group | None
) -> Callable[[], Dataset]:
    """Return a function that reads the data again, as float64."""
    from bmrm.cli.storing import load_first
    from bmrm.linear.storage import DOUBLE

    def read() -> Dataset:
        # An interrupted rank would leave the others waiting; with several ranks, the solve handles signals.
        with interrupts.opened() if group is None else contextlib.nullcontext():
            return load_first(options, DOUBLE, group)

    return read


class _Checkpoint:
    """Writes the checkpoint, if one is wanted; collective over the ranks, since each has some of the cuts."""

    def __init__(self, options: TrainOptions, group: Group | None) -> None:
        self._options, self.path, self._group = options, options.checkpoint, group

    def follow(self, dataset: Dataset | None) -> None:
        """Set the data of the next states; None releases the previous data."""
        from bmrm.cli.fitting import snapshots

        # Even without a checkpoint, so that bad labels are reported early.
        self._snapshot = None if dataset is None else snapshots(self._options, dataset)

    def __call__(self, state: Progress) -> None:
        """Write an intermediate state."""
        from bmrm.linear.warm_start import problem_of

        assert self._snapshot is not None
        cuts, problem = state.bundle.working(), problem_of(state)
        self._write(self._snapshot(state), problem, cuts)

    def end(self, result: Result, status: str | None = None) -> None:
        """Write the state at the end of training, with its own status or another.

        If the cuts were released to make room for other values, the checkpoint is already written.
        """
        from dataclasses import replace

        from bmrm.linear.models.model import Model
        from bmrm.linear.warm_start import problem_of

        if self.path is None or result.bundle is None:
            return
        cuts, problem = result.bundle.working(), problem_of(result)
        model = None
        if is_first(self._group):
            model = Model.from_result(result)
            assert model.certificate is not None
            certificate = replace(model.certificate, status=status or result.status)
            model = replace(model, certificate=certificate)
        self._write(model, problem, cuts)

    def _write(self, model: Model | None, problem: Problem, cuts: StoredCuts) -> None:
        from bmrm.linear.models.checkpoint import save

        assert self.path is not None
        if is_first(self._group):
            assert model is not None
            save(self.path, model, problem, cuts)


def _cross_validate(options: TrainOptions, interrupts: CommandInterrupts) -> int:
    from bmrm.base.progress import print_log, print_notice
    from bmrm.cli.fitting import check, solver_arguments
    from bmrm.cli.report import cross_validation_json, cross_validation_text
    from bmrm.cli.storing import load_exactly
    from bmrm.linear.selection.cross_validation import cross_validate

    assert options.folds is not None
    with interrupts.opened():
        check(options)
        dataset = load_exactly(options)
        arguments = solver_arguments(options, dataset.shape[1], dataset.zero_based)
    if options.solver_type is not None:
        from bmrm.cli import one_against_rest

        assert dataset.source is not None
        if one_against_rest.applies(options, dataset.source):
            return one_against_rest.cross_validate(options, dataset)
    with print_log(options.verbose if options.verbose > 1 else 0):
        found = cross_validate(dataset, options.folds, **arguments)
    if options.json:
        print(cross_validation_json(found.results, found.metrics, options))
    elif not options.quiet:
        print(cross_validation_text(found.results[0].loss.task, found.metrics))
    statuses = [result.status for result in found.results]
    stopped = [status for status in statuses if status != "converged"]
    if stopped:
        why = ", ".join(sorted(set(stopped)))
        text = f"{PROGRAM}: note: {len(stopped)} of {len(statuses)} folds did not converge ({why})"
        print_notice(text, quiet=options.quiet)
    return exit_code(statuses, options)


def _observer(
    options: TrainOptions,
    checkpoint: _Checkpoint,
    group: Group | None,
) -> Observer:
    from bmrm.base.progress import ProgressLine
    from bmrm.cli.observer import Observer
    from bmrm.cli.ranks import fail_together, is_first

    log = None
    with fail_together(group):
        if options.log_jsonl is not None and is_first(group):
            log = open(options.log_jsonl, "w", encoding="utf-8")  # noqa: SIM115
    return Observer(
        ProgressLine(sys.stderr, every_step=options.verbose > 0, quiet=options.quiet),
        log=log,
        checkpoint=None if checkpoint.path is None else checkpoint,
        group=group,
    )


if __name__ == "__main__":
    sys.exit(main())
