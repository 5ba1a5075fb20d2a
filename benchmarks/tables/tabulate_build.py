"""The table of CONTRIBUTING.md on the time that each part of the build and of the tests takes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.tables.pages import load, table

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
BEGIN, END = "<!-- times: begin -->\n", "<!-- times: end -->\n"


def times() -> str:
    """Return the table and what was measured."""
    results = load("build")
    machine = results["machine"]
    parts = results["parts"]
    seconds = {row["part"]: row["seconds"] for row in parts}
    first, again = parts[3]["part"], parts[-1]["part"]
    common = sum(row["seconds"] for row in parts[4:-1])
    sums = [
        ["`make test` in all, without nvcc", seconds[parts[2]["part"]] + common],
        ["`make test` in all, with nvcc", seconds[first] + common],
    ]
    rows = [[row["part"], f"{row['seconds'] / 60:.1f}", f"{row['cpu_seconds'] / 60:.1f}"] for row in parts]
    rows[-1:-1] = [[name, f"{total / 60:.1f}", ""] for name, total in sums]
    assert again == "`make test` once more"
    return (
        f"From fresh clones with empty caches, by `{results['command']}`, {results['date']}, "
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}:\n"
        + table(["part", "minutes", "of all cores"], rows)
    )


def page() -> str:
    """Return CONTRIBUTING.md with the table of the results file."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + times() + END + rest.partition(END)[2]
