"""The table of CONTRIBUTING.md on the time that each part of the build and of the tests takes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.tables.pages import load, table

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
BEGIN, END = "<!-- times: begin -->\n", "<!-- times: end -->\n"


def times() -> str:
    """Return the table of the parts that succeeded, and what was measured."""
    results = load("build")
    machine, parts = results["machine"], results["parts"]
    rows = [
        [row["part"], f"{row['seconds'] / 60:.1f}", f"{row['cpu_seconds'] / 60:.1f}"]
        for row in parts
        if row["status"] == 0
    ]
    return (
        f"\nFrom fresh clones with empty caches, by `{results['command']}`, {results['date']}, "
        f"{machine['cpu']}, {machine['cores']} cores:\n"
        + table(["part", "minutes", "processor minutes"], rows)
        + "\n"
    )


def page() -> str:
    """Return CONTRIBUTING.md with the table of the results file."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + times() + END + rest.partition(END)[2]
