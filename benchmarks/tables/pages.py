"""Headings and tables of docs/performance.md."""

from __future__ import annotations

import json
import re

from benchmarks.common import report


def load(name: str) -> dict:
    """Read a results file."""
    return json.loads((report.RESULTS / f"{name}.json").read_text())


def command(results: dict) -> str:
    """Return the command of a results file by today's name: older files have `benchmarks/NAME.py`."""

    def module(found: re.Match[str]) -> str:
        (path,) = report.RESULTS.parent.glob(f"*/{found[1]}.py")
        return f"-m benchmarks.{path.parent.name}.{path.stem}"

    return re.sub(r"benchmarks/(\w+)\.py", module, results["command"])


def heading(title: str, results: dict) -> str:
    """Return the title of a section, and what ran, when and where."""
    machine = results["machine"]
    return (
        f"\n## {title}\n\n`{command(results)}`, {results['date']}, {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['system']}.\n"
    )


def table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a table; all columns except the first hold numbers."""
    rule = ["---"] + ["---:"] * (len(columns) - 1)
    return "\n" + "\n".join("| " + " | ".join(row) + " |" for row in [columns, rule, *rows]) + "\n"


def verdicts(figures: list[dict]) -> str:
    """Return a table of what `gpu_figures.verdict` judged."""
    rows = [
        [
            f["name"],
            f"{f['value']:.3g}{f['unit']}",
            f"{'<' if f['below'] else '>='} {f['bound']:g}{f['unit']}",
            "yes" if f["passed"] else "no",
        ]
        for f in figures
    ]
    return table(["figure", "measured", "aim", "reached"], rows)
