"""What the sections of docs/performance.md are made with."""

from __future__ import annotations

import json

import report


def load(name: str) -> dict:
    """Read a results file."""
    return json.loads((report.RESULTS / f"{name}.json").read_text())


def heading(title: str, results: dict) -> str:
    """Open a section: what ran, when and where."""
    machine = results["machine"]
    return (
        f"\n## {title}\n\n`{results['command']}`, {results['date']}, {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['system']}.\n"
    )


def table(columns: list[str], rows: list[list[str]]) -> str:
    """Lay out a table; all columns but the first hold numbers."""
    rule = ["---"] + ["---:"] * (len(columns) - 1)
    return "\n" + "\n".join("| " + " | ".join(row) + " |" for row in [columns, rule, *rows]) + "\n"


def verdicts(figures: list[dict]) -> str:
    """Lay out what gpu_figures.verdict judged."""
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
