"""Write the tables of docs/losses.md from the classes of the losses.

python scripts/losses_tables.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from bmrm import losses

PAGE = Path(__file__).parents[1] / "docs" / "losses.md"
LABELS = {
    "binary": "two classes",
    "regression": "real",
    "count": "at least 0",
    "novelty": "none",
    "multiclass": "K classes",
    "multilabel": "any of K labels per row",
    "label_ranking": "any of K labels per row",
    "ranking": "relevances, with groups",
    "ordinal": "ordered classes",
}


def table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return (
        "\n".join("| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns), *escaped]) + "\n"
    )


def losses_table() -> str:
    """Return the table of formulas and properties."""
    columns = ["loss", "formula", "reference", "complexity", "line search", "weights", "distributed", "GPU"]
    rows = []
    for name, cls in losses.LOSSES.items():
        about = cls.about
        weights = "of groups" if cls.needs_groups else "yes" if about.weights else "0 or equal"
        row = [f"`{name}`", f"`{about.formula}`", about.reference, about.complexity, about.line_search]
        rows.append([*row, weights, about.distributed, about.gpu])
    return table(columns, rows)


def parameters_table() -> str:
    """Return the table of labels, parameters and intercepts."""
    rows = []
    for name, cls in losses.LOSSES.items():
        parameter = ""
        if cls.parameter is not None:
            spec = losses.PARAMETERS[cls.parameter]
            parameter = f"`{cls.parameter}` = {cls.default_text or f'{spec.default:g}'}: {spec.help}"
        intercept = "always" if cls.needs_intercept else "no" if cls.no_intercept else "yes"
        intercept = "one per class" if cls.several else intercept
        rows.append([f"`{name}`", LABELS[cls.task], parameter, intercept])
    return table(["loss", "labels", "parameter", "intercept"], rows)


TABLES = {"losses": losses_table, "parameters": parameters_table}


def replace_tables(text: str, tables: Mapping[str, Callable[[], str]], page: Path) -> str:
    """Return the text of a page with new tables; comments in the page name them."""
    for name, make in tables.items():
        block = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->\n)", re.DOTALL)
        text, count = block.subn(lambda match, make=make: f"{match[1]}\n{make()}\n{match[2]}", text)
        if count != 1:
            raise SystemExit(f"{page}: found {count} tables {name}, expected one")
    return text


def page(text: str) -> str:
    """Return the page with new tables."""
    return replace_tables(text, TABLES, PAGE)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(f"written to {PAGE}")
