"""``bmrm-train``: from a data file to a certified model file."""

from __future__ import annotations

import contextlib
import glob
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import Exit, check_apart, run, shown
from bmrm.cli.gpu_process import asks_for_gpu, is_large, leave, start_driver
from bmrm.cli.launch import launched
from bmrm.errors import ParameterError

if TYPE_CHECKING:
    from bmrm.cli.options import TrainOptions
    from bmrm.cli.progress import Interrupts, Observer
    from bmrm.dataset import Dataset
    from bmrm.distributed import Group
    from bmrm.io import Data
    from bmrm.result import Progress, Result

PROGRAM = "bmrm-train"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, or None
        Without the program's name; None takes ``sys.argv``.

    Returns
    -------
    int
        The exit code; ``bmrm-train --help`` lists them.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if launched():
        from bmrm.cli.ranks import run_on_ranks

        return run_on_ranks(PROGRAM, train, words)
    if argv is not None:
        return run(PROGRAM, train, words)
    if asks_for_gpu(words):
        start_driver()
    return leave(run(PROGRAM, train, words))


def train(argv: Sequence[str], group: Group | None = None) -> int:
    """Do what the command line says, on the ranks of a group if there is one, and return the exit code."""
    from bmrm.cli.progress import Interrupts

    with Interrupts() as interrupts:
        interrupts.importing("bmrm.losses")
        from bmrm.cli import ranks
        from bmrm.cli.options import parse

        options = parse(argv)
        if group is not None:
            ranks.check(options)
        elif options.weights != "auto":
            raise ParameterError("--weights: goes with MPI only; start it by mpiexec")
        interrupts.importing("bmrm.cli.fitting", "bmrm.dataset", "bmrm.landing", "bmrm.io.formats")
        if not (options.dry_run or options.validates or options.has_grid):
            return _train(options, interrupts, group)
        interrupts.importing("bmrm.training")
        if options.dry_run:
            from bmrm.cli.dryrun import dry_run

            return dry_run(options, group)
        if options.has_grid or options.calibrate is not None:
            from bmrm.cli.selecting import select_and_train

            return select_and_train(options, interrupts)
        return _cross_validate(options)


def _train(options: TrainOptions, interrupts: Interrupts, group: Group | None) -> int:
    if options.device == "auto" and is_large(options.data):
        start_driver()  # before imports that take a while
    from bmrm.cli.fitting import check, fit
    from bmrm.cli.loading import load, warm_start
    from bmrm.cli.progress import logged
    from bmrm.cli.ranks import together

    started = time.perf_counter()
    path = model_path(options, group)
    with together(group):
        check(options)
        warm = warm_start(options)
    with interrupts.importing_beside("bmrm.training"):
        data, dataset = load(options, group)
    checkpoint = _checkpoint(options, data, dataset, group)
    loaded = time.perf_counter()
    with interrupts.awaited():
        making = contextlib.closing(_observer(options, interrupts, checkpoint, group))
        with logged(options.verbose), making as observer:
            result = fit(options, dataset, warm=warm, callback=observer)
        trained = time.perf_counter()
        with interrupts.shielded():
            _save(result, options, path, data, observer, checkpoint, group)
    written = time.perf_counter()
    seconds = {f"load.{part}": value for part, value in data.seconds.items()}
    seconds |= {"load": loaded - started}
    seconds |= {f"train.{part}": value for part, value in result.timings.items() if part != "total"}
    seconds |= {"train": trained - loaded, "write": written - trained, "total": written - started}
    report(result, options, path, seconds)
    with together(group):
        if observer.failure is not None:
            raise observer.failure
    return exit_code([result.status], options)


def _checkpoint(
    options: TrainOptions, data: Data, dataset: Dataset, group: Group | None
) -> Callable[[Progress | Result], None] | None:
    """Return a function that writes the checkpoint; every rank calls it, for each has some of the cuts."""
    from bmrm.cli.fitting import problem, snapshots
    from bmrm.cli.ranks import is_first
    from bmrm.io.checkpoint import save
    from bmrm.io.model import Model
    from bmrm.result import Result

    snapshot = snapshots(options, data, dataset)  # also without a checkpoint: bad labels are told early
    path = options.checkpoint
    if path is None:
        return None

    def write(state: Progress | Result) -> None:
        cuts = state.bundle.working()
        model = None if isinstance(state, Result) else snapshot(state)
        if is_first(group):
            if isinstance(state, Result):
                model = Model.from_result(state, zero_based=data.zero_based)
            assert model is not None
            save(path, model, problem(options, dataset, state.bundle.groups), cuts)

    return write


def _save(
    result: Result,
    options: TrainOptions,
    path: str,
    data: Data,
    observer: Observer,
    checkpoint: Callable[[Progress | Result], None] | None,
    group: Group | None,
) -> None:
    from bmrm.cli.ranks import is_first, together
    from bmrm.io.model import Model

    if checkpoint is not None:
        with observer.keeping_failure():  # first, in case MODEL's disk is full
            checkpoint(result)
    with together(group):
        if is_first(group):
            model = Model.from_result(result, zero_based=data.zero_based)
            if options.export == "liblinear":
                model.export_liblinear(path)
            else:
                model.save(path)


def _cross_validate(options: TrainOptions) -> int:
    from bmrm.cli.fitting import check, solver_arguments
    from bmrm.cli.loading import load
    from bmrm.cli.progress import notice
    from bmrm.cli.report import cross_validation_json, cross_validation_text
    from bmrm.crossval import cross_validate

    assert options.folds is not None
    check(options)
    _, dataset = load(options)
    found = cross_validate(dataset, options.folds, **solver_arguments(options, dataset.shape[1]))
    if options.json:
        print(cross_validation_json(found, options))
    elif not options.quiet:
        print(cross_validation_text(found))
    statuses = [result.status for result in found.results]
    stopped = [status for status in statuses if status != "converged"]
    if stopped:
        why = ", ".join(sorted(set(stopped)))
        text = f"{PROGRAM}: note: {len(stopped)} of {len(statuses)} folds did not converge ({why})"
        notice(text, quiet=options.quiet)
    return exit_code(statuses, options)


def model_path(options: TrainOptions, group: Group | None = None) -> str:
    """Settle where the model goes; find out now, not after an hour, that it cannot be written."""
    from bmrm.cli.ranks import is_first, together
    from bmrm.io.atomic import check_writable

    path = options.model
    if path == "-":
        raise ParameterError("MODEL: found -, expected a file (/dev/stdout is standard output)")
    if path is None:
        if options.data == "-":
            raise ParameterError("DATA is stdin: name the MODEL")
        if group is not None and not os.path.exists(options.data) and glob.has_magic(options.data):
            raise ParameterError("DATA is a pattern: name the MODEL")
        path = os.path.basename(options.data) + ".model"
    inputs = {"DATA": options.data, "--config": options.config, "--sample-weight": options.sample_weight}
    inputs |= {"--feature-lambda": options.feature_lambda, "--costs": options.costs}
    outputs = {"MODEL": path, "--checkpoint": options.checkpoint}
    # A checkpoint is a model, and models that are read may be written anew, but by nothing else.
    models = {"--warm-start": options.warm_start, "--resume": options.resume, "--prior": options.prior}
    logs = {"--log-jsonl": options.log_jsonl, "--plot": options.plot}
    with together(group):
        for output in filter(None, (*outputs.values(), *logs.values())):
            if is_first(group):
                check_writable(output)
            check_apart(output, inputs)
        check_apart(path, {"--checkpoint": options.checkpoint})
        for log in filter(None, logs.values()):
            check_apart(log, outputs | models)
    return path


def _observer(
    options: TrainOptions,
    interrupts: Interrupts,
    checkpoint: Callable[[Progress | Result], None] | None,
    group: Group | None,
) -> Observer:
    """Put together what happens at each iteration."""
    from bmrm.cli.progress import Observer, ProgressLine
    from bmrm.cli.ranks import is_first, together

    log = None
    with together(group):
        if options.log_jsonl is not None and is_first(group):
            log = open(options.log_jsonl, "w", encoding="utf-8")  # noqa: SIM115
    return Observer(
        ProgressLine(sys.stderr, every_step=options.verbose, quiet=options.quiet),
        interrupts,
        log=log,
        checkpoint=checkpoint,
        group=group,
    )


def report(result: Result, options: TrainOptions, path: str, seconds: dict[str, float], **more: Any) -> None:
    """Print the certificate; ``more`` are further keys of the JSON object."""
    from bmrm.cli.progress import notice
    from bmrm.cli.report import certificate_text, result_json
    from bmrm.cli.units import time_text

    text = f"{certificate_text(result, seconds['train'])}\nmodel        {shown(path)}"
    if options.json:
        print(result_json(result, seconds, options, path, **more))
        notice(text, quiet=options.quiet)
    elif not options.quiet:
        print(text)
    if options.verbose:
        for part, value in seconds.items():
            notice(f"{part:<20} {time_text(value)}")


def exit_code(statuses: Sequence[str], options: TrainOptions) -> Exit:
    """Return the code that the statuses of all solves come to."""
    if "interrupted" in statuses:
        return Exit.INTERRUPTED
    converged = all(status == "converged" for status in statuses)
    return Exit.OK if converged or options.allow_unconverged else Exit.LIMIT


if __name__ == "__main__":
    sys.exit(main())
