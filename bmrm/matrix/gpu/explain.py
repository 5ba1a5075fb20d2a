"""Explain how the kernels of a matrix on a GPU were chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from bmrm.matrix import _cuda

_TITLES: dict[Literal["normal", "transposed"], str] = {"normal": "X w", "transposed": "X^T r"}


def explain(report: Mapping[str, Any]) -> str:
    """Return a report of `bmrm.matrix._cuda.Matrix.report` as text.

    It has the matrix, then for each product its statistics and one line per candidate; ``*`` marks the one in
    use.
    """
    rows, columns = report["shape"]
    lines = [
        f"{rows} x {columns}, {report['nnz']} nonzeros, {report['dtype']} vectors, {report['coding']} values",
        f"{report['device']['name']}: {report['bytes'] / 1e6:.1f} MB, prepared in "
        f"{1e3 * report['prepare_seconds']:.0f} ms",
    ]
    lines += block_lines(report["blocks"], report["host_bytes"])
    for name, title in _TITLES.items():
        operator = report[name]
        if operator is not None:
            lines += ["", f"{title}: {statistics_text(operator['statistics'])}"]
            lines += candidate_lines(operator["candidates"], operator["chosen"])
    return "\n".join(lines)


def complete_report(cuda: ModuleType, matrix: _cuda.Matrix) -> dict[str, Any]:
    """Return the report of a matrix; kernels in use that were not predicted or timed are so now.

    A matrix in several blocks is left out: candidates are those of the first block.
    """
    report = matrix.report()
    for name in _TITLES:
        operator = report[name]
        if operator is None or len(report["blocks"]) > 1:
            continue
        used = operator["candidates"][operator["chosen"]]
        if not used["predicted"]:
            known = report["device"], report["constants"], operator["statistics"]
            used["predicted"] = cuda.predict(*known, cuda.Plan(**used["plan"]))
        if not used["measured"]:
            used["measured"] = matrix.time(name)
    return report


def block_lines(blocks: Sequence[Mapping[str, Any]], host_bytes: int) -> list[str]:
    """Return lines about the blocks of rows, none if there is only one block.

    Examples
    --------
    >>> block = dict(rows=50, nnz=400, bytes=5 * 10**6, normal=dict(kernel="split"), transposed=None)
    >>> block["on_host"] = False
    >>> stays = {**block, "copied": dict(normal=0, transposed=0)}
    >>> streams = {**block, "copied": dict(normal=2 * 10**6, transposed=3 * 10**6)}
    >>> for line in block_lines([stays, streams, streams], 10 * 10**6): print(line)
    3 blocks of 50 to 50 rows; 2 stream 10.0 MB from pinned host memory (X w 4.0 MB, X^T r 6.0 MB)
    plans of the blocks: 3 split
    """
    if len(blocks) == 1:
        return []
    text = (
        f"{len(blocks)} blocks of {min(b['rows'] for b in blocks)} to {max(b['rows'] for b in blocks)} rows; "
    )
    count = sum(any(block["copied"].values()) for block in blocks)
    if count:
        copies = [
            f"{title} {sum(block['copied'][name] for block in blocks) / 1e6:.1f} MB"
            for name, title in _TITLES.items()
        ]
        text += f"{count} stream {host_bytes / 1e6:.1f} MB from pinned host memory ({', '.join(copies)})"
    on_cpu = sum(block["on_host"] for block in blocks)
    if on_cpu:
        text += f"{', ' if count else ''}{on_cpu} stay in main memory for the CPU"
    if not count and not on_cpu:
        text += "all stay on the device"
    pairs = Counter(
        ", ".join(plan_text(block[name]) for name in _TITLES if block[name] is not None) for block in blocks
    )
    return [text, "plans of the blocks: " + "; ".join(f"{n} {plans}" for plans, n in pairs.items())]


def statistics_text(statistics: Mapping[str, Any]) -> str:
    """Return one line with the statistics of a product.

    Examples
    --------
    >>> statistics_text(dict(rows=4, nnz=6, longest=3, empty_rows=1))
    '4 rows of 1.5 nonzeros on average, 3 at most, 1 empty'
    """
    rows = statistics["rows"]
    return (
        f"{rows} rows of {statistics['nnz'] / max(rows, 1):.3g} nonzeros on average, "
        f"{statistics['longest']} at most, {statistics['empty_rows']} empty"
    )


def plan_text(plan: Mapping[str, Any]) -> str:
    """Return a plan as text.

    Examples
    --------
    >>> plan_text({"kernel": "hot", "lanes": 0, "cap": 16, "tiles": 2, "tile": 4096})
    'hot cap 16 tiles 2 tile 4096'
    """
    return " ".join([plan["kernel"], *(f"{k} {v}" for k, v in plan.items() if k != "kernel" and v)])


def candidate_lines(candidates: Iterable[Mapping[str, Any]], chosen: int) -> list[str]:
    """Return a table of candidates: predicted and measured microseconds, and megabytes of the format."""
    lines = [f"  {'plan':<36} {'predicted us':>12} {'measured us':>12} {'MB':>9}"]
    for position, candidate in enumerate(candidates):
        predicted, measured = (
            f"{1e6 * candidate[key]:.1f}" if candidate[key] else "-" for key in ("predicted", "measured")
        )
        size = f"{candidate['bytes'] / 1e6:.2f}" if candidate["bytes"] else "-"
        lines.append(
            f"{'*' if position == chosen else ' '} {plan_text(candidate['plan']):<36} "
            f"{predicted:>12} {measured:>12} {size:>9}"
        )
    return lines
