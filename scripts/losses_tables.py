"""Write the sections of docs/losses.md from the classes of the losses.

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
COMMON = (  # what the page says once, for all losses whose sections do not say otherwise
    "Intercept: optional",
    "Weights: of rows",
    "Work: O(m); line search exact, on stored margins",
    "Ranks: sums over ranks; GPU: all of a pass",
)


def table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return (
        "\n".join("| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns), *escaped]) + "\n"
    )


def sections() -> str:
    """Return a section per loss, below one per kind of labels."""
    found, before = [], ""
    for name, cls in losses.LOSSES.items():
        together = cls.task == "binary" and issubclass(cls, losses.JointLoss)
        title = "### Measures of two classes\n" if together else f"### Labels: {LABELS[cls.task]}\n"
        if title != before:
            before = title
            found.append(title)
        found.append(f"#### `{name}`\n\n`{cls.about.formula}`\n\n{_properties(name)}")
    return "\n".join(found)


def _properties(name: str) -> str:
    """Return what holds for a loss and not for all, as a list."""
    cls = losses.LOSSES[name]
    about = cls.about
    lines = []
    if cls.parameter is not None:
        spec = losses.PARAMETERS[cls.parameter]
        lines.append(f"Parameter `{cls.parameter}` = {cls.default_text or f'{spec.default:g}'}: {spec.help}")
    intercept = "always" if cls.needs_intercept else "no" if cls.no_intercept else "optional"
    lines.append(f"Intercept: {'one per class' if cls.several else intercept}")
    lines.append(
        f"Weights: {'of groups' if cls.needs_groups else 'of rows' if about.weights else '0 or equal'}"
    )
    lines.append(f"Work: {about.complexity}; line search {about.line_search}")
    lines.append(f"Ranks: {about.distributed}; GPU: {about.gpu}")
    lines.append(f"Reference: {about.reference}")
    return "".join(f"- {line}\n" for line in lines if line not in COMMON)


TABLES = {"losses": sections}


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
