"""The outcome of a training command: the model's path, the report, the exit code."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bmrm.cli.exits import Exit, check_apart
from bmrm.errors import ParameterError, escape_unprintable

if TYPE_CHECKING:
    from bmrm.cli.train_options import TrainOptions
    from bmrm.distributed import Group
    from bmrm.linear.result import Result


def model_path(options: TrainOptions, group: Group | None = None) -> str:
    """Return the path of the model; raise now, and not after training, if an output cannot be written."""
    from bmrm.base.atomic import check_writable
    from bmrm.cli.ranks import fail_together, is_first

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
    inputs |= {"--labels": options.labels, "--offset": options.offset}
    inputs |= {"--feature-lambda": options.feature_lambda, "--costs": options.costs}
    outputs = {"MODEL": path, "--checkpoint": options.checkpoint}
    # A checkpoint is a model. A model that is read may be overwritten by a model, but not by another file.
    models = {"--warm-start": options.warm_start, "--resume": options.resume, "--prior": options.prior}
    logs = {"--log-jsonl": options.log_jsonl, "--plot": options.plot}
    with fail_together(group):
        for output in filter(None, (*outputs.values(), *logs.values())):
            if is_first(group):
                check_writable(output)
            check_apart(output, inputs)
        check_apart(path, {"--checkpoint": options.checkpoint})
        for log in filter(None, logs.values()):
            check_apart(log, outputs | models)
    return path


def report(found: Result, options: TrainOptions, path: str, seconds: dict[str, float], **more: Any) -> None:
    """Print the certificate; ``more`` are additional keys of the JSON object."""
    from bmrm.base.progress import print_notice
    from bmrm.base.units import time_text
    from bmrm.cli.report import certificate_text, result_json

    text = certificate_text(found, seconds["train"])
    text += f"\nmodel        {escape_unprintable(path)}"
    if options.json:
        print(result_json(found, seconds, options, path, **more))
        print_notice(text, quiet=options.quiet)
    elif not options.quiet:
        print(text)
    if options.verbose:
        for part, value in seconds.items():
            print_notice(f"{part:<20} {time_text(value)}")


def exit_code(statuses: Sequence[str], options: TrainOptions) -> Exit:
    """Return the exit code for the statuses of all solves."""
    if "interrupted" in statuses:
        return Exit.INTERRUPTED
    converged = all(status == "converged" for status in statuses)
    return Exit.OK if converged or options.allow_unconverged else Exit.LIMIT
