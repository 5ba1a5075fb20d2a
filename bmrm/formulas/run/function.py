"""A compiled function of rows: what is known before a call, and how its text can be looked at.

`bmrm.reductions` makes it callable. Here is what does not depend on which rows it is called with.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from bmrm.distributed.reading import read_rows
from bmrm.distributed.row_set import RowSet
from bmrm.distributed.rows import StoredRows
from bmrm.errors import BmrmError, ParameterError, ReductionError
from bmrm.formulas.cpu import native
from bmrm.formulas.language.source import FunctionSource, read_source
from bmrm.formulas.run.beside import CpuSide
from bmrm.formulas.run.binding import NO_SETS, Binder, Call
from bmrm.formulas.run.cpu import CpuRunner
from bmrm.formulas.run.explain import explain_call, explain_program
from bmrm.formulas.run.gpu import GpuRunner
from bmrm.formulas.run.placing import predict_place
from bmrm.formulas.run.plain import MAX_PLAIN_SECONDS, run_plain
from bmrm.matrix.gpu.cpu_share import Share
from bmrm.matrix.gpu.driver import count_devices
from bmrm.matrix.gpu.placement import Placement, place, with_fall_back

F = TypeVar("F", bound=Callable[..., Any])

TARGETS = ("cpu", "cuda")


def refuses_deep_text(method: F) -> F:
    """Make a method raise `ReductionError` for expressions that are too deep for the printers of code."""

    @functools.wraps(method)
    def checked(self: CompiledFunction, /, *words: Any, **keywords: Any) -> Any:
        try:
            return method(self, *words, **keywords)
        except RecursionError:
            raise ReductionError(
                f"{self._source.name}: found code nested too deeply, "
                "expected shorter expressions, with names for their parts"
            ) from None

    return cast(F, checked)


class CompiledFunction:
    """A function of rows that is compiled when it is called; its results have names."""

    def __init__(
        self, function: Callable[..., Any], source: FunctionSource | None = None, *, contract: bool = True
    ) -> None:
        self._source, self._contract = source or read_source(function), contract
        self._binder = Binder(self._source)
        self._host = CpuRunner(self._source)
        self._gpu = GpuRunner(self._source)
        self.results: tuple[str, ...] = tuple(a.name for a in self._binder.general.results())
        """Names of the results."""
        self.takes = self._binder.takes
        """Names of the parameters, and of sizes that a call may give."""
        self._tuple = _results_type(function.__name__, self.results)
        functools.update_wrapper(cast(Any, self), function)
        self._name = function.__qualname__

    def __reduce__(self) -> str:
        return self._name  # pickled by name, as functions are; a copy is the reduction itself

    def __repr__(self) -> str:
        return f"<reduction {self._source.name}: {', '.join(self.results)}>"

    @refuses_deep_text
    def python(self, data: Any, /, **words: Any) -> Any:
        """Run a pass as a plain Python loop over the rows, for tests and debuggers.

        Parameters
        ----------
        data, **words
            As in a call.

        Returns
        -------
        namedtuple
            As of a call, up to rounding: sums add one row after the other.
        """
        return self._tuple(**run_plain(self._source, self._call(data, words)))

    @refuses_deep_text
    def explain(self, data: Any = None, /, **words: Any) -> str:
        """Explain the roles of the arguments, and how a call would run.

        Parameters
        ----------
        data, **words : optional
            As in a call. Without them only what the text of the function says is explained.

        Returns
        -------
        str
            A line per argument and local; with data also how the rows are computed, the work per row and the
            predicted time.
        """
        if data is None:
            return explain_program(self._source, self._binder.general)
        call = self._call(data, words)
        placed = place("auto", call.rows.gpu) if call.rows.on_gpu else predict_place(call)
        if placed.gpu is not None:
            split = CpuSide(self._host, None, None, self._contract).text(call, placed.gpu)
            placed = replace(placed, reason="; ".join(filter(None, (placed.reason, split))))
        return f"{explain_call(self._source, call)}\n{placed}"

    @refuses_deep_text
    def source(self, target: str, data: Any, /, **words: Any) -> str:
        """Return the code that a call would run.

        Parameters
        ----------
        target : {"cpu", "cuda"}
        data, **words
            As in a call: types and sizes are part of the code.

        Returns
        -------
        str
            LLVM's text before optimisation, or CUDA C++.

        Raises
        ------
        BmrmError
            For "cpu", if llvmlite is not installed.
        """
        if target not in TARGETS:
            raise ParameterError(f"source: found {target!r}, expected {' or '.join(TARGETS)}")
        if target == "cpu" and not native.can_compile():
            raise BmrmError(f"{self._source.name}: found no compiler for the CPU: pip install llvmlite")
        call = self._call(data, words)
        if target == "cpu":
            return self._host.code_of(call, contract=self._contract).text
        return self._gpu.code_of(call).text

    def run(
        self,
        rows: RowSet,
        words: dict[str, Any],
        device: str,
        threads: int | None,
        order: str,
        keep: bool,
        sets: Mapping[str, StoredRows] = NO_SETS,
        share: Share = 0,
    ) -> Any:
        """Run a pass over rows; `bmrm.reductions.Reduction` says what the options mean.

        Parameters
        ----------
        rows : RowSet
        words : dict
            The parameters of the function by name.
        device, threads, order, keep : as for a call
        sets : dict, optional
            Parameters that are rows too, and stay on GPUs as these do.
        share : Share, default 0
            The CPU's share of blocks that do not stay on a GPU: in eighths, "auto", or None for the default.

        Returns
        -------
        namedtuple
        """
        known = place(device, rows.gpu, group=rows.group, count=count_devices)
        with rows.together():
            call = self._binder.bind(rows, words, gpu=known.gpu is not None, sets=sets)
        side = CpuSide(self._host, share, threads, self._contract)
        return self._run(call, known, threads, order, keep, side)

    def _run(
        self, call: Call, known: Placement, threads: int | None, order: str, keep: bool, side: CpuSide
    ) -> Any:
        """Run a pass where its rows are, or where it is predicted to be fast."""
        placed = predict_place(call, threads) if known.chosen and known.gpu is None else known
        placed.log()

        def on_host() -> dict[str, Any]:
            if native.can_compile():
                return self._host.run(call, threads, order, contract=self._contract)
            return run_plain(self._source, call, limit=MAX_PLAIN_SECONDS)

        def on_gpu(number: int) -> tuple[dict[str, Any], str]:
            return self._gpu.run(call, number, keep, contract=self._contract, cpu=side), ""

        found, _ = with_fall_back(placed, on_host, on_gpu)
        return self._tuple(**found)

    def _call(self, data: Any, words: dict[str, Any]) -> Call:
        rows = read_rows(data)
        return self._binder.bind(rows, words, gpu=rows.on_gpu)


@functools.cache
def _results_type(name: str, fields: tuple[str, ...]) -> Any:
    """Return the type of the results of a reduction; they can be pickled, though no module has the type."""
    found = namedtuple(name, fields)  # type: ignore[misc]

    def reduced(results: tuple[Any, ...]) -> tuple[Any, ...]:
        return _results_of, (name, fields, tuple(results))

    setattr(found, "__reduce__", reduced)  # noqa: B010 (mypy knows another type)
    return found


def _results_of(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _results_type(name, fields)(*values)
